"""Finds the words of a query in a text, to set them off where they are shown."""

import re
from collections.abc import Iterable, Iterator

from pixi.text.normalising import normalise
from pixi.text.terms import pieces

_WORD = re.compile(r"\w+")
_MOST = 64
"""Words of a query that are looked for."""

_STEM = 4
"""Letters from which on a word is found with another ending, too."""


def spans_of(queries: Iterable[str], text: str) -> Iterator[tuple[int, int]]:
    """Where words of the queries stand in the text, as (start, end); some may overlap.

    Words are compared without regard to case and endings; where a script writes no blanks, by pairs.
    """
    words: list[str] = []
    pairs: dict[str, None] = {}
    for query in queries:
        for kind, piece, _ in pieces(normalise(query[:4_000])):
            if kind == "word":
                words.append(piece)
            else:
                pairs.update(dict.fromkeys(piece[at : at + 2] for at in range(max(1, len(piece) - 1))))
    for match in _WORD.finditer(text):
        shown = normalise(match[0])
        if any(_same(word, shown) for word in words[:_MOST]):
            yield match.span()
    for pair in list(pairs)[:_MOST]:
        for match in re.finditer(re.escape(pair), text):
            yield match.span()


def _same(word: str, shown: str) -> bool:
    if word == shown:
        return True
    short, long = sorted((word, shown), key=len)
    return len(short) >= _STEM and len(long) - len(short) <= 3 and long.startswith(short[:-1])
