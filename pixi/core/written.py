"""Commands as the history holds them: one clean form, that is read again as exactly what was performed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from pixi.core.control_words import broken
from pixi.core.language import CommandEnded, CommandStream

SILENCE = "[SEND]"
"""What stands where nothing was said: chat templates want a line there, and the language has this one."""

_HARMLESS = re.compile(r"[^\[\]【】［］`\\<]*")  # nothing in it that the command language could stumble over
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_BRACKET = re.compile(r"[\[\]【】［］]")
_TICK = "ˋ"  # looks like a backtick
_CODE_BLOCK = "```\ncode\n```"


def written(name: str, argument: str, names: Mapping[str, Iterable[str]], target: int = 0) -> str:
    """A command as a model should have written it: `[SEND: hi]`, or `[SEND #3: hi]` with a target.

    Brackets that do not balance are escaped and control words broken, so that the reading of
    `[NAME: argument]` gives `argument`.
    """
    capitals = name.upper() if name.upper().lower() == name else name
    opening = f"[{capitals} #{target}:" if target else f"[{capitals}:"
    if not argument:
        return f"{opening}]" if target else f"[{capitals}]"
    plain = f"{opening} {argument}]"
    if _HARMLESS.fullmatch(argument):
        return plain
    argument_as_read, argument = argument, broken(argument)
    # The worst that may follow in its line: a fence, which one that was never closed would pair with.
    tail, end = f"\n[{capitals}: {_CODE_BLOCK}]", CommandEnded(name, _CODE_BLOCK)
    forms = (argument, _escaped_outside_code(argument), _escaped(argument))
    for form, room in product(forms, ("", " ", "\n")):  # room: `\\]` at the end would be a literal bracket
        text = f"{opening} {form}{room}]"
        alone = [CommandEnded(name, argument_as_read, target=target)]
        if read_again(text, names) == alone and read_again(text + tail, names) == [*alone, end]:
            return text
    closed = f"{opening} {_escaped_outside_code(argument)}\n```\n]"
    if len(read_again(closed, names)) == 1 and read_again(closed + tail, names)[1:] == [end]:
        return closed
    return f"{opening} {_escaped(argument.replace('`', _TICK))} ]"


def read_again(text: str, names: Mapping[str, Iterable[str]]) -> list[CommandEnded]:
    """The whole commands in a text; a broken one counts as none."""
    stream = CommandStream(names)
    events = [*stream.feed(text), *stream.close()]
    return [event for event in events if isinstance(event, CommandEnded) and event.complete]


def joined(commands: Sequence[tuple[str, str]]) -> str:
    """Clean commands, each with the separator that stood before it, as one text."""
    return "".join(
        text if number == 0 else separator + text for number, (separator, text) in enumerate(commands)
    )


def separator_of(between: str) -> str:
    """What joins two commands: the reply's own white space where it is short, else a line break."""
    return between if len(between) <= 2 and (not between or between.isspace()) else "\n"


def _escaped(text: str) -> str:
    return _BRACKET.sub(lambda bracket: "\\" + bracket[0], text)


def _escaped_outside_code(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))
