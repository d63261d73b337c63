"""Cuts entries into passages, and out of a passage the stretch that says most about a query."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pixi.documents.files import Section
from pixi.knowledge.entry import Entry, Source

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
"""Where a text may be cut, the best first."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A passage before it is indexed.

    Attributes:
        parts: stretches of the document's sections as they stand there, at least one, each with its place.
        headings: those above all of it, each once.
    """

    parts: tuple[tuple[str, Source], ...]
    headings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it; parts of different sections are parted by an empty line."""
        return "\n\n".join(text for text, _ in self.parts)

    @property
    def source(self) -> Source:
        """Where it begins."""
        return self.parts[0][1]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, and the items and rows of its lists and tables, each on one line."""
    return [
        " ".join(each.split())
        for each in _PAUSES[1].split(_ITEM.sub(" ", text))
        if each and not each.isspace()
    ]


def passages_of(entry: Entry) -> Iterator[Stretch]:
    """Yield the passages of an entry in reading order: at least one, be it empty.

    Short sections are put together as long as they fit into one passage.
    """
    parts: list[tuple[str, Source]] = []
    headings: dict[str, None] = {}
    size = 0
    for section in entry.sections:
        for text, source in _cut(entry, section):
            if parts and size + len(text) > SIZE:
                yield Stretch(tuple(parts), tuple(headings))
                parts, headings, size = [], {}, 0
            parts.append((text, source))
            headings |= dict.fromkeys(source.section.split(_WITHIN) if source.section else ())
            size += len(text)
    yield Stretch(tuple(parts) or (("", Source(entry.id, entry.title, entry.path)),), tuple(headings))


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
