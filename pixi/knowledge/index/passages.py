"""Cuts an entry into passages: stretches of about a thousand characters that end where the text pauses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pixi.knowledge.entry import Entry, Section, Source

SIZE = 1_000
"""Characters of a passage. A little more is left whole rather than cut into a large and a tiny one."""

_WITHIN = " › "  # between a heading and the one below it

_WHOLE = SIZE * 13 // 10
_HALF = SIZE // 2

_PAUSES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"(?<=[.!?…؟।॥])[\"'”’»)\]]*\s+|(?<=[。!?!?])|\n"),
    re.compile(r"\s+|(?<=[,、,،;;])"),
)
"""Where a text may be cut, the best first."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A passage before it is indexed.

    Attributes:
        text: as it stands in the document; sections that were joined are parted by an empty line.
        source: where it begins.
        headings: those above all of it, each once.
    """

    text: str
    source: Source
    headings: tuple[str, ...] = ()


def passages_of(entry: Entry) -> Iterator[Stretch]:
    """The passages of an entry in reading order: at least one, be it empty.

    Short sections are put together as long as they fit into one passage.
    """
    texts: list[str] = []
    headings: dict[str, None] = {}
    first: Source | None = None
    size = 0
    for section in entry.sections:
        for text, source in _cut(entry, section):
            if first and size + len(text) > SIZE:
                yield Stretch("\n\n".join(texts), first, tuple(headings))
                texts, headings, first, size = [], {}, None, 0
            texts.append(text)
            headings |= dict.fromkeys(source.section.split(_WITHIN) if source.section else ())
            size += len(text)
            first = first or source
    if first:
        yield Stretch("\n\n".join(texts), first, tuple(headings))
    elif not texts:
        yield Stretch("", Source(entry.id, entry.title, entry.path))


def _cut(entry: Entry, section: Section) -> Iterator[tuple[str, Source]]:
    """The pieces of a section that are not blank, each with its place."""
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
    """The last place between the two where the text may best be cut."""
    for pause in _PAUSES:
        end = 0
        for match in pause.finditer(text, low, high):
            end = match.end()
        if end > low:
            return end
    return high
