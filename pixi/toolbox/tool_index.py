"""Finds which of many tools a task is about, by the words that tell of each."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice

from pixi.core.llm import ToolSchema
from pixi.text.terms import grams, language_of, normalise, pieces, stemmer, terms_of, word_list

_IN_NAME, _IN_WORDS, _IN_ARGUMENTS = 2.0, 1.0, 0.5
_ALIKE = 0.8  # weight of a word whose runs of letters are all there, in another form or a longer word
_GLYPH = 0.5  # weight of a single character that may be a part of many words
_LONGEST_WORDS = 400  # characters of a description: what it is for stands first
_LONGEST_TASK = 2_000  # characters
_MOST_TASK_TERMS = 400  # of one text of a query

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./:]+")


class ToolIndex:
    """Tools by the terms that they hold."""

    def __init__(self) -> None:
        # The terms of tools with their weights, by all that they are made of; so that most are kept.
        self._known: dict[tuple[str, str, str], Mapping[str, float]] = {}
        self._holders: dict[str, dict[str, float]] = {}  # by term: the tools that hold it, and its weight
        self._count = 0  # of tools
        self._stemmers: dict[str, Callable[[str], str]] = {}  # by language

    def take(self, tools: Iterable[ToolSchema]) -> None:
        """Hold these tools, and no others any more."""
        before, self._known = self._known, {}
        holders: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._count = 0
        for tool in tools:
            self._count += 1
            key = (tool.name, tool.description, " ".join(tool.parameters.get("properties", {})))
            terms = self._known[key] = before.get(key) or self._terms_of(*key)
            for term, weight in terms.items():
                holders[term][tool.name] = weight
        self._holders = dict(holders)

    def scores(self, query: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return how well tools fit texts of different weight; those that do not fit at all are not there."""
        weights: dict[str, float] = {}
        for text, weight in query:
            for term, share in islice(self._terms(_HUMPS.sub(" ", text[:_LONGEST_TASK])), _MOST_TASK_TERMS):
                weights[term] = max(weight * share, weights.get(term, 0.0))
        scores: defaultdict[str, float] = defaultdict(float)
        whole = math.log(1 + max(self._count, 2))
        for term, weight in weights.items():
            held = self._holders.get(term)
            if not held:
                continue
            rarity = (math.log(1 + self._count / len(held)) / whole) ** 2
            for name, share in held.items():
                scores[name] += weight * share * rarity
        return dict(scores)

    def _terms_of(self, name: str, description: str, arguments: str) -> Mapping[str, float]:
        """Return the terms of a tool, each with its weight where it counts most."""
        terms: dict[str, float] = {}
        for text, weight in (
            (name, _IN_NAME),
            (description[:_LONGEST_WORDS], _IN_WORDS),
            (arguments, _IN_ARGUMENTS),
        ):
            for term, _ in self._terms(_HUMPS.sub(" ", text)):
                terms[term] = max(weight, terms.get(term, 0.0))
        return terms

    def _terms(self, text: str) -> Iterator[tuple[str, float]]:
        """Yield the terms of a text with what each counts: words, their stems and runs of letters."""
        found = list(pieces(normalise(text)))
        words = [piece for kind, piece, _ in found if kind == "word"]
        language = language_of(words) or "english"
        idle = _idle_in_tools(language)
        for kind, piece, _ in found:
            if kind != "word":
                yield from ((term, 1.0 if len(term) > 1 else _GLYPH) for term in terms_of(kind, piece))
            elif piece not in idle:
                yield piece, 1.0
                for each in dict.fromkeys(("english", language)):
                    if each not in self._stemmers:
                        self._stemmers[each] = stemmer(each)
                    yield f"{self._stemmers[each](piece)}~", 1.0
                parts = grams(piece)
                yield from ((part, _ALIKE / len(parts)) for part in parts)


@cache
def _idle_in_tools(language: str) -> frozenset[str]:
    """Return those that say nothing in a language, or in English."""
    return word_list("stop_words", language) | word_list("stop_words", "english")
