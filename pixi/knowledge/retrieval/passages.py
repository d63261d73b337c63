"""The sentences of entries by their numbers, and those that a question is about."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import log

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.llm import UserLine, estimate
from pixi.documents.files import Section
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.findings import SourceSpan
from pixi.text.relevance import QueryTerms
from pixi.text.terms import normalise, pieces, runs, word_list

LONGEST = 600
"""Characters of a sentence; what is longer (a table, a list without stops) is cut where it best can be."""

_LONGEST_HEADING = 200

# Full stops of scripts that write no blank after them, and those that are only one before a blank.
_STOP = re.compile(r"[。！？｡।॥۔؟]+[\"'”’»」』）)\]]*|[.!?…]+[\"'”’»」』）)\]*_]*(?=\s|[\u2e80-\u9fff]|$)|\n")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘.])(?:[^\W\d_]|[A-Z]\.[A-Z]|mr|mrs|ms|dr|prof|sr|jr|st|vs|e\.g|i\.e|cf|fig|figs|eq|no|nos|vol|"
    r"pp|approx|ca|al|inc|ltd|co|corp|dept|gen|col|lt|capt|rev|hon|mt|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|"
    r"dec|z\.B|bzw|nr|hrsg|т\.е|т\.д|г|гг|др)\.$",
    re.IGNORECASE,
)
_NEW_BLOCK = re.compile(r"[ \t]*(?:\n|[-*+•·–]\s|#{1,6}\s|>|\||(?:\d{1,3}|[a-zA-Z])[.)]\s|```|$)")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}\s|\||```)")
_WEAK_STOP = re.compile(r"\n|[;；؛:：]|[,，、،]|\s")


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a text begin and end, without blanks round them, in order.

    A line break ends a sentence where a new block begins: a list item, a heading, a table's row, a blank
    line. Elsewhere it may only be the width of somebody's screen.
    """
    start = 0
    for stop in _STOP.finditer(text):
        if _ends(text, start, stop):
            yield from _trimmed(text, start, stop.end())
            start = stop.end()
    yield from _trimmed(text, start, len(text))


def _ends(text: str, start: int, stop: re.Match[str]) -> bool:
    mark = stop[0]
    if mark == "\n":
        return bool(_NEW_BLOCK.match(text, stop.end())) or bool(_HEADING.match(text, start))
    if mark[0] not in ".…":
        return True
    follows = text[stop.end() : stop.end() + 12].lstrip(" \t")
    if follows[:1].islower():
        return False
    before = text[max(start, stop.start() - 8) : stop.start() + 1]
    if mark == "." and _ABBREVIATION.search(before):
        # `J. Smith` goes on; a single letter may also end a sentence, but hardly before a line's end.
        return follows[:1] in ("", "\n")
    # `1. First step`: the number of a list item ends nothing.
    return not (mark == "." and text[start : stop.start()].strip().isdecimal())


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > LONGEST:
        cut = _cut(text, start)
        yield from _trimmed(text, start, cut)
        start = cut
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def _cut(text: str, start: int) -> int:
    """Return where to cut a sentence that is too long: at the best mark in the second half of `LONGEST`."""
    best: dict[str, int] = {}
    for found in _WEAK_STOP.finditer(text, start + LONGEST // 2, start + LONGEST):
        kind = (
            "\n" if found[0] == "\n" else ";" if found[0] in ";；؛:：" else " " if found[0].isspace() else ","
        )
        best[kind] = found.end()
    return next((best[kind] for kind in "\n;, " if kind in best), start + LONGEST)


class Sentence(Struct, frozen=True):
    """A sentence of an entry. `text` is one line, whatever the entry holds."""

    place: SourceSpan
    text: str


def sentences_of(entries: Sequence[Entry]) -> list[Sentence]:
    """Return all sentences of the entries, in reading order. Takes some 0.1 s for a million characters."""
    return [
        Sentence(SourceSpan(number, at, start, end), " ".join(section.text[start:end].split()))
        for number, entry in enumerate(entries)
        for at, section in enumerate(entry.sections)
        for start, end in sentences(section.text)
    ]


class PromptPart(Struct, frozen=True):
    """A part that a helper reads at once.

    Attributes:
        numbers: of its sentences, from 0, rising; a sentence has the same number in every part.
        text: the sentences, one a line behind its number, which counts from 1; each document and section
            begins with its name.
    """

    numbers: tuple[int, ...]
    text: str


def parts_of(
    entries: Sequence[Entry], known: Sequence[Sentence], chosen: Iterable[int], tokens: int
) -> list[PromptPart]:
    """Cut sentences into parts.

    Args:
        entries: that the sentences are of.
        known: all sentences of the entries.
        chosen: the numbers of those to cut, rising.
        tokens: of a part at most, estimated; one sentence alone may have more.
    """
    parts: list[PromptPart] = []
    numbers: list[int] = []
    lines: list[str] = []
    room, above = tokens, (-1, "")
    for number in chosen:
        place, shown = known[number].place, f"[{number + 1}] {known[number].text}"
        heading = _heading(entries, place)
        here, cost = (place.entry, heading), tokens_in(shown)
        if numbers and cost + (here != above) * tokens_in(heading) > room:
            parts.append(PromptPart(tuple(numbers), "\n".join(lines)))
            numbers, lines, room, above = [], [], tokens, (-1, "")
        if here != above:
            lines += ["", heading] if lines else [heading]
            room -= tokens_in(heading)
            above = here
        numbers.append(number)
        lines.append(shown)
        room -= cost
    if numbers:
        parts.append(PromptPart(tuple(numbers), "\n".join(lines)))
    return parts


def _heading(entries: Sequence[Entry], place: SourceSpan) -> str:
    entry = entries[place.entry]
    section = entry.sections[place.section].heading
    told = f"{entry.title} › {section}" if section and section != entry.title else entry.title
    return f"Document: {' '.join(told.split())[:_LONGEST_HEADING]}"


def tokens_in(text: str) -> int:
    """Return the tokens of a line of text, estimated from its characters."""
    return estimate(UserLine(text)) - _EMPTY


_EMPTY = estimate(UserLine("")) - 1


MOST_CHARACTERS = 1_000_000
"""Limit for one question: half a second's work, and as much as a helper is given to read."""

_LEAST = 0.34  # of what a question asks for; with less a passage is about something else
_LEAST_OF_RUNS = 0.45  # the same where words are not parted: runs of characters meet by chance more often
_PASSAGE = 320  # characters that a passage is filled up to
_SAMPLE = 400  # sentences that tell the language
_CHANCE = 0.2  # weight of a run of characters that stands nowhere: mostly it is parts of two words

_Rated = tuple[float, SourceSpan]


class Passages:
    """The sentences of entries, by what each holds of a question; so do the titles and headings above.

    Args:
        question: that they are rated by.
        entries: that the sentences are of.
        sentences: all of them, in order.
    """

    def __init__(self, question: str, entries: Sequence[Entry], sentences: Sequence[Sentence]) -> None:
        self._entries = entries
        self._sentences = sentences
        texts = [normalise(each.text) for each in sentences]
        terms = QueryTerms.of(texts[:_SAMPLE], word_list("function_words"))
        self._weights = dict(terms.asked(normalise(question)))
        self._runs = frozenset(term for term in self._weights if _is_run(term))
        self._terms = terms
        self._held = [self._held_by(text) for text in texts]
        counts = Counter(term for held in self._held for term in held)
        for term, weight in self._weights.items():
            chance = _CHANCE if term in self._runs and not counts[term] else 1.0
            self._weights[term] = weight * chance * log(1 + len(texts) / (1 + counts[term]))
        self._rated = self._rate()

    def best(self, most: int) -> list[SourceSpan]:
        """Return passages that hold most of the question's telling words, best first.

        None where none holds enough.
        """
        least = (_LEAST_OF_RUNS if self._runs else _LEAST) * sum(self._weights.values())
        return _apart([each for each in self._rated if each[0] >= least], most)

    def nearest(self, most: int) -> list[SourceSpan]:
        """Return passages that hold any word of the question, best first, or else the first of each entry.

        None only where the entries hold no text.
        """
        return _apart(self._rated, most) or self._beginnings()[:most]

    def likeness(self, number: int) -> float:
        """Return how much of the question a sentence holds."""
        return self._worth(self._held[number])

    def _held_by(self, normal: str) -> frozenset[str]:
        """Return the terms of the question that stand in a normalised text."""
        return frozenset(
            (*(run for run in self._runs if run in normal), *self._weights.keys() & self._terms.stems(normal))
        )

    def _worth(self, held: Iterable[str]) -> float:
        return sum(self._weights[term] for term in held)

    def _rate(self) -> list[_Rated]:
        """Return every passage that holds any term of the question, best first."""
        rated: list[_Rated] = []
        above: dict[tuple[int, int], frozenset[str]] = {}
        for number, sentence in enumerate(self._sentences):
            first = sentence.place
            section = (first.entry, first.section)
            begins = section not in above
            if begins:
                above[section] = self._above(first)
            if not self._held[number] and not (begins and above[section]):
                continue  # what stands below a heading answers to it
            last = self._last(number)
            covered = above[section].union(*self._held[number : last + 1])
            rated.append((self._worth(covered), replace(first, end=self._sentences[last].place.end)))
        rated.sort(key=lambda each: (-each[0], each[1].entry, each[1].section, each[1].start))
        return [each for each in rated if each[0]]

    def _above(self, place: SourceSpan) -> frozenset[str]:
        entry = self._entries[place.entry]
        return self._held_by(normalise(f"{entry.title} {entry.sections[place.section].heading}"))

    def _last(self, number: int) -> int:
        """Return the last sentence of the passage that begins with this one."""
        first, last = self._sentences[number].place, number
        while last + 1 < len(self._sentences):
            place = self._sentences[last + 1].place
            if (place.entry, place.section) != (first.entry, first.section):
                break
            if place.end - first.start > _PASSAGE:
                break
            last += 1
        return last

    def _beginnings(self) -> list[SourceSpan]:
        places: dict[int, SourceSpan] = {}
        for number, sentence in enumerate(self._sentences):
            end = self._sentences[self._last(number)].place.end
            places.setdefault(sentence.place.entry, replace(sentence.place, end=end))
        return list(places.values())


def _is_run(term: str) -> bool:
    """Return True for a term that is a run of characters, of a script that parts no words."""
    return any(kind != "word" for kind, *_ in pieces(term))


def _apart(rated: Sequence[_Rated], most: int) -> list[SourceSpan]:
    """Return the first of those that stand in each other's place."""
    kept: list[SourceSpan] = []
    for _, place in rated:
        if len(kept) == most:
            break
        if not any(place.overlaps(other) for other in kept):
            kept.append(place)
    return kept


# Entries that are too long to be looked at as a whole.

_PIECE = 8_000  # characters; a piece ends with a line or a word, but for what has neither
_MOST_KEYS = 32
_LONG_WORD = 5  # letters from which on a word is looked for without its ending


def narrowed(question: str, entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], str]:
    """Return the entries, or what of them is most like the question, in its order; and what to tell of that.

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
        kept[number].append(
            dataclasses.replace(section, text=section.text[start:end], line=section.line_at(start))
        )
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
    """Return what to look for: words, as written and as an index would, and pairs of what has no blanks."""
    keys: dict[str, None] = {}
    for spelling in (question.casefold(), normalise(question)):
        for kind, piece, _ in pieces(spelling):
            if kind == "word":
                known = piece if len(piece) < _LONG_WORD else piece[: max(_LONG_WORD - 1, len(piece) - 2)]
                keys[known] = None
            else:
                keys |= dict.fromkeys(runs(piece, 2))
    return list(keys)[:_MOST_KEYS]


def _held(text: str, keys: Sequence[str]) -> int:
    """Return which of the keys stand in the text, as bits."""
    mask = 0
    for at, key in enumerate(keys):
        if key in text:
            mask |= 1 << at
    return mask
