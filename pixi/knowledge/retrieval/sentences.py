"""Cuts documents into sentences, in any script, and numbers them for a helper model to choose from."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pixi.core.lines import UserLine
from pixi.core.tokens import estimate
from pixi.knowledge.entry import Entry
from pixi.knowledge.retrieval.findings import SourceSpan

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


@dataclass(frozen=True, slots=True)
class Sentence:
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


@dataclass(frozen=True, slots=True)
class PromptPart:
    """What a helper reads at once.

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
