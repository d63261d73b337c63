"""reStructuredText: sections below underlined titles, read line by line, because its lines are what is cited.

docutils would run directives and include files, takes milliseconds for what takes microseconds here, and
keeps no exact lines; what is wanted are the titles, and the text as it stands.
"""

from collections.abc import Iterable, Sequence

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.outline import Heading, outlined
from pixi.knowledge.reading.opening import Original

_ADORNMENTS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SURE = 4  # characters: a shorter line has to be as long as what it underlines


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The text, as one document."""
    del tell
    lines = decoded(original.all_bytes()).split("\n")
    return (outlined(lines, _headings(lines)),)


def _headings(lines: Sequence[str]) -> list[Heading]:
    """Titles with a line of one character under them, or over and under. Levels in the order they turn up."""
    found: list[Heading] = []
    styles: list[str] = []
    at = 0
    while at < len(lines):
        mark = _adornment(lines[at])
        over = bool(mark) and _is_overline(lines, at)
        title = at + 1 if over else at - 1
        if mark and (over or _is_underlined(lines, title, found)):
            style = mark * 2 if over else mark
            if style not in styles:
                styles.append(style)
            end = at + 3 if over else at + 1
            text = " ".join(lines[title].split())
            found.append(Heading(styles.index(style) + 1, text, at if over else title, end))
            at = end
        else:
            at += 1
    return found


def _adornment(line: str) -> str:
    """The character that the line is made of; "" for any other line."""
    line = line.rstrip()
    return line[0] if line and line[0] in _ADORNMENTS and line == line[0] * len(line) else ""


def _is_overline(lines: Sequence[str], at: int) -> bool:
    """Whether a title stands below, and the same line once more below that."""
    if at + 2 >= len(lines) or lines[at].rstrip() != lines[at + 2].rstrip():
        return False
    title = lines[at + 1].strip()
    return bool(title) and not _adornment(lines[at + 1]) and _covers(lines[at], title)


def _is_underlined(lines: Sequence[str], title: int, found: Sequence[Heading]) -> bool:
    """Whether that line is a title on its own: of text, at the margin, with nothing above it."""
    if title < 0 or (found and title < found[-1].end):
        return False
    text = lines[title]
    if not text.strip() or text[0].isspace() or _adornment(text):
        return False
    alone = title == 0 or not lines[title - 1].strip() or (bool(found) and found[-1].end == title)
    return alone and _covers(lines[title + 1], text.rstrip())


def _covers(line: str, title: str) -> bool:
    length = len(line.rstrip())
    return length >= len(title) or length >= _SURE
