"""Rows of a terminal: styled pieces of text, broken where they are too long."""

import re
from collections.abc import Iterable, Sequence

from prompt_toolkit.utils import get_cwidth

Fragment = tuple[str, str]
"""A style class such as `class:note`, and text. As prompt_toolkit wants them."""

Line = list[Fragment]


def wrapped(text: str, columns: int) -> list[str]:
    """The text in rows of at most so many columns, broken between words where that is possible.

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
    """How many rows of a terminal the lines take."""
    return sum(_rows(line, columns) for line in lines)


def tail(lines: Sequence[Line], columns: int, room: int) -> list[Line]:
    """The last lines that fit into `room` rows; at least the last one."""
    kept: list[Line] = []
    for line in reversed(lines):
        room -= _rows(line, columns)
        if room < 0 and kept:
            break
        kept.append(line)
    return kept[::-1]


def reflowed(rows: Iterable[str], columns: int) -> int:
    """How many rows a terminal makes of rows that were drawn, once it is only so many columns wide."""
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
    cells = sum(get_cwidth(text) for _, text in line)
    return max(1, -(-cells // max(1, columns)))
