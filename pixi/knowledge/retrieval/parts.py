"""Entries as numbered lines, in parts that a helper model can read at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pixi.core.lines import UserLine
from pixi.core.tokens import estimate
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.findings import Place
from pixi.knowledge.retrieval.sentences import sentences

_LINE = 700  # characters after which a line ends with its sentence


@dataclass(frozen=True, slots=True)
class Line:
    """Some sentences of an entry, as a helper is shown them. `text` is one line, whatever the entry holds."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """What a helper reads at once: lines with their numbers, which are the same in all parts."""

    numbers: tuple[int, ...]
    text: str


def lines_of(entries: Sequence[Entry]) -> list[Line]:
    """All lines of the entries, in reading order."""
    return [line for number, entry in enumerate(entries) for line in _lines(entry, number)]


def _lines(entry: Entry, number: int) -> Iterator[Line]:
    for at, section in enumerate(entry.sections):
        first = last = -1
        for start, end in sentences(section.text):
            if first >= 0 and (end - first > _LINE or "\n\n" in section.text[last:start]):
                yield _line(section.text, Place(number, at, first, last))
                first = -1
            first, last = (start if first < 0 else first), end
        if first >= 0:
            yield _line(section.text, Place(number, at, first, last))


def _line(text: str, place: Place) -> Line:
    return Line(place, " ".join(text[place.start : place.end].split()))


def parts_of(
    entries: Sequence[Entry], lines: Sequence[Line], chosen: Sequence[int], tokens: int
) -> list[Part]:
    """The chosen lines in parts of about so many tokens each."""
    parts: list[Part] = []
    numbers: list[int] = []
    written: list[str] = []
    used = 0
    above = ("", -1)
    for number in chosen:
        line = lines[number]
        heading = _heading(entries, line)
        shown = f"[{number + 1}] {line.text}"
        cost = tokens_in(shown) + (
            tokens_in(heading) if (heading, line.place.entry) != above or not written else 0
        )
        if written and used + cost > tokens:
            parts.append(Part(tuple(numbers), "\n".join(written)))
            numbers, written, used = [], [], 0
            above = ("", -1)
            cost = tokens_in(shown) + tokens_in(heading)
        if (heading, line.place.entry) != above:
            written += ["", heading] if written else [heading]
            above = (heading, line.place.entry)
        numbers.append(number)
        written.append(shown)
        used += cost
    if written:
        parts.append(Part(tuple(numbers), "\n".join(written)))
    return parts


def _heading(entries: Sequence[Entry], line: Line) -> str:
    entry = entries[line.place.entry]
    section = entry.sections[line.place.section].heading
    told = f"{entry.title} › {section}" if section and section != entry.title else entry.title
    return f"Document: {' '.join(told.split())[:200]}"


def tokens_in(text: str) -> int:
    """Tokens of a line of text, estimated from its characters."""
    return estimate(UserLine(text)) - _EMPTY


_EMPTY = estimate(UserLine("")) - 1
