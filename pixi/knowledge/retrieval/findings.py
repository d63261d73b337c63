"""What the retrieval agent brings back: sentences quoted from documents, each with its place."""

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
    """A quotation from a document: one sentence, or several that follow each other."""

    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class Findings:
    """What documents say to a question.

    Attributes:
        relevant: the most telling first.
        dropped: how many of the helper's numbers and quotations no sentence of the documents has.
        note: what else a reader should know, e.g. that the answer is not there.
    """

    relevant: tuple[Fact, ...]
    dropped: int = 0
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object. What is not known of a source, and what is empty, is left out."""
        told: dict[str, Any] = {
            "relevant": [{"fact": fact.text, "source": _told(fact.source)} for fact in self.relevant]
        }
        if self.dropped:
            told["dropped"] = self.dropped
        if self.note:
            told["note"] = self.note
        return told


def _told(source: Source) -> dict[str, Any]:
    told: dict[str, Any] = {"id": source.entry, "title": source.title}
    if source.section:
        told["section"] = source.section
    if source.page:
        told["page"] = source.page
    elif source.line:
        told["line"] = source.line
    return told


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of an entry: the entry and its section by their numbers from 0, and the characters in it."""

    entry: int
    section: int
    start: int
    end: int

    def overlaps(self, other: "Place") -> bool:
        """Return True if they have characters in common."""
        same = (self.entry, self.section) == (other.entry, other.section)
        return same and self.start < other.end and other.start < self.end


def quoted_from(entries: Sequence[Entry], place: Place) -> Fact:
    """Return what stands at a place."""
    entry = entries[place.entry]
    section = entry.sections[place.section]
    source = Source(
        entry.id, entry.title, entry.path, section.heading, section.line_at(place.start), section.page
    )
    return Fact(section.text[place.start : place.end], source)
