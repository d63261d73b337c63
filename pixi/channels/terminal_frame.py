"""A card in a frame, for whoever looks at it on a terminal."""

from collections.abc import Iterator, Sequence

from prompt_toolkit.utils import get_cwidth

from pixi.channels.terminal_card import picture_told
from pixi.channels.terminal_rows import Fragment, Line, wrapped
from pixi.channels.terminal_text import one_line, printable
from pixi.core.card import Card

_WIDEST = 72  # columns of a frame; longer lines are hard to read
_MOST_ROWS = 60  # of one part of a card; the rest is left out
_MOST_FIELDS = 25
_NARROW_NAME = 24  # columns that a field's name may have
_EDGES, _MARGIN = 4, 2


def framed(card: Card, columns: int, picture: Sequence[Line] = ()) -> list[Line]:
    """A card in a frame, as lines for a terminal of so many columns.

    Args:
        card: strangers' words; nothing in them drives the terminal.
        columns: of the terminal.
        picture: its picture, drawn; none: it is told of.
    """
    inner = max(8, min(_WIDEST, columns - _MARGIN) - _EDGES)
    parts = [part for part in _parts(card, inner, picture) if part]
    rows = [row for number, part in enumerate(parts) for row in ([[], *part] if number else part)]
    title = one_line(card.title)
    heading = title if get_cwidth(title) <= inner - 1 else ""
    if title and not heading:
        rows = [*([("class:title", row)] for row in wrapped(title, inner)), *([[], *rows] if rows else [])]
    width = max([get_cwidth(heading) + 1, *map(_width, rows)])
    edge: Fragment = ("class:frame", "│")
    return [
        _top(heading, width),
        *([("", "  "), edge, ("", " "), *row, ("", " " * (width - _width(row) + 1)), edge] for row in rows),
        [("", "  "), ("class:frame", f"╰{'─' * (width + 2)}╯")],
    ]


def _top(heading: str, width: int) -> Line:
    if not heading:
        return [("", "  "), ("class:frame", f"╭{'─' * (width + 2)}╮")]
    rest = "─" * (width - get_cwidth(heading))
    return [("", "  "), ("class:frame", "╭ "), ("class:title", heading), ("class:frame", f" {rest}╮")]


def _parts(card: Card, inner: int, picture: Sequence[Line]) -> Iterator[list[Line]]:
    """What is below the title, part by part; between two of them there is an empty row."""
    yield [[("class:message", row)] for row in _rows(card.text, inner)]
    yield list(_table(card, inner))
    if card.picture is not None:
        told = [("class:aside", row) for row in wrapped(picture_told(card.picture), inner)]
        yield list(picture) or [[row] for row in told]
    yield [[("class:link", row)] for row in wrapped(one_line(card.link), inner) if row]


def _table(card: Card, inner: int) -> Iterator[Line]:
    """The fields: names beside values, or above them where there is no room."""
    fields = [(one_line(field.name), field.value) for field in card.fields[:_MOST_FIELDS]]
    names = max((get_cwidth(name) for name, _ in fields), default=0)
    beside = names <= min(_NARROW_NAME, inner // 3)
    for name, value in fields:
        if not beside:
            yield from ([("class:name", row)] for row in wrapped(name, inner))
        margin = names + 2 if beside else 2
        for number, row in enumerate(_rows(value, inner - margin)):
            first = beside and not number
            yield [
                ("class:name", name) if first else ("", ""),
                ("", " " * (margin - (get_cwidth(name) if first else 0))),
                ("class:message", row),
            ]


def _rows(text: str, columns: int) -> list[str]:
    lines = printable(text).replace("\t", "    ").strip().split("\n")
    rows = [row for line in lines for row in wrapped(line, columns)] if any(lines) else []
    return rows if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS - 1], "…"]


def _width(row: Line) -> int:
    return sum(get_cwidth(text) for _, text in row)
