"""What a person wrote, taken out of what is kept of a talk in which others took part."""

import re
from collections.abc import Iterable, Iterator

from pixi.core.lines import UserLine
from pixi.core.message import Image
from pixi.core.prompt import told_id

_NAME = re.compile(r'"[^"]*" \(id [^)]*\)')
_PICTURES = re.compile(r"\b(\d+) pictures?\b")
_TELLING = re.compile(r"\w{6,}|(?=\w*\d)\w{3,}")  # long words, and those with a number in them


def without(line: UserLine, person: str) -> UserLine | None:
    """A stamped line without the words, the name and the pictures of a person, by their id.

    None where nothing is left of it, or where it does not tell whose words it holds.
    """
    time, *rest = line.text.split("\n")
    blocks = list(_blocks(rest))
    if not all(_NAME.search(head) for head, *_ in blocks):
        return None  # no names, or the middle was left out: what comes after may be anybody's
    name = f'" {told_id(person)}'
    kept = [block for block in blocks if name not in block[0]]
    if not kept:
        return None
    if len(kept) == len(blocks):
        return line
    images = _of_those_kept(line.images, blocks, kept)
    return UserLine("\n".join([time, *(text for block in kept for text in block)]), images)


def tells_of(text: str, names: Iterable[str], words: Iterable[str], *, besides: str) -> bool:
    """Whether a text names a person, or repeats what tells of their words.

    Args:
        text: what somebody else said in answer.
        names: the person's.
        words: what they wrote.
        besides: what others wrote, which may be repeated.
    """
    text, besides = text.casefold(), besides.casefold()
    if any(_is_named(name.casefold(), text) for name in names if name.strip()):
        return True
    telling = {word for said in words for word in _TELLING.findall(said.casefold())}
    return any(word in text and word not in besides for word in telling)


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text) is not None


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Heads, each with the quoted lines under it."""
    block: list[str] = []
    for line in lines:
        if block and not line.startswith(">"):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _of_those_kept(
    images: tuple[Image, ...], blocks: Iterable[list[str]], kept: Iterable[list[str]]
) -> tuple[Image, ...]:
    """The pictures of the blocks that are kept; none where it is not certain whose they are."""
    owners = [id(block) for block in blocks for _ in range(_pictures(block[0]))]
    if len(owners) != len(images):
        return ()
    ids = {id(block) for block in kept}
    return tuple(image for image, owner in zip(images, owners, strict=True) if owner in ids)


def _pictures(head: str) -> int:
    found = _PICTURES.search(_NAME.sub("", head))
    return int(found[1]) if found else 0
