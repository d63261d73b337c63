"""Texts cut into sentences, in any script, by where they stand."""

import re
from collections.abc import Iterator

LONGEST = 600
"""Characters of a sentence; what is longer (a table, a list without stops) is cut where it best can be."""

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
    """Where the sentences of a text begin and end, without blanks round them, in order.

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
    """Where a sentence that is too long is cut: at the best mark in the second half of what it may be."""
    best: dict[str, int] = {}
    for found in _WEAK_STOP.finditer(text, start + LONGEST // 2, start + LONGEST):
        kind = (
            "\n" if found[0] == "\n" else ";" if found[0] in ";；؛:：" else " " if found[0].isspace() else ","
        )
        best[kind] = found.end()
    return next((best[kind] for kind in "\n;, " if kind in best), start + LONGEST)
