"""Finds which of some hundred short texts a question or a remark is about."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from rapidfuzz import process
from rapidfuzz.distance import OSA

from pixi.text.lists import telling_runs, word_list
from pixi.text.terms import FUNCTION_WORDS, language_of, normalise, pieces, stemmer

_LONGEST_QUERY = 4_000  # characters
_MOST_TERMS = 200  # of a query
_MOST_SLIPS = 40  # words of a query that are looked at for typing mistakes
_FEW = 20  # texts: among fewer, how many hold a word says little
_SHORTEST_SLIP = 5  # letters of a word that may have one
_SLIP = 0.7  # what a word with a typing mistake counts
_RUN = 0.45  # what a run of three characters counts, where a script parts no words


@dataclass(frozen=True, slots=True)
class Relevant:
    """A text that was found: its place among those given, and how well it fits; 1 is one telling word."""

    place: int
    score: float


def most_relevant(query: str, texts: Sequence[str]) -> list[Relevant]:
    """Return the texts that have anything to do with a query, best first; of equals the later ones first.

    Takes some milliseconds for a few hundred texts.
    """
    normal = [normalise(text) for text in texts]
    asked = normalise(query[:_LONGEST_QUERY])
    reading = QueryTerms.of([asked, *normal])
    holders: defaultdict[str, set[int]] = defaultdict(set)
    for place, text in enumerate(normal):
        for term in reading.held(text):
            holders[term].add(place)
    weights: dict[str, float] = {}
    for term, weight in islice(reading.asked(asked), _MOST_TERMS):
        weights[term] = max(weight, weights.get(term, 0.0))
    scores: defaultdict[int, float] = defaultdict(float)
    count, slips = max(len(texts), _FEW), _MOST_SLIPS
    for term, weight in weights.items():
        places = holders.get(term, set())
        share = 1.0
        if not places and slips and len(term) >= _SHORTEST_SLIP:
            slips -= 1
            places, share = _near(term, holders), _SLIP
        for place in places:
            rarity = math.log(1 + count / len(places)) / math.log(1 + count)
            scores[place] += weight * share * rarity
    best = sorted(scores.items(), key=lambda one: (one[1], one[0]), reverse=True)
    return [Relevant(place, score) for place, score in best]


def matching_words(query: str, text: str) -> list[str]:
    """Return the words of a query for which a text is found, each once, in their order."""
    asked, normal = normalise(query[:_LONGEST_QUERY]), normalise(text)
    reading = QueryTerms.of([asked, normal])
    holders = {term: {0} for term in reading.held(normal)}
    found: dict[str, None] = {}
    for kind, piece, _ in pieces(asked):
        for term, _ in reading.terms(kind, piece):
            if term in holders or (len(term) >= _SHORTEST_SLIP and _near(term, holders)):
                found[piece if kind == "word" else term] = None
    return list(found)


def _near(term: str, holders: Mapping[str, set[int]]) -> set[int]:
    """Return the texts that hold the term with a typing mistake in it."""
    most = 1 if len(term) < 8 else 2
    near = process.extract(term, holders.keys(), scorer=OSA.distance, score_cutoff=most, limit=3)
    return set().union(*(holders[known] for known, *_ in near if len(known) >= _SHORTEST_SLIP))


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Takes texts apart: by the stemmer of their language, and without the words that say nothing in it."""

    stem: Callable[[str], str]
    idle: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], idle: frozenset[str] = frozenset()) -> "QueryTerms":
        """Read the language off normalised texts. `idle` are more words that say nothing."""
        words = (word for text in texts for kind, word, _ in pieces(text) if kind == "word")
        language = language_of(words)
        if language is None:  # a few short texts seldom tell
            language = "english"
        return cls(stemmer(language), _idle_words(language) | idle)

    def asked(self, text: str) -> Iterator[tuple[str, float]]:
        """Yield the terms of a query that say something, with their weights."""
        for kind, piece, _ in pieces(text):
            yield from self.terms(kind, piece)

    def terms(self, kind: str, piece: str) -> Iterator[tuple[str, float]]:
        """Yield the terms of one piece of a query."""
        if kind == "word":
            if piece not in self.idle:
                yield self.stem(piece), 1.0
        elif kind == "han":
            for part in telling_runs(piece):
                yield from ((run, 1.0) for run in ([part] if len(part) == 1 else _runs(part, 2)))
        elif kind == "hangul":
            yield from ((run, _RUN) for run in _runs(piece, 2))
        else:
            yield from ((run, _RUN) for run in _runs(piece, 3))

    def stems(self, text: str) -> set[str]:
        """Return the stems of the words of a normalised text that say something."""
        words = {piece for kind, piece, _ in pieces(text) if kind == "word"}
        return {self.stem(word) for word in words - self.idle}

    def held(self, text: str) -> Iterator[str]:
        """Yield the terms by which a text is found."""
        for kind, piece, _ in pieces(text):
            if kind == "word":
                if piece not in self.idle:
                    yield self.stem(piece)
            else:
                yield from piece
                yield from _runs(piece, 3 if kind == "unspaced" else 2)


def _runs(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(max(1, len(text) - length + 1))]


@cache
def _idle_words(language: str) -> frozenset[str]:
    words = frozenset(normalise(FUNCTION_WORDS.get(language, "")).split())
    return words | word_list("small_talk") if language == "english" else words
