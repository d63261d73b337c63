"""Names and titles that strangers gave, made fit for one line of text."""

import os
import unicodedata
from pathlib import Path

_UNFIT = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""What turns the direction of writing, and makes a line look like another. Joiners stay: words need them."""


def on_one_line(text: str, longest: int = 300) -> str:
    """Return the text on one line, without what a terminal would obey, and cut where it is too long."""
    if not text.isascii() or not text.isprintable():
        text = "".join(_fit(character) for character in text)
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def shown(path: Path) -> str:
    """Return the path as a person can be shown it, whatever bytes are in it."""
    return on_one_line(os.fsencode(path).decode(errors="replace"), longest=1_000)


def _fit(character: str) -> str:
    if character in "\t\n\r\x0b\x0c\x85\u2028\u2029":
        return " "
    if character in _TURNS:
        return ""
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _UNFIT else character
