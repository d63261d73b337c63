"""What the retrieval agent brings back: facts quoted from documents, each with its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pixi.knowledge.entry import Entry, Source

NOT_THERE = "not in these documents"
"""Said only where a helper model has read all of them."""
NOT_IN_WHAT_WAS_READ = "not in what was read"
"""The same, where it has read a part of them."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A quotation from a document.

    Attributes:
        text: as it stands in the section.
        confidence: from 0 to 1, how surely it answers the question.
    """

    text: str
    source: Source
    confidence: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What documents say to a question.

    Attributes:
        relevant: the surest first.
        dropped: how many facts the helper model brought that its documents do not say.
        note: what else a reader should know, e.g. that the answer is not there.
    """

    relevant: tuple[Fact, ...]
    dropped: int = 0
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object. What is not known of a source, and what is empty, is left out."""
        told: dict[str, Any] = {"relevant": [_told(fact) for fact in self.relevant]}
        if self.dropped:
            told["dropped"] = self.dropped
        if self.note:
            told["note"] = self.note
        return told


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of an entry, by the entry's place among those at hand, its section, and where it is there."""

    entry: int
    section: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """A place, and how surely what stands there answers the question."""

    place: Place
    confidence: float


def quoted_from(entries: Sequence[Entry], found: Found) -> Fact:
    """The fact that stands at a place."""
    place = found.place
    entry = entries[place.entry]
    section = entry.sections[place.section]
    source = Source(
        entry.id, entry.title, entry.path, section.heading, section.line_at(place.start), section.page
    )
    return Fact(section.text[place.start : place.end], source, round(found.confidence, 2))


def _told(fact: Fact) -> dict[str, Any]:
    source: dict[str, Any] = {"id": fact.source.entry, "title": fact.source.title}
    if fact.source.section:
        source["section"] = fact.source.section
    if fact.source.page:
        source["page"] = fact.source.page
    elif fact.source.line:
        source["line"] = fact.source.line
    return {"fact": fact.text, "source": source, "confidence": fact.confidence}
