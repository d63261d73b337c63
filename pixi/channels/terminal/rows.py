"""Rows on a terminal: styled text cut to its width, frames, Markdown and pictures."""

import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO

from prompt_toolkit.utils import get_cwidth

from pixi.core.message import Card, Image
from pixi.core.untrusted import printable, printable_line
from pixi.models.pictures import fit_for_model

Fragment = tuple[str, str]
"""A style class such as `class:note`, and text. As prompt_toolkit wants them."""

Line = list[Fragment]


def wrapped(text: str, columns: int) -> list[str]:
    """Return the text in rows of at most so many columns, broken between words where that is possible.

    Space at a break is dropped; at the end of the text it stays, since more may be written there.
    """
    rows = [""]
    room = columns = max(columns, 2)  # two: any character fits then
    for word in re.findall(r"\S+\s*|\s+", text):
        wide = get_cwidth(word.rstrip())
        for piece in [word] if wide <= columns else word:
            if get_cwidth(piece.rstrip()) > room:
                rows[-1] = rows[-1].rstrip()
                rows += [""] if rows[-1] else []
                room = columns
            rows[-1] += piece
            room -= get_cwidth(piece)
    return rows


def height(lines: Iterable[Line], columns: int) -> int:
    """Return how many rows of a terminal the lines take."""
    return sum(_rows(line, columns) for line in lines)


def tail(lines: Sequence[Line], columns: int, room: int) -> list[Line]:
    """Return the last lines that fit into `room` rows; at least the last one."""
    kept: list[Line] = []
    for line in reversed(lines):
        room -= _rows(line, columns)
        if room < 0 and kept:
            break
        kept.append(line)
    return kept[::-1]


def reflowed(rows: Iterable[str], columns: int) -> int:
    """Return how many rows a terminal makes of rows that were drawn, once it is only so many columns wide."""
    count = 0
    for row in rows:
        count, taken = count + 1, 0
        for character in row.rstrip():
            wide = get_cwidth(character)
            if taken + wide > columns:
                count, taken = count + 1, 0
            taken += wide
    return count


def _rows(line: Line, columns: int) -> int:
    return max(1, -(-_width(line) // max(1, columns)))


_WIDEST = 72  # columns of a frame; longer lines are hard to read
_MOST_ROWS = 60  # of one part of a card; the rest is left out
_MOST_FIELDS = 25
_NARROW_NAME = 24  # columns that a field's name may have
_EDGES, _MARGIN = 4, 2


def framed(card: Card, columns: int, picture: Sequence[Line] = ()) -> list[Line]:
    """Return a card in a frame, as lines for a terminal of so many columns.

    Args:
        card: strangers' words; nothing in them drives the terminal.
        columns: of the terminal.
        picture: its picture, drawn; none: it is told of.
    """
    inner = max(8, min(_WIDEST, columns - _MARGIN) - _EDGES)
    parts = [part for part in _parts(card, inner, picture) if part]
    rows = [row for number, part in enumerate(parts) for row in ([[], *part] if number else part)]
    title = printable_line(card.title)
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
    """Yield what is below the title, part by part; between two of them there is an empty row."""
    yield [[("class:message", row)] for row in _framed_rows(card.text, inner)]
    yield list(_table(card, inner))
    if card.picture is not None:
        yield list(picture) or [[("class:aside", row)] for row in wrapped(_told(card.picture), inner)]
    yield [[("class:link", row)] for row in wrapped(printable_line(card.link), inner) if row]


def _told(picture: str | Image) -> str:
    """Return what stands for a picture that cannot be drawn: its address, or its kind and size."""
    if isinstance(picture, str):
        return f"[picture: {printable_line(picture)}]"
    return f"[picture: {printable_line(picture.media_type)}, {max(1, round(len(picture.data) / 1_000)):,} kB]"


def _table(card: Card, inner: int) -> Iterator[Line]:
    """Yield the fields: names beside values, or above them where there is no room."""
    fields = [(printable_line(field.name), field.value) for field in card.fields[:_MOST_FIELDS]]
    names = max((get_cwidth(name) for name, _ in fields), default=0)
    beside = names <= min(_NARROW_NAME, inner // 3)
    for name, value in fields:
        if not beside:
            yield from ([("class:name", row)] for row in wrapped(name, inner))
        margin = names + 2 if beside else 2
        for number, row in enumerate(_framed_rows(value, inner - margin)):
            first = beside and not number
            yield [
                ("class:name", name) if first else ("", ""),
                ("", " " * (margin - (get_cwidth(name) if first else 0))),
                ("class:message", row),
            ]


def _framed_rows(text: str, columns: int) -> list[str]:
    lines = printable(text).replace("\t", "    ").strip().split("\n")
    rows = [row for line in lines for row in wrapped(line, columns)] if any(lines) else []
    return rows if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS - 1], "…"]


def _width(row: Line) -> int:
    return sum(get_cwidth(text) for _, text in row)


_FENCE = re.compile(r"\s{0,3}(?:```|~~~)[\w+-]*\s*$")
_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
)


# Markdown as a terminal shows it: bold, italic and code, without the signs that made them so.
#
# Only what chats use is read: `**bold**`, `*italic*`, `` `code` ``, fences, and headings. Everything else
# stays as it was written, and so does a sign that nothing closes: while a message grows, it may be closed
# yet.


def markdown_rows(text: str, style: str, columns: int, *, plain: bool = False) -> Iterator[Line]:
    """Yield a message as rows of a terminal.

    Args:
        text: what was written, in one or several lines.
        style: the class of plain words, e.g. `class:message`.
        columns: how wide a row may be.
        plain: it is no Markdown, and shown to the letter.
    """
    fenced = False
    for line in text.split("\n"):
        if not plain and _FENCE.match(line):
            fenced = not fenced
            continue
        indent = min(len(line) - len(line.lstrip(" ")), columns // 3)
        words = line[indent:]
        whole = (f"{style} class:code" if fenced else style, words)
        fragments = [whole] if fenced or plain else list(_fragments(words, style))
        for row in _broken(fragments, columns - indent):
            yield [("", " " * indent), *row] if indent else row


def _fragments(line: str, style: str) -> Iterator[Fragment]:
    if heading := _HEADING.match(line):
        line, style = line[heading.end() :], f"{style} class:bold"
    at = 0
    for found in _INLINE.finditer(line):
        if found.start() > at:
            yield style, line[at : found.start()]
        kind = str(found.lastgroup)
        words = (f"{style} class:{kind}", found[kind])
        yield from [words] if kind == "code" else _fragments(words[1], words[0])
        at = found.end()
    if at < len(line) or not line:
        yield style, line[at:]


def _broken(fragments: list[Fragment], columns: int) -> Iterator[Line]:
    """Break a line into rows. What `wrapped` drops between two rows is space alone."""
    text = "".join(words for _, words in fragments)
    styles = [style for style, words in fragments for _ in words]
    at = 0
    for row in wrapped(text, columns):
        at = text.index(row, at)
        line: Line = []
        for style, character in zip(styles[at : at + len(row)], row, strict=True):
            if line and line[-1][0] == style:
                line[-1] = (style, line[-1][1] + character)
            else:
                line.append((style, character))
        at += len(row)
        yield line or [("", "")]


_COLUMNS, _ROWS = 48, 14
_HALF = "▀"


def drawn(data: bytes) -> list[Line]:
    """A picture as lines, at most 48 columns wide and 14 rows high. Takes long for a large one: a thread's.

    Raises:
        PictureError: it cannot be read.
    """
    from PIL import Image as Pillow

    small = fit_for_model(data, longest_side=2 * max(_COLUMNS, 2 * _ROWS))  # from here on it is our own
    with Pillow.open(BytesIO(small.data)) as opened:
        picture = opened.convert("RGBA")
    picture.thumbnail((_COLUMNS, 2 * _ROWS))
    ground = Pillow.new("RGBA", (picture.width, picture.height + picture.height % 2), "black")
    ground.alpha_composite(picture)
    dots = ground.convert("RGB").tobytes()

    def colour(column: int, row: int) -> str:
        at = 3 * (row * ground.width + column)
        return f"#{dots[at : at + 3].hex()}"

    return [
        [(f"fg:{colour(column, row)} bg:{colour(column, row + 1)}", _HALF) for column in range(ground.width)]
        for row in range(0, ground.height, 2)
    ]
