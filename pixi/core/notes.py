"""Private notes: read out of the history, and taken out of old turns before anything else is."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pixi.core.citing import is_trace
from pixi.core.language import BUILT_IN, NOTE
from pixi.core.lines import AssistantLine, Line
from pixi.core.written import SILENCE, read_again, written

_WRITTEN = "[NOTE"  # as every note begins that the history holds


def notes_in(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the thoughts that were written down in lines of the history."""
    return tuple(note for note in all_notes(lines) if not is_trace(note))


def all_notes(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return those, and the notes that tell where something is from."""
    return tuple(
        command.argument
        for line in lines
        if isinstance(line, AssistantLine)
        for command in read_again(line.text, BUILT_IN)
        if command.name == NOTE and command.argument
    )


def without_notes(line: Line, names: Mapping[str, Iterable[str]]) -> Line:
    """The line without the notes in it; silence stands where there was nothing else.

    Args:
        line: of the history.
        names: the commands, with their aliases.
    """
    if not isinstance(line, AssistantLine) or _WRITTEN not in line.text:
        return line
    acts = read_again(line.text, names)
    kept = [act for act in acts if act.name != NOTE]
    if len(kept) == len(acts):
        return line  # it stands inside of a message
    text = "\n".join(written(act.name, act.argument, names, act.target) for act in kept)
    return replace(line, text=text if text or line.calls else SILENCE)
