"""Finds which of many short texts a question is about, and the stretch of a text that says most about it."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from pixi.text.terms import (
    MARKS,
    Analysis,
    clean,
    language_of,
    normalise,
    pieces,
    runs,
    stemmer,
    telling_runs,
    terms_of,
    word_list,
)

_LONGEST_QUERY = 4_000  # characters
_MOST_TERMS = 200  # of a query
_MOST_SLIPS = 40  # words of a query that are looked at for typing mistakes
_FEW = 20  # texts: among fewer, how many hold a word says little
_SHORTEST_SLIP = 5  # letters of a word that may have one
_SLIP = 0.7  # weight of a word with a typing mistake
_RUN = 0.45  # weight of a run of three characters, where a script parts no words
LENGTH = 240
"""Characters, with the dots that say that something was left out."""
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 8232, 8233), " ")
_STRIPPING = frozenset({"indonesian", "arabic"})
"""Languages whose stems may begin otherwise than their words."""
_STOPS = ".!?…。!?؟।\n"
_WORD = re.compile(r"\w+")
_MOST = 64
"""Words of a query that are looked for."""
_STEM = 4
"""Letters from which on a word is found with another ending, too."""


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
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

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
                yield from ((run, 1.0) for run in ([part] if len(part) == 1 else runs(part, 2)))
        elif kind == "hangul":
            yield from ((run, _RUN) for run in runs(piece, 2))
        else:
            yield from ((run, _RUN) for run in runs(piece, 3))

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
                yield from runs(piece, 3 if kind == "unspaced" else 2)


@cache
def _idle_words(language: str) -> frozenset[str]:
    words = word_list("stop_words", language)
    return words | word_list("small_talk") if language == "english" else words


@dataclass(slots=True)
class Cutter:
    """Cuts the snippets of one query's hits.

    Attributes:
        weights: what a term of the query is worth where it is covered.
        languages: whose stems the terms may be.
        length: characters of a snippet.
    """

    weights: Mapping[str, float]
    analysis: Analysis
    languages: tuple[str, ...]
    length: int = LENGTH
    _known: dict[str, str] = field(default_factory=dict)
    _sought: "tuple[re.Pattern[str], list[str]] | None" = None

    def snippet(self, text: str) -> str:
        """Return at most `length` characters, on one line, without control characters."""
        if len(text) <= self.length:
            return _on_one_line(text)[: self.length]
        start, end, _ = self._best_stretch(text)
        room = self.length - 4
        start = _beginning(text, start, end, room)
        stop = min(len(text), start + room)
        if stop < len(text):
            space = text.rfind(" ", max(end, start + 1), stop + 1)
            stop = space if space > 0 else stop
        left = "… " if start else ""
        right = " …" if stop < len(text) else ""
        return f"{left}{_on_one_line(text[start:stop])}{right}"

    def covered(self, text: str) -> frozenset[str]:
        """Return the terms that stand in the stretch of which the snippet is made."""
        start, end, marks = self._best_stretch(text)
        return frozenset(term for first, last, term in marks if start <= first and last <= end)

    def held(self, text: str) -> frozenset[str]:
        """Return the terms that stand anywhere in a text."""
        return frozenset(term for *_, term in self._marks(text))

    def _best_stretch(self, text: str) -> tuple[int, int, list[tuple[int, int, str]]]:
        """Return where the stretch begins and ends that says most, and all marks in the text."""
        marks = sorted(self._marks(text))
        return *_best(marks, self.weights, self.length - 4), marks

    def _marks(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where terms of the query stand: start, end, term."""
        normal = normalise(text)
        if len(normal) != len(text) or _STRIPPING & {*self.languages}:
            yield from self._every_mark(text)
            return
        heads, within = self._sought = self._sought or _seeking(self.weights)
        for match in heads.finditer(normal.replace("_", " ")):
            if term := self._term(match[0]):
                yield match.start(), match.end(), term
        for run in within:
            at = normal.find(run)
            while at >= 0:
                yield at, at + len(run), run
                at = normal.find(run, at + 1)

    def _every_mark(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the same word by word, where places in the normalised text are not those of the text."""
        for kind, piece, start in pieces(text):
            if kind == "word":
                if term := self._term(piece):
                    yield start, start + len(piece), term
                continue
            for term in dict.fromkeys(terms_of(kind, normalise(piece))):
                at = piece.find(term) if term in self.weights else -1
                while at >= 0:
                    yield start + at, start + at + len(term), term
                    at = piece.find(term, at + 1)

    def _term(self, spelt: str) -> str:
        """Return the query's term that a word of the text has; "" where it has none."""
        term = self._known.get(spelt)
        if term is None:
            forms = self.analysis.forms(spelt, self.languages)
            term = self._known[spelt] = next((form for form in forms if form in self.weights), "")
        return term


def _seeking(terms: Iterable[str]) -> tuple["re.Pattern[str]", list[str]]:
    """Return a pattern of words that begin as a term does, and the terms that stand within words."""
    heads: set[str] = set()
    within: list[str] = []
    for term in terms:
        kinds = {kind for kind, _, _ in pieces(term)}
        if kinds - {"word"}:
            within.append(term)
        elif kinds:
            heads.add(re.escape(term[:2]))
    either = "|".join(sorted(heads)) or "(?!)"
    return re.compile(rf"(?<![\w{MARKS}])(?:{either})[\w{MARKS}]*"), within


def _best(marks: list[tuple[int, int, str]], weights: Mapping[str, float], room: int) -> tuple[int, int]:
    """Return the stretch whose terms together are worth most, each counted once; the first of equal ones.

    Args:
        marks: sorted.
    """
    best, found = 0.0, (0, 0)
    held: dict[str, int] = {}
    worth = 0.0
    last = 0
    for first, (start, _, term) in enumerate(marks):
        while last < len(marks) and marks[last][1] <= start + room:
            entering = marks[last][2]
            held[entering] = held.get(entering, 0) + 1
            worth += weights[entering] if held[entering] == 1 else 0.0
            last += 1
        if worth > best + 1e-9 and last > first:
            best, found = worth, (start, max(end for _, end, _ in marks[first:last]))
        if last == first:
            last += 1  # a word longer than the room
            continue
        held[term] -= 1
        worth -= weights[term] if not held[term] else 0.0
    return found


def _beginning(text: str, start: int, end: int, room: int) -> int:
    """Return where to begin, at a sentence or a word, so that something stands before what was found."""
    earliest = max(0, end - room)
    if earliest == 0:
        return 0
    for at in range(start, earliest, -1):
        if text[at - 1] in _STOPS or (text[at - 1].isspace() and text[at - 2] in _STOPS):
            return at
    earliest = max(earliest, start - (room - (end - start)) // 2)
    space = text.find(" ", earliest, start)
    return space + 1 if space >= 0 else earliest


def _on_one_line(text: str) -> str:
    return " ".join(clean(text).translate(_CONTROLS).split())


def spans_of(queries: Iterable[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield where words of the queries stand in the text, as (start, end); some may overlap.

    Words are compared without regard to case and endings; where a script writes no blanks, by pairs.
    """
    words: list[str] = []
    pairs: dict[str, None] = {}
    for query in queries:
        for kind, piece, _ in pieces(normalise(query[:4_000])):
            if kind == "word":
                words.append(piece)
            else:
                pairs |= dict.fromkeys(runs(piece, 2))
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
