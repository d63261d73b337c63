"""Plain text and markup."""

import codecs
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pixi.core.errors import Reporter
from pixi.documents.files import Document, Original, Section, SetAside

_MARKS = (  # the longer before the shorter: UTF-32's begins like UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SPACES = re.compile("[ \n。，、]")
_CONTROLS = re.compile(
    "[\t\n\f\r\u200b-\u200f\u3000\xa0\ufeff]"
)  # they are in text, though they print nothing
_BREAKS = re.compile("\r\n?")
_NOT_ASCII = re.compile(rb"[^\n\x80-\xff]*[\x80-\xff][^\n]*\n?")
_SAMPLE = 32_768
_MANY = 10  # broken characters to one whole, at most, in what still counts as UTF-8: one in ten
_KNOWN = [
    *("cp932", "euc_jp", "gb18030", "big5", "cp949", "tis_620"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("koi8_r", "cp866", "iso8859_2", "iso8859_7", "iso8859_15"),
]
"""Usual encodings other than Unicode. Measured: fewer to choose from are guessed better."""
_ESCAPED_JAPANESE = b"\x1b$B"
_WESTERN = "cp1252"
_LIKE_WESTERN = frozenset({"cp1250", "cp1254", "cp1257", "iso8859_2", "iso8859_15"})
_NO_TEXT = "holds no text that can be told from other data; save it anew as UTF-8"
_ENOUGH = 2_000  # characters: a section ends with the paragraph that reaches so many
_TOO_LONG = 8_000  # characters: a longer paragraph is parted between its lines, and a line between its words
_ENDS = (("\n",), (". ", "! ", "? ", "؟ ", "。", "！", "？", "۔ "), (" ", "\t", "\u3000", "，", "、"))
BETWEEN_HEADINGS = " › "
# Markdown. A library would give a tree of everything; what is wanted are headings, and not to take code for
# them.

_HASHES = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r"[ \t]*(?:[-*+>] *|\d{1,9}[.)] +)*(`{3,}(?=[^`]*$)|~{3,})")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:$|[-*+] |\d{1,9}[.)] |>|\||<)| {4}|\t")
_MATTER_END = frozenset({"---", "..."})
_MATTER_LINES = 500
_MATTER_TITLE = re.compile(r"title[ \t]*:(.*)")
_SIMPLE_VALUE = re.compile(r"[^\s\"'|>&*!%@`{\[#][^#:]*$")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_ATTRIBUTES = re.compile(r"[ \t]*\{[#.:][^{}]*\}$")
_EMPHASIS = re.compile(r"(?<!\\)(\*{1,3}|`+|~~|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w))")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MARKED = re.compile(r"[\\`*_~\[\]<>&{}]|\s\s|\t")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# reStructuredText. docutils would run directives and include files, takes milliseconds for what takes
# microseconds here, and keeps no exact lines; what is wanted are the titles, and the text as it stands.

_ADORNMENTS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SURE = 4  # characters: a shorter line has to be as long as what it underlines


def decoded(data: bytes, declared: str = "") -> str:
    """Return the text, with every line break as `\\n`.

    Args:
        data: a whole file.
        declared: an encoding that it names itself; believed if it fits, and if nothing better is known.

    Raises:
        SetAside: it is no text.
    """
    text = _decoded(data, declared)
    return _BREAKS.sub("\n", text) if "\r" in text else text


def _decoded(data: bytes, declared: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    wide = _wide(data[:_SAMPLE])
    if wide:
        return data.decode(wide, "replace")
    if b"\0" in data:
        raise SetAside(_NO_TEXT)
    if _ESCAPED_JAPANESE in data and data.isascii():
        return data.decode("iso2022_jp", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _from_another(data, declared)


def _wide(start: bytes) -> str:
    """Return the encoding of UTF-16 or UTF-32 without a mark; "" for anything else."""
    if b"\0" not in start:
        return ""
    best, most = "", 0
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(start)
        except ValueError:  # it is not of this encoding
            continue
        # Read the wrong way round it is full of what nobody can print, and has hardly a space.
        spaces = len(_SPACES.findall(text))
        if spaces > most and _CONTROLS.sub("", text).isprintable():
            best, most = encoding, spaces
    return best


def _from_another(data: bytes, declared: str) -> str:
    """Decode text that is not quite UTF-8, or not at all."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    # That one beyond ASCII decodes is hardly ever chance: a few bad bytes do not make it another encoding.
    whole = sum(map(len, re.findall(r"[^\x00-\x7f\ufffd]+", text)))
    if broken * _MANY <= whole:
        return text
    if declared:
        try:
            return data.decode(declared)
        except (LookupError, ValueError):
            pass  # it names no encoding, or a wrong one
    return data.decode(_guessed(data), "replace")


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    # Lines of ASCII alone say nothing; those that do are gathered, wherever in the file they stand.
    sample = bytearray()
    for line in _NOT_ASCII.finditer(data):
        sample += line.group()[:_SAMPLE]
        if len(sample) >= _SAMPLE:
            break
    matches = from_bytes(bytes(sample), cp_isolation=_KNOWN)
    best = matches.best() or from_bytes(bytes(sample)).best()
    if best is None:
        raise SetAside(_NO_TEXT)
    western = next((match for match in matches if match.encoding == _WESTERN), None)
    if western is not None and best.encoding in _LIKE_WESTERN and western.chaos <= best.chaos:
        return _WESTERN  # the letters that tell them apart are rare, and this one is by far the most used
    return best.encoding


def read(original: Original, _: Reporter) -> Iterable[Document]:
    """Return the text, as one document."""
    text = decoded(original.all_bytes())
    if not text.strip():
        return ()
    return (Document("", "", tuple(sections(text))),)


def sections(text: str) -> Iterator[Section]:
    """Yield sections of some thousand characters, ending where paragraphs do."""
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
    """Return where the paragraph that begins here ends: after the empty line below, or when too long."""
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
    """Yield these characters as a section, or as several where one line is very long."""
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
    """Return a good place to part, best after a sentence, within the characters that a section may have."""
    first, last = start + _TOO_LONG // 2, min(start + _TOO_LONG, end)
    for ends in _ENDS:
        places = [text.rfind(mark, first, last) + len(mark) for mark in ends if mark in text[first:last]]
        if places:
            return max(places)
    return last


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
    """Return a document with a section below each heading.

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
    """Return these lines (from 0, the end excluded) without empty ones round them; None: all are empty."""
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
    """Return True if others stand below this heading."""
    return at + 1 < len(headings) and headings[at + 1].level > headings[at].level


def _joined(path: Sequence[Heading]) -> str:
    return BETWEEN_HEADINGS.join(heading.text for heading in path if heading.text)


def as_markdown(document: Document) -> str:
    """Return the document as Markdown: each heading once, before what stands below it."""
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


def read_markdown(original: Original, _: Reporter) -> Iterable[Document]:
    """Return the text, as one document."""
    return (document_of(decoded(original.all_bytes())),)


def document_of(text: str) -> Document:
    """Return the text as a document."""
    lines = text.split("\n")
    title, first = _front_matter(lines)
    # What else the front matter says may be asked for too: it stays in the text, as it stands.
    return outlined(lines, _markdown_headings(lines, first), title, first if _is_bare(lines, first) else 0)


def plain_heading(text: str) -> str:
    """Return a heading without its marks: emphasis, links, images, tags, attributes, escapes."""
    text = text.strip()
    if not _MARKED.search(text):
        return text
    text = _ATTRIBUTES.sub("", text)
    text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _TAG.sub("", text)
    text = _EMPHASIS.sub("", text)
    return " ".join(html.unescape(_ESCAPE.sub(r"\1", text)).split())


def _markdown_headings(lines: Sequence[str], first: int) -> list[Heading]:
    found: list[Heading] = []
    fence = ""
    comment = False
    paragraph = first  # where the paragraph begins that an underline would make a heading of
    for at in range(first, len(lines)):
        line = lines[at]
        if fence:
            if _closes(line, fence):
                fence = ""
                paragraph = at + 1
            continue
        if comment or line.lstrip().startswith("<!--"):
            comment = "-->" not in line
            paragraph = at + 1
            continue
        heading = None
        if "#" in line and (hashes := _HASHES.match(line)):
            text = _CLOSING_HASHES.sub("", (hashes[2] or "").rstrip())
            heading = Heading(len(hashes[1]), plain_heading(text), at, at + 1)
        elif paragraph < at and (under := _UNDERLINE.match(line)):
            text = " ".join(lines[paragraph:at])
            heading = Heading(1 if under[1][0] == "=" else 2, plain_heading(text), paragraph, at + 1)
        elif opening := _FENCE.match(line):
            fence = opening[1]
        if heading is not None:
            found.append(heading)
        if heading is not None or fence or _NO_PARAGRAPH.match(line) or at - paragraph > 2:
            paragraph = at + 1
    return found


def _closes(line: str, fence: str) -> bool:
    """Return True if the line ends code that such a fence opened."""
    rest = line.strip().lstrip("> ")
    return len(rest) >= len(fence) and rest == fence[0] * len(rest)


def _front_matter(lines: Sequence[str]) -> tuple[str, int]:
    """Return the title that it tells, and the line, from 0, after it; "" and 0 where there is none."""
    if not lines or lines[0].rstrip() != "---":
        return "", 0
    for at in range(1, min(len(lines), _MATTER_LINES)):
        if lines[at].rstrip() in _MATTER_END:
            return _title_in(lines[1:at]), at + 1
    return "", 0


def _is_bare(lines: Sequence[str], first: int) -> bool:
    """Return True if the front matter says nothing but a title."""
    return all(not line.strip() or _MATTER_TITLE.match(line) for line in lines[1 : max(first - 1, 0)])


def _title_in(matter: Sequence[str]) -> str:
    for line in matter:
        if told := _MATTER_TITLE.match(line):
            value = told[1].strip()
            # Nearly every title is a plain word or two; the whole of YAML is for the others.
            return value if _SIMPLE_VALUE.match(value) else _parsed_title("\n".join(matter))
    return ""


def _parsed_title(matter: str) -> str:
    import yaml

    try:
        values = yaml.load(matter, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""  # then a heading is the title
    title = values.get("title") if isinstance(values, dict) else None
    return title if isinstance(title, str) else ""


def read_restructured(original: Original, _: Reporter) -> Iterable[Document]:
    """Return the text, as one document."""
    lines = decoded(original.all_bytes()).split("\n")
    return (outlined(lines, _restructured_headings(lines)),)


def _restructured_headings(lines: Sequence[str]) -> list[Heading]:
    """Return titles with a line of one character under them, or over and under; levels as they turn up."""
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
    """Return the character that the line is made of; "" for any other line."""
    line = line.rstrip()
    return line[0] if line and line[0] in _ADORNMENTS and line == line[0] * len(line) else ""


def _is_overline(lines: Sequence[str], at: int) -> bool:
    """Return True if a title stands below, and the same line once more below that."""
    if at + 2 >= len(lines) or lines[at].rstrip() != lines[at + 2].rstrip():
        return False
    title = lines[at + 1].strip()
    return bool(title) and not _adornment(lines[at + 1]) and _covers(lines[at], title)


def _is_underlined(lines: Sequence[str], title: int, found: Sequence[Heading]) -> bool:
    """Return True if that line is a title on its own: of text, at the margin, with nothing above it."""
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
