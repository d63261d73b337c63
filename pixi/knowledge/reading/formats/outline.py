"""Lines and their headings made into a document: the part that is alike in every marked-up text."""

from collections.abc import Sequence
from dataclasses import dataclass

from pixi.knowledge.entry import Document, Section

BETWEEN_HEADINGS = " › "


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text.

    Attributes:
        level: 1 is the outermost.
        text: plain.
        start: its first line, from 0.
        end: the line after its last: underlines belong to it.
    """

    level: int
    text: str
    start: int
    end: int


def outlined(lines: Sequence[str], headings: Sequence[Heading], title: str = "", first: int = 0) -> Document:
    """A document with a section below each heading.

    A single heading of the outermost level that comes before any other is the title, and not repeated
    in the headings of what stands below it. A heading with nothing below it is a section of its own words.

    Args:
        lines: all of the text.
        headings: in order.
        title: where it is told elsewhere.
        first: the line, from 0, on which the text begins: what is before is no part of it.
    """
    top = _title(headings)
    if top is not None and title and top.text not in title:
        top = None  # it says something that the title does not
    elif top is not None:
        title = title or top.text
    ends = [heading.start for heading in headings] + [len(lines)]
    opening = section_of(lines, first, ends[0])
    sections = [opening] if opening is not None else []
    path: list[Heading] = []
    for at, heading in enumerate(headings):
        path = [above for above in path if above.level < heading.level]
        if heading is not top:
            path.append(heading)
        below = section_of(lines, heading.end, ends[at + 1], _joined(path))
        if below is not None:
            sections.append(below)
        elif heading.text and not _leads(headings, at):
            sections.append(Section(heading.text, _joined(path), heading.start + 1))
    return Document("", title, tuple(sections))


def section_of(lines: Sequence[str], start: int, end: int, heading: str = "") -> Section | None:
    """These lines (from 0, the end not among them) without the empty ones round them; None: all are empty."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return Section("\n".join(lines[start:end]), heading, start + 1) if start < end else None


def _title(headings: Sequence[Heading]) -> Heading | None:
    if not headings or any(heading.level <= headings[0].level for heading in headings[1:]):
        return None
    return headings[0]


def _leads(headings: Sequence[Heading], at: int) -> bool:
    """Whether others stand below this heading."""
    return at + 1 < len(headings) and headings[at + 1].level > headings[at].level


def _joined(path: Sequence[Heading]) -> str:
    return BETWEEN_HEADINGS.join(heading.text for heading in path if heading.text)


def as_markdown(document: Document) -> str:
    """The document as Markdown: each heading once, before what stands below it."""
    pieces: list[str] = []
    above: list[str] = []
    for section in document.sections:
        path = section.heading.split(BETWEEN_HEADINGS) if section.heading else []
        same = 0
        while same < min(len(path), len(above)) and path[same] == above[same]:
            same += 1
        if len(path) == same and len(above) > same and path:
            same -= 1  # back at a heading that was left: it is told again
        pieces.extend(f"{'#' * min(depth + 2, 6)} {path[depth]}" for depth in range(same, len(path)))
        above = path
        if not path or section.text != path[-1]:
            pieces.append(section.text.strip("\n"))
    return "\n\n".join(pieces)
