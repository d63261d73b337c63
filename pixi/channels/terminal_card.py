"""A card as tidy lines, for a pipe and for logs."""

from collections.abc import Iterator

from pixi.channels.terminal_text import one_line, printable
from pixi.core.card import Card
from pixi.core.message import Image
from pixi.core.picture import Picture


def card_lines(card: Card) -> list[str]:
    """A card as plain lines: the title, and what is below it indented. Nothing in it drives a terminal."""
    return [one_line(card.title), *(f"  {line}".rstrip() for line in _below(card))]


def picture_told(picture: str | Image) -> str:
    """What stands for a picture where none can be shown: its address, or its kind and size."""
    if isinstance(picture, str):
        return f"[picture: {one_line(picture)}]"
    return f"[picture: {one_line(picture.media_type)}, {max(1, round(len(picture.data) / 1_000)):,} kB]"


def card_of(picture: Picture) -> Card:
    """A picture as a card: it itself below its words, then whose it is, and where."""
    return Card(picture.words, picture.credit, picture=picture.file, link=picture.link)


def _below(card: Card) -> Iterator[str]:
    if text := printable(card.text).strip():
        yield from text.split("\n")
    for field in card.fields:
        name, (first, *others) = one_line(field.name), printable(field.value).strip().split("\n")
        yield f"{name}: {first}"
        yield from (f"  {other}" for other in others)
    if card.link:
        yield one_line(card.link)
    if card.picture is not None:
        yield picture_told(card.picture)
