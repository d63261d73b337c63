"""Tells which passages surely speak of what somebody asks, so that they may be shown to a model unasked.

A search always finds something; its scores compare passages of one query and say nothing of another's. What a
model is shown without having asked for it must fit, or a small one talks about nothing else. So a passage is
taken by what it covers of the question:

- Only what asks counts: a question mark, or a word such as `when`, `erkläre`, `多少`. Small talk often tells.
- Of the question, those words count that say something: not grammar, not what chats are full of, in the
  languages of the documents. Each weighs by its rarity in this database, 1 for a word in a single passage and
  for one in none, which nothing covers.
- They must stand near each other: in one stretch of some 240 characters of one section, or in the title or
  heading above it. Covered must be `_SHARE` of their weight: "is Biscuit a good name for a cat?" finds a
  biscuit among recipes, but no cat.
- And what is covered must weigh `_EVIDENCE` together, as two rare words do. One word says too little ("are
  you hungry?" and the hungry years), but where the title or heading alone covers the question: "what is a
  dosa?". That must weigh `_NAMED`, or "do you like pancakes?" would find any entry on pancakes.

`python -m benchmarks sureness` measures it. Of its lines, none of 84 questions that nothing answers brought
a passage, and none of 831 of small talk; two of three that are answered brought their document. With an
evidence of 1, eight lines of small talk did; where a title of any weight counted, so did "what time is it?".
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry, Source
from pixi.knowledge.query import QueryParser
from pixi.text.relevance import LENGTH, Cutter
from pixi.text.terms import (
    CODES,
    WITHOUT_STEMMER,
    Analysis,
    glyph_list,
    is_corrigible,
    normalise,
    pieces,
    runs,
    telling_runs,
    without_asking,
    word_list,
)

SIZE = 1_000
"""Characters of a passage. A little more is left whole rather than cut into a large and a tiny one."""

_WITHIN = " › "  # between a heading and the one below it

_WHOLE = SIZE * 13 // 10
_HALF = SIZE // 2

_ITEM = re.compile(r"\s*\n(?!\s*(?:\n|[-*+|#>]|\d+[.)]))\s*")
"""The end of a line that is only the width of a page: no item, row or paragraph begins behind it."""

_PAUSES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"(?<=[.!?…؟।॥])[\"'”’»)\]]*\s+|(?<=[。!?!?])|\n"),
    re.compile(r"\s+|(?<=[,、,،;;])"),
)
"""Pauses at which a text may be cut, the best first."""


class Passage(Struct, frozen=True):
    """A passage before it is indexed.

    Attributes:
        parts: stretches of the document's sections as they stand there, at least one, each with its place.
        headings: those above all of it, each once.
    """

    parts: tuple[tuple[str, Source], ...]
    headings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text; parts of different sections are parted by an empty line."""
        return "\n\n".join(text for text, _ in self.parts)

    @property
    def source(self) -> Source:
        """Return where the excerpt begins."""
        return self.parts[0][1]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, and the items and rows of its lists and tables, each on one line."""
    return [
        " ".join(each.split())
        for each in _PAUSES[1].split(_ITEM.sub(" ", text))
        if each and not each.isspace()
    ]


def passages_of(entry: Entry) -> Iterator[Passage]:
    """Yield the passages of an entry in reading order: at least one, be it empty.

    Short sections are put together as long as they fit into one passage.
    """
    parts: list[tuple[str, Source]] = []
    headings: dict[str, None] = {}
    size = 0
    for section in entry.sections:
        for text, source in _cut(entry, section):
            if parts and size + len(text) > SIZE:
                yield Passage(tuple(parts), tuple(headings))
                parts, headings, size = [], {}, 0
            parts.append((text, source))
            headings |= dict.fromkeys(source.section.split(_WITHIN) if source.section else ())
            size += len(text)
    yield Passage(tuple(parts) or (("", Source(entry.id, entry.title, entry.path)),), tuple(headings))


def _cut(entry: Entry, section: Section) -> Iterator[tuple[str, Source]]:
    """Yield the pieces of a section that are not blank, each with its place."""
    text, line, counted = section.text, section.line, 0
    for start, end in _spans(text):
        piece = text[start:end]
        begin = start + len(piece) - len(piece.lstrip())
        piece = piece.strip()
        if not piece:
            continue
        if section.line and not section.on_one_line:
            line += text.count("\n", counted, begin)
            counted = begin
        yield piece, Source(entry.id, entry.title, entry.path, section.heading, line, section.page)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while len(text) - start > _WHOLE:
        end = _pause(text, start + _HALF, start + SIZE)
        yield start, end
        start = end
    yield start, len(text)


def _pause(text: str, low: int, high: int) -> int:
    """Return the last place between the two where the text may best be cut."""
    for pause in _PAUSES:
        end = 0
        for match in pause.finditer(text, low, high):
            end = match.end()
        if end > low:
            return end
    return high


_SHARE = 0.6
_EVIDENCE = 1.5
_NAMED = 0.45
_ALL = 0.95
_FEW = 20
"""Passages: among fewer, how many hold a word says little."""
_LONGEST = 600
"""Characters of a message that are read: in a pasted page nothing in particular is asked."""
_SHORTEST_CORRECTED = 5
"""Letters of a word that may be taken for a mistake in another: shorter ones are too near to each other."""
_DENSE = LENGTH // 2
"""Characters that are shown of a script whose characters are words."""


class Excerpt(Struct, frozen=True):
    """A passage of a document on a question.

    Attributes:
        source: where it stands.
        text: word for word, on one line: the sentence that covers most of the question, and what follows it.
        share: how much of the question the place covers, 0 to 1.
        own: what the words there and their heading cover, which tells the places of a document apart; 0 where
            its title covers the whole question: then it is best answered by what the document begins with.
    """

    source: Source
    text: str
    share: float
    own: float

    @property
    def rank(self) -> tuple[float, float, int]:
        """Sorts those of one document, the best first: of equal ones, what it says first."""
        return -round(self.share, 3), -self.own, self.source.line or self.source.page


def in_order(excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    """Sort what was found, given in the order of a search: by document, that with the best place first."""
    documents: dict[int, list[Excerpt]] = {}
    for each in excerpts:
        documents.setdefault(each.source.entry, []).append(each)
    for theirs in documents.values():
        theirs.sort(key=lambda each: each.rank)
    by_best = sorted(documents.values(), key=lambda theirs: theirs[0].rank[0])
    return [each for theirs in by_best for each in theirs]


class _Word(Struct, frozen=True):
    """A word of a question, or a run of characters.

    Attributes:
        terms: by which passages are found that hold it; none where no passage does.
        weight: how rare it is, 0 to 1.
        credit: what it counts where it is covered; less for a word that was taken for another.
    """

    terms: frozenset[str]
    weight: float
    credit: float


class AskedQuestion(Struct, frozen=True):
    """A question.

    Attributes:
        words: those that say something.
        dense: some are of a script whose characters are words.
    """

    words: tuple[_Word, ...]
    dense: bool

    @property
    def terms(self) -> dict[str, float]:
        """Return what each term is worth where it is covered."""
        return {term: word.credit for word in self.words for term in word.terms}

    @property
    def weight(self) -> float:
        """The weight of all words together."""
        return sum(word.weight for word in self.words)

    def covered(self, terms: frozenset[str]) -> float:
        """Return the weight that these terms cover."""
        return sum(word.credit for word in self.words if word.terms & terms)


def question_in(text: str, parser: QueryParser) -> AskedQuestion | None:
    """Read what a message asks; None where it asks nothing, or nothing that any passage knows a word of."""
    normal = normalise(text)
    if len(text) > _LONGEST or not _asks(normal, parser.languages):
        return None
    words = dict(_words(normal, parser))
    if not any(word.terms for word in words.values()):
        return None
    dense = any(kind == "han" for kind, *_ in pieces(normal))
    return AskedQuestion(tuple(words.values()), dense)


def _asks(normal: str, languages: Sequence[str]) -> bool:
    """Return True where a normalised text asks for something."""
    if any(mark in normal for mark in "?\u061f\u037e"):
        return True
    parts = list(pieces(normal))
    asking = _listed("question_words", tuple(languages))
    if any(kind in ("word", "hangul") and piece in asking for kind, piece, _ in parts):
        return True
    runs_of_it = [piece for kind, piece, _ in parts if kind != "word"]
    return any(glyphs in run for run in runs_of_it for glyphs in glyph_list("question_glyphs"))


def _words(normal: str, parser: QueryParser) -> Iterator[tuple[str, _Word]]:
    idle = _idle(tuple(parser.languages))
    for kind, piece, _ in pieces(normal):
        if kind == "word":
            if len(piece) > 1 and piece not in idle:
                yield piece, _word(piece, parser)
        else:
            for part in telling_runs(without_asking(piece)):
                for run in runs(part, 3 if kind == "unspaced" else 2):
                    count = parser.frequency("words", run)
                    weight = _rarity(count, parser)
                    yield run, _Word(frozenset([run] if count else ()), weight, weight)


def _word(word: str, parser: QueryParser) -> _Word:
    forms, likelihood = parser.forms(word), 1.0
    if not forms and len(word) >= _SHORTEST_CORRECTED and is_corrigible(word):
        meant = parser.vocabulary.meant(word, lambda other: max(parser.forms(other).values(), default=0))
        if meant:
            forms, likelihood = parser.forms(meant[0].word), meant[0].weight
    weight = _rarity(max(forms.values(), default=0), parser)
    return _Word(frozenset(forms), weight, weight * likelihood)


def _rarity(count: int, parser: QueryParser) -> float:
    """Return how rare a word is that stands in so many passages: 1 in one or none, little in most."""
    passages = max(parser.passages, _FEW)
    return math.log(1 + passages / max(count, 1)) / math.log(1 + passages)


@cache
def _idle(languages: tuple[str, ...]) -> frozenset[str]:
    """Return words that say nothing by themselves in any of these languages, or in English."""
    names = ("common_words", "function_words", "question_words", "small_talk")
    return frozenset().union(*(_listed(name, (*languages, "english")) for name in names))


def _listed(name: str, languages: tuple[str, ...]) -> frozenset[str]:
    """Return the words of a list in these languages, which are named as `language_of` names them."""
    codes = [code for each in languages for code in ([CODES[each]] if each in CODES else WITHOUT_STEMMER)]
    return frozenset().union(*(word_list(name, code) for code in codes))


class Judge:
    """Judges passages by one question.

    Args:
        question: what is asked.
        analysis: of this thread.
        languages: whose stems its terms may be.
    """

    def __init__(self, question: AskedQuestion, analysis: Analysis, languages: Sequence[str]) -> None:
        self._question = question
        length = _DENSE if question.dense else LENGTH
        self._cutter = Cutter(question.terms, analysis, tuple(languages), length)

    def excerpt(self, passage: Passage) -> Excerpt | None:
        """Cut out what a passage says on the question; None where it is not sure that it does."""
        found = filter(None, (self._in_part(text, source) for text, source in passage.parts))
        return min(found, key=lambda excerpt: excerpt.rank, default=None)

    def _in_part(self, text: str, source: Source) -> Excerpt | None:
        question = self._question
        heading, there = self._cutter.held(source.section), self._cutter.covered(text)
        title = self._cutter.held(source.title)
        above = heading | title
        covered, named = question.covered(there | above), question.covered(above)
        enough = _SHARE * question.weight
        if covered < enough or (covered < _EVIDENCE and named < max(enough, _NAMED)):
            return None
        named_all = question.covered(title) >= _ALL * question.weight
        own = 0.0 if named_all else question.covered(heading) + question.covered(there)
        return Excerpt(source, self._said(text, heading), covered / question.weight, own)

    def _said(self, text: str, heading: frozenset[str]) -> str:
        """Return the first sentence that covers most beside the heading, and what follows, if it fits."""
        held = [
            (self._question.covered(self._cutter.held(each) - heading), each) for each in sentences_of(text)
        ]
        if not held:
            return ""
        first = max(range(len(held)), key=lambda at: held[at][0])
        said = self._cutter.snippet(held[first][1])
        for _, each in held[first + 1 :]:
            if len(said) + len(each) >= self._cutter.length:
                break
            said = f"{said}{'' if self._question.dense else ' '}{each}"
        return said
