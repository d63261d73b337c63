"""Which passages the terms of a query find, and in what order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pixi.knowledge.index.asking import Asked

if TYPE_CHECKING:
    import tantivy

_TITLE = 0.3
_GRAM = 0.15
"""What a term counts in the title, and a piece of a word, beside a word in the text."""

_NEAR = 0.1
_SLOP = 3
"""What it counts that two neighbours of the query stand at most three words apart."""

_LOOKED_AT = 50
"""Passages, of the best, in which that is looked for."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage with what it is worth to a query. `entry` is the id of the entry that it belongs to."""

    passage: int
    entry: int
    score: float


def ranked(searcher: "tantivy.Searcher", schema: "tantivy.Schema", asked: Asked, limit: int) -> list[Scored]:
    """The best passages by their terms; among the first, those count more where words stand together."""
    from tantivy import Occur, Query

    terms = [
        (
            Occur.Should,
            Query.boost_query(Query.term_query(schema, name, term, "freq"), weight * share),
        )
        for name, found, share in (
            ("words", asked.words, 1.0),
            ("title", asked.words, _TITLE),
            ("grams", asked.grams, _GRAM),
        )
        for term, weight in found.items()
    ]
    if not terms:
        return []
    hits = searcher.search(Query.boolean_query(terms), limit=max(limit, _LOOKED_AT), count=False).hits
    addresses = [address for _, address in hits]
    numbers = [int(number or 0) for number in searcher.fast_field_values("number", addresses)]
    entries = [int(entry or 0) for entry in searcher.fast_field_values("entry", addresses)]
    nearness = _nearness(searcher, schema, asked.pairs, numbers[:_LOOKED_AT])
    scored = [
        Scored(number, entry, float(score) + nearness.get(number, 0.0))
        for number, entry, (score, _) in zip(numbers, entries, hits, strict=True)
    ]
    return sorted(scored, key=lambda each: (-each.score, each.passage))[:limit]


def _nearness(
    searcher: "tantivy.Searcher",
    schema: "tantivy.Schema",
    pairs: Mapping[tuple[str, str], float],
    numbers: Sequence[int],
) -> dict[int, float]:
    """What it is worth to some passages that neighbours in the query are near each other in them."""
    from tantivy import Occur, Query

    if not pairs or len(numbers) < 2:
        return {}
    # A set of terms would be looked for among all numbers that there are, which takes longer.
    wanted = [(Occur.Should, Query.term_query(schema, "number", number)) for number in numbers]
    among = Query.const_score_query(Query.boolean_query(wanted), 0.0)
    near = [
        (
            Occur.Should,
            Query.boost_query(Query.phrase_query(schema, "words", list(words), slop=_SLOP), weight * _NEAR),
        )
        for pair, weight in pairs.items()
        for words in (pair, pair[::-1])
    ]
    hits = searcher.search(
        Query.boolean_query([(Occur.Must, among), *near]), limit=len(numbers), count=False
    ).hits
    found = searcher.fast_field_values("number", [address for _, address in hits])
    return {int(number or 0): float(score) for number, (score, _) in zip(found, hits, strict=True)}
