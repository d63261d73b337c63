"""Checks whether a fact is really in its source, and finds the sentences of the source that say it.

What a model says of a document is held against the document's own sentences, and these are what is given
back. A fact stands where its words do, with the same numbers and as many negations; one that changes,
denies or adds something is told apart from a rewording as far as words alone can tell.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import log

from pixi.knowledge.retrieval.difference import Compared, Reason, difference, named_in, weight_in
from pixi.knowledge.retrieval.matching import Matched, Stretch, matched
from pixi.knowledge.retrieval.sentences import sentences
from pixi.knowledge.retrieval.words import Analyser, Token, keys_of

LONGEST_FACT = 1_000
"""Characters of a fact that are looked at; nobody quotes more for one fact."""

_CANDIDATES = 4
_POSTINGS = 4_000  # looked through for one fact; the rarest keys come first
_NEIGHBOURS = 2  # sentences before and after that may say the rest
_LEAST_OF_NEXT = 2.0  # words
_LONGEST_STRETCH = 900
_LEAST_SHARE = 0.3  # of a fact's keys in a sentence: with less it is not looked at
_NEARLY_ALL = 0.8
_LEAST_IN_ONE = 0.5  # of a fact's words, in one sentence: less is patchwork


@dataclass(frozen=True, slots=True)
class Grounded:
    """A fact that its source says.

    Attributes:
        section: the number of the section, from 0.
        start, end: of the sentences that say it, within the section.
        covered: how much of the fact's words they hold, 0 to 1.
    """

    section: int
    start: int
    end: int
    covered: float


@dataclass(frozen=True, slots=True)
class Ungrounded:
    """A fact that its source does not say, and the first thing in which they differ."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Span:
    """A sentence: the number of its section, and where in it it begins and ends."""

    section: int
    start: int
    end: int


class Ground:
    """A document that facts are held against. For one thread at a time.

    Args:
        sections: the texts of the document.
        headings: what stands above each of them, if anything does.
        title: of the document.

    Attributes:
        spans: its sentences, in order.
        titled: the keys of the title.
        headed: the keys of what stands above each section.
    """

    def __init__(self, sections: Sequence[str], headings: Sequence[str] = (), title: str = "") -> None:
        self._texts = tuple(sections)
        self._analyser = Analyser()
        self.spans: list[Span] = []
        self._postings: dict[str, list[int]] = {}
        self._stretches: dict[int, Stretch] = {}
        self._title = self._analyser.tokens(title)
        self.titled = frozenset(keys_of(self._title))
        self._headings = [self._analyser.tokens(heading) for heading in headings]
        self.headed = [frozenset(keys_of(heading)) for heading in self._headings]
        for section, text in enumerate(self._texts):
            for start, end in sentences(text):
                number = len(self.spans)
                self.spans.append(Span(section, start, end))
                for key in self._analyser.keys(text, start, end):
                    self._postings.setdefault(key, []).append(number)

    def check(self, fact: str) -> Grounded | Ungrounded:
        """Hold a fact against the document."""
        said = self._analyser.tokens(fact[:LONGEST_FACT])
        weight = weight_in(said)
        if weight < 1:
            return Ungrounded("empty")
        refused = Ungrounded("foreign")
        for candidate, share in self._candidates(said):
            # What contradicts one sentence is not to be patched together from others.
            contradicts = refused.reason not in ("foreign", "words")
            if share < (_NEARLY_ALL if contradicts else _LEAST_SHARE):
                continue
            answer = self._held_against(said, weight, candidate, whole=contradicts)
            if isinstance(answer, Grounded):
                return answer
            if not contradicts:
                refused = answer
        return refused

    def holding(self, key: str) -> Sequence[int]:
        """The sentences that hold a key, see `keys_of`."""
        return self._postings.get(key, ())

    def _candidates(self, said: list[Token]) -> list[tuple[int, float]]:
        """The sentences that share most with the fact, best first, with the share of its keys."""
        keys = dict.fromkeys(keys_of(said))
        found = [(self._postings[key], key) for key in keys if key in self._postings]
        found.sort(key=lambda posting: len(posting[0]))
        scores: dict[int, float] = {}
        shared: Counter[int] = Counter()
        looked = 0
        asked = len(keys)
        for posting, key in found:
            if looked and looked + len(posting) > _POSTINGS:
                asked -= 1  # in half of the document: it tells the sentences apart by nothing
                continue
            looked += len(posting)
            gain = log(1 + len(self.spans) / len(posting))
            if key in self.titled:
                gain /= 2  # a sentence need not name what all of the document is about
            shared.update(posting)
            for number in posting:
                scores[number] = scores.get(number, 0.0) + gain
        best = nlargest(_CANDIDATES, scores, key=scores.__getitem__)
        return [(number, shared[number] / max(1, asked)) for number in best]

    def _held_against(
        self, said: list[Token], weight: float, best: int, *, whole: bool
    ) -> Grounded | Ungrounded:
        sentence = self._stretch_of(best)
        alone = matched(said, sentence)
        if alone.weight < (weight if whole else _LEAST_IN_ONE * weight):
            return Ungrounded("foreign")
        section = self.spans[best].section
        titles = self._titles(section)
        first, last, found = self._with_neighbours(said, best, alone, titles)
        before = self._before(section, first)
        stretch = sentence if first == last else self._stretch(first, last)
        reason = difference(Compared(said, sentence.tokens, alone, stretch.tokens, found, before, titles))
        if reason is not None:
            return Ungrounded(reason)
        start, end = self.spans[first].start, self.spans[last].end
        return Grounded(section, start, end, min(1.0, found.weight / weight))

    def _with_neighbours(
        self, said: list[Token], best: int, alone: Matched, titles: list[Token]
    ) -> tuple[int, int, Matched]:
        """The sentence, with those beside it that say what neither it nor a title does."""
        first = last = best
        together = alone
        for step in (-1, 1, -2, 2):
            if set(together.missing) == named_in(said, together, titles):
                break
            low, high = min(first, best + step), max(last, best + step)
            if self._is_stretch(low, high):
                wider = matched(said, self._stretch(low, high))
                # What comes before may name whom the sentence is about; what follows says something itself.
                if wider.weight - together.weight >= (_LEAST_OF_NEXT if step > 0 else 0.5):
                    first, last, together = low, high, wider
        return first, last, together

    def _is_stretch(self, first: int, last: int) -> bool:
        if first < 0 or last >= len(self.spans):
            return False
        begins, ends = self.spans[first], self.spans[last]
        return begins.section == ends.section and ends.end - begins.start <= _LONGEST_STRETCH

    def _stretch(self, first: int, last: int) -> Stretch:
        return Stretch([t for number in range(first, last + 1) for t in self._stretch_of(number).tokens])

    def _stretch_of(self, number: int) -> Stretch:
        stretch = self._stretches.get(number)
        if stretch is None:
            sentence = self.spans[number]
            tokens = self._analyser.tokens(self._texts[sentence.section], sentence.start, sentence.end)
            stretch = self._stretches[number] = Stretch(tokens)
        return stretch

    def _titles(self, section: int) -> list[Token]:
        return [*self._title, *(self._headings[section] if section < len(self._headings) else ())]

    def _before(self, section: int, first: int) -> list[Token]:
        """The sentences in which what a pronoun stands for may be named."""
        numbers = range(max(0, first - _NEIGHBOURS), first)
        return [t for n in numbers if self.spans[n].section == section for t in self._stretch_of(n).tokens]
