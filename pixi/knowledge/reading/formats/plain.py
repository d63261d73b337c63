"""Plain text: sections of whole paragraphs."""

from collections.abc import Iterable, Iterator

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.opening import Original

_ENOUGH = 2_000  # characters: a section ends with the paragraph that reaches so many
_TOO_LONG = 8_000  # characters: a longer paragraph is parted between its lines, and a line between its words
_ENDS = (("\n",), (". ", "! ", "? ", "؟ ", "。", "！", "？", "۔ "), (" ", "\t", "\u3000", "，", "、"))


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The text, as one document."""
    del tell
    text = decoded(original.all_bytes())
    if not text.strip():
        return ()
    return (Document("", "", tuple(sections(text))),)


def sections(text: str) -> Iterator[Section]:
    """Sections of some thousand characters, ending where paragraphs do."""
    start = 0  # where the section begins, and on which line
    line = 1
    end = counted = 0
    while end < len(text):
        end = _paragraph_end(text, end)
        if end - start >= _ENOUGH or end == len(text):
            line += text.count("\n", counted, start)
            counted = start
            yield from _parted(text, start, end, line)
            start = end


def _paragraph_end(text: str, start: int) -> int:
    """Where the paragraph that begins here ends: after the empty line below it, or where it is too long."""
    at = start
    while at < len(text) and at - start < _TOO_LONG:
        stop = text.find("\n", at)
        if stop < 0:
            return len(text)
        empty = at > start and not text[at : min(stop, at + 200)].strip() and stop - at < 200
        at = stop + 1
        if empty:
            return at
    return min(at, len(text)) if at < len(text) else len(text)


def _parted(text: str, start: int, end: int, line: int) -> Iterator[Section]:
    """These characters as a section, or as several where one line is very long."""
    while start < end:
        stop = end
        if end - start > 2 * _TOO_LONG:
            stop = _between_words(text, start, end)
        section = text[start:stop]
        stripped = section.strip("\n")
        lead = len(section) - len(section.lstrip("\n"))
        if stripped.strip():
            yield Section(stripped, line=line + lead)
        line += section.count("\n")
        start = stop


def _between_words(text: str, start: int, end: int) -> int:
    """A good place to part, best after a sentence, within the characters that a section may have."""
    first, last = start + _TOO_LONG // 2, min(start + _TOO_LONG, end)
    for ends in _ENDS:
        places = [text.rfind(mark, first, last) + len(mark) for mark in ends if mark in text[first:last]]
        if places:
            return max(places)
    return last
