"""Entries that are too long to be looked at as a whole, cut down to what is most like a question."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from math import log

from pixi.knowledge.entry import Entry, Section
from pixi.knowledge.index.terms import pieces
from pixi.knowledge.normalising import normalise

MOST_CHARACTERS = 1_000_000
"""That are looked at for one question: half a second's work, and as much as a helper is given to read."""

_PIECE = 8_000  # characters; a piece ends with a line or a word, but for what has neither
_MOST_KEYS = 32
_LONG_WORD = 5  # letters from which on a word is looked for without its ending


def narrowed(question: str, entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], str]:
    """The entries, or what of them is most like the question, in its order; and what to tell of that.

    What is cut out says the same of its place as before. It takes about a second for 100 million characters.
    """
    whole = sum(len(section.text) for entry in entries for section in entry.sections)
    if whole <= MOST_CHARACTERS:
        return tuple(entries), ""
    cut = [
        (number, section, start, end)
        for number, entry in enumerate(entries)
        for section in entry.sections
        for start, end in _pieces(section.text)
    ]
    keys = _keys(question)
    held = [_held(section.text[start:end].casefold(), keys) for _, section, start, end in cut]
    weights = [log(1 + len(cut) / (1 + sum(mask >> at & 1 for mask in held))) for at in range(len(keys))]
    worth = [sum(weight for at, weight in enumerate(weights) if mask >> at & 1) for mask in held]
    # Of those that are alike, the first: a long text says at its beginning what it is about.
    order = sorted(range(len(cut)), key=lambda at: -worth[at])
    sizes = accumulate(cut[at][3] - cut[at][2] for at in order)
    best = [at for at, size in zip(order, sizes, strict=True) if size <= MOST_CHARACTERS]
    kept: list[list[Section]] = [[] for _ in entries]
    for at in sorted(best):
        number, section, start, end = cut[at]
        text, line = section.text[start:end], section.line_at(start)
        kept[number].append(replace(section, text=text, line=line))
    read = sum(len(section.text) for sections in kept for section in sections)
    shorter = tuple(
        replace(entry, sections=tuple(sections)) for entry, sections in zip(entries, kept, strict=True)
    )
    return shorter, f"of {whole:,} characters only the {read:,} most like the question were looked at"


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while len(text) - start > _PIECE:
        least, most = start + _PIECE // 2, start + _PIECE
        ends = (text.rfind(mark, least, most) for mark in ("\n\n", "\n", ". ", " "))
        end = next((found + 1 for found in ends if found >= 0), most)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _keys(question: str) -> list[str]:
    """What is looked for: words, as written and as an index would, and pairs of what has no blanks."""
    keys: dict[str, None] = {}
    for spelling in (question.casefold(), normalise(question)):
        for kind, piece, _ in pieces(spelling):
            if kind == "word":
                keys[piece if len(piece) < _LONG_WORD else piece[: max(_LONG_WORD - 1, len(piece) - 2)]] = (
                    None
                )
            else:
                keys |= dict.fromkeys(piece[at : at + 2] for at in range(max(1, len(piece) - 1)))
    return list(keys)[:_MOST_KEYS]


def _held(text: str, keys: Sequence[str]) -> int:
    """Which of the keys stand in the text, as bits."""
    mask = 0
    for at, key in enumerate(keys):
        if key in text:
            mask |= 1 << at
    return mask
