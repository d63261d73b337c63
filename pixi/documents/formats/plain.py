"""Plain text: bytes decoded, whatever wrote them, and cut into sections of whole paragraphs."""

import codecs
import re
from collections.abc import Iterable, Iterator

from pixi.documents.document import Document, Section
from pixi.documents.files import Original, SetAside
from pixi.documents.formats import Tell

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
"""What people's files are in, when not in Unicode. Measured: fewer to choose from are guessed better."""
_ESCAPED_JAPANESE = b"\x1b$B"
_WESTERN = "cp1252"
_LIKE_WESTERN = frozenset({"cp1250", "cp1254", "cp1257", "iso8859_2", "iso8859_15"})
_NO_TEXT = "holds no text that can be told from other data; save it anew as UTF-8"


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
        except ValueError:
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


_ENOUGH = 2_000  # characters: a section ends with the paragraph that reaches so many
_TOO_LONG = 8_000  # characters: a longer paragraph is parted between its lines, and a line between its words
_ENDS = (("\n",), (". ", "! ", "? ", "؟ ", "。", "！", "？", "۔ "), (" ", "\t", "\u3000", "，", "、"))


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """Return the text, as one document."""
    del tell
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
