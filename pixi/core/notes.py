"""Private notes of old turns, which leave the history before anything else does."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pixi.core.language import NOTE
from pixi.core.lines import AssistantLine, Line
from pixi.core.written import SILENCE, read_again, written

_WRITTEN = "[NOTE"  # as every note begins that the history holds


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
