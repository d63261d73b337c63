"""Which of the messages that were read have to do with some words, in any language; and where in them."""

import asyncio
from collections.abc import Sequence

from pixi.knowledge.index.passages import Cutter
from pixi.knowledge.index.terms import Analysis, pieces, terms_of
from pixi.knowledge.normalising import normalise
from pixi.knowledge.relevance import most_relevant

_LONGEST = 400  # characters of the words
_AT_ONCE = 500  # texts that are compared with each other


async def best_first(words: str, texts: Sequence[str], limit: int) -> list[int]:
    """The places of the texts that have anything to do with the words, best first.

    Of equals the earlier one comes first; without words the first ones are given.
    """
    words = words[:_LONGEST].strip()
    if not words:
        return list(range(min(limit, len(texts))))
    return await asyncio.to_thread(_ranked, words, texts, limit)


def _ranked(words: str, texts: Sequence[str], limit: int) -> list[int]:
    found = sorted(
        (-each.score, start + each.place)
        for start in range(0, len(texts), _AT_ONCE)
        for each in most_relevant(words, texts[start : start + _AT_ONCE])
    )
    best = -found[0][0] if found else 0.0
    return [place for score, place in found if -score >= best / 2][:limit]


def snippet(text: str, words: str) -> str:
    """The stretch of a text that says most about the words, on one line, within 240 characters."""
    terms: dict[str, float] = {}
    for kind, piece, _ in pieces(normalise(words[:_LONGEST])):
        for term in [piece] if kind == "word" else terms_of(kind, piece):
            terms[term] = 1.0
    return Cutter(terms, Analysis(), ()).snippet(text)
