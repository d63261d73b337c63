"""What a message carries besides its words, as a persona is told of it: pictures and files."""

import re
from dataclasses import dataclass

from pixi.core.message import Image

_BLOCK = re.compile(r'(?:^|\n)\[(?:picture|file) "')
_NAMED = re.compile(r'(?:^|\n)\[(picture|file) "(.*?)"(:\]|[,;\]])')


@dataclass(frozen=True, slots=True)
class Attached:
    """What a message carries.

    Attributes:
        text: follows the message's own words; "" where there is nothing to be told. A stranger's words.
        images: ready for a model that sees.
    """

    text: str = ""
    images: tuple[Image, ...] = ()


def told_picture(name: str, described: str = "", why_not: str = "") -> str:
    """A picture by its name; `why_not`: why it is not shown, in a few words."""
    described = f", described as: {described}" if described else ""
    return f'[picture "{name}"{described}{f"; {why_not}" if why_not else ""}]'


def told_text(name: str, text: str, characters: int) -> str:
    """A file with its text, as far as it has so many characters."""
    return f'[file "{name}":]\n{clipped(text.strip(), characters)}\n[end of "{name}"]'


def told_size(size: int) -> str:
    """Bytes, for people."""
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{max(size, 100) / 1_000:.1f} kB"


def why_not_shown(sees: bool) -> str:
    """Why a picture is only named; `sees`: the model could be shown it."""
    return "there are more than can be shown" if sees else "you cannot see pictures here"


def clipped(text: str, characters: int) -> str:
    """The text within so many characters; where something is missing, how much is told at its end."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}\n[… {len(text) - characters:,} more characters, not read]"


def words_of(text: str) -> str:
    """The words of a message as it is kept, without what it carries."""
    block = _BLOCK.search(text)
    return text if block is None else text[: block.start()]


def carried_by(text: str) -> list[tuple[str, bool]]:
    """What a message carries, as it is kept: names, each with whether it is a picture."""
    found: list[tuple[str, bool]] = []
    block = _BLOCK.search(text)
    named = block and _NAMED.match(text, block.start())
    while named:
        found.append((named[2], named[1] == "picture"))
        at = named.end()
        if named[3] == ":]":  # its text may hold anything
            at = max(at, text.find(f'\n[end of "{named[2]}"]', at))
        named = _NAMED.search(text, at)
    return found
