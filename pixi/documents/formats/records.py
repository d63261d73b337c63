"""Records: tables, and JSON files."""

import codecs
import csv
import hashlib
import io
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pixi.core.errors import Reporter
from pixi.documents.files import JSON_LINES, ZST, Document, Original, Section, SetAside, mib
from pixi.documents.formats.text import decoded

_KEYS = ("_id", "id", "uuid", "guid", "key", "slug", "url", "uri", "link", "permalink")
_TITLES = (
    *("title", "name", "headline", "heading", "subject", "question", "label", "term", "word"),
    *("标题", "標題", "名称", "名稱", "题目", "问题", "問題", "عنوان", "نام", "سوال", "سؤال", "العنوان"),
)
_TEXTS = (
    *("text", "content", "contents", "body", "article", "passage", "paragraph", "context", "document"),
    *("description", "answer", "abstract", "summary", "definition"),
    *("正文", "内容", "內容", "文本", "答案", "متن", "محتوا", "پاسخ", "جواب", "النص"),
)
_UNASKED = frozenset({"_id", "id", "uuid", "guid"})  # names that nobody would ask for
_TITLE = 60  # characters of a title made of what a record says
_LONG = 200  # characters: a longer value is a section of its own

Values = Mapping[str, object]


def document_of(
    record: object, *, key: str | None = None, line: int = 0, depth: int = 64, plain: bool = False
) -> Document:
    """Return a record as a document.

    Args:
        record: what JSON knows; a table's rows are objects of texts.
        key: what names it, where that is known; None: what in the record itself does, else its content.
        line: the file's line on which it stands; 0: not known.
        depth: of objects in objects, at most.
        plain: every value stands on a line of its own, however long.

    Raises:
        SetAside: it is nested deeper.
    """
    if not isinstance(record, dict):
        own = key if key is not None else _digest(record)
        return _document(own, "", [("", "\n".join(_rendered(record, depth)))], line)
    names = _by_lower_case(record)
    titled = _first(record, names, _TITLES)
    told = _first(record, names, _TEXTS, several=True)
    named = _first(record, names, _KEYS)
    title = _said(record[titled]) if titled is not None else ""
    own = key if key is not None else _said(record[named]) if named is not None else title or _digest(record)
    left_out = {titled, told, *(names[name] for name in _UNASKED & names.keys())}
    rest = {name: value for name, value in record.items() if name not in left_out}
    main = _said(record[told]) if told is not None else ""
    # What names nothing else is shown by its first words: the hash of its content would say nothing.
    shown = title if title or key is not None or named is not None else _first_words(record.values())
    return _document(own, shown, list(_texts(main, rest, depth, plain)), line)


def _first_words(values: Iterable[object]) -> str:
    """Return the first value with a letter in it, as far as a title goes."""
    for value in values:
        if isinstance(value, str) and any(character.isalpha() for character in value[:_LONG]):
            words = " ".join(value[:_LONG].split())
            return words if len(words) <= _TITLE else f"{words[:_TITLE].rsplit(' ', 1)[0]} …"
    return ""


def _by_lower_case(record: Values) -> dict[str, str]:
    """Return the names of the fields by what they are in lower case; of two the first."""
    return {name.strip().lower(): name for name in reversed(tuple(record))}


def main_text(record: Values) -> bool:
    """Return True if one of the fields is what the record has to say."""
    return _first(record, _by_lower_case(record), _TEXTS) is not None


def _document(key: str, title: str, texts: Sequence[tuple[str, str]], line: int) -> Document:
    sections = tuple(
        Section(text.strip("\n"), heading, line, on_one_line=line > 0)
        for heading, text in texts
        if text.strip()
    )
    return Document(key, title, sections)


def _first(
    record: Values, names: Mapping[str, str], wanted: Sequence[str], *, several: bool = False
) -> str | None:
    """Return the first of the wanted names that has something to say."""
    for name in wanted:
        field = names.get(name)
        if field is None:
            continue
        value = record[field]
        if several and isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return field
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return field
    return None


def _said(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value).strip()


def _texts(main: str, rest: Values, depth: int, plain: bool) -> Iterator[tuple[str, str]]:
    """Yield what a record says, first of all in one piece, and each of its long fields, with its heading."""
    lines = []
    own: list[tuple[str, str]] = []
    for name, value in rest.items():
        short = _short(value)
        if short is None and plain:
            short = str(value)
        if short is None:
            own.append((name, "\n".join(_rendered(value, depth - 1))))
        elif short:
            lines.append(f"{name}: {short}")
    facts = "\n".join(lines)
    yield "", f"{main}\n\n{facts}" if main and facts else main or facts
    yield from own


def _short(value: object) -> str | None:
    """Return the value on one line; "" where it says nothing; None: too long for that, or made of others."""
    if value is None or (isinstance(value, list | dict) and not value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(part, str | int | float) for part in value):
        value = ", ".join(map(str, value))
    if isinstance(value, str | int | float):
        text = str(value).strip()
        return text if len(text) <= _LONG and "\n" not in text else None
    return None


def _rendered(value: object, depth: int, indent: str = "") -> Iterator[str]:
    """Yield the value as lines: names with colons, items with dashes, what is inside further in."""
    if depth <= 0:
        raise SetAside("nests objects too deep; flatten it")
    match value:
        case dict():
            for name, part in value.items():
                short = _short(part)
                if short is None:
                    yield f"{indent}{name}:"
                    yield from _rendered(part, depth - 1, indent + "  ")
                elif short:
                    yield f"{indent}{name}: {short}"
        case list():
            for part in value:
                yield from _item(part, depth, indent)
        case None:
            return
        case _:
            yield from (f"{indent}{line}" for line in str(value).split("\n"))


def _item(part: object, depth: int, indent: str) -> Iterator[str]:
    short = _short(part)
    if short is not None:
        if short:
            yield f"{indent}- {short}"
        return
    lines = _rendered(part, depth - 1, indent + "  ")
    for first in lines:
        yield f"{indent}- {first[len(indent) + 2 :]}"
        break
    yield from lines


def _digest(record: object) -> str:
    """Return the hash of the content: it does not change when the records before it do."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:24]


_SEPARATORS = ",;\t|"
_SAMPLE_CHARACTERS = 65_536
_SAMPLE_ROWS = 50
_LONGEST_NAME = 80
_NUMBER = re.compile(r"[-+]?[\d٠-٩۰-۹][\d٠-٩۰-۹.,:/%\s-]*")

Row = Sequence[str]


def read_table(original: Original, tell: Reporter) -> Iterable[Document]:
    """Yield the rows, each as a document; the first row names the columns where it looks like that."""
    text = decoded(original.all_bytes())
    if not text.strip():
        return
    csv.field_size_limit(original.limits.characters)
    sample = text[:_SAMPLE_CHARACTERS]
    if len(text) > len(sample):
        sample = sample.rpartition("\n")[0] or sample
    separator = "\t" if original.name.lower().endswith(".tsv") else _separator(sample)
    start = list(itertools.islice(_rows(sample, separator, tell=None), _SAMPLE_ROWS))
    names = _names(start)
    for line, row in _rows(text, separator, tell):
        if names is None or line != start[0][0]:
            yield document_of(_record(names, row), line=line, plain=True)


def _rows(text: str, separator: str, tell: Reporter | None) -> Iterator[tuple[int, Row]]:
    """Yield the rows that say anything, each with the line on which it begins.

    Raises:
        SetAside: it is no table.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        if tell is not None:
            raise SetAside(f"is no table: {error} on line {reader.line_num}; mend it there") from None


def _separator(sample: str) -> str:
    """Return the one that makes of most rows the same number of cells, and of that the most."""
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        widths = Counter(
            len(row) for _, row in itertools.islice(_rows(sample, separator, None), _SAMPLE_ROWS)
        )
        if not widths:
            continue
        width, rows = max(widths.items(), key=lambda item: (item[0] > 1, item[1]))
        share = rows / widths.total() * (1 + width / 1000) if width > 1 else 0.0
        if share > most:
            best, most = separator, share
    return best


def _names(rows: Sequence[tuple[int, Row]]) -> list[str] | None:
    """Return the names of the columns; None: the first row is one like any other."""
    if len(rows) < 2:
        return None
    first = [cell.strip() for cell in rows[0][1]]
    others = [row for _, row in rows[1:]]
    named = [cell for cell in first if cell]
    if len(set(named)) < len(named) or not named or any(len(cell) > _LONGEST_NAME for cell in named):
        return None
    if any(_NUMBER.fullmatch(cell) for cell in named):
        return None
    for at, name in enumerate(first):
        if name and any(len(row) > at and row[at].strip() == name for row in others):
            return None  # a name does not come again below itself
    return [name or f"column {at}" for at, name in enumerate(first, 1)]


def _record(names: Sequence[str] | None, row: Row) -> dict[str, str]:
    """Return the cells by their columns' names; by numbers where there are none, or too few."""
    record: dict[str, str] = {}
    for at, cell in enumerate(row):
        name = names[at] if names is not None and at < len(names) else f"column {at + 1}"
        if cell.strip():
            record[name] = cell.strip()
    return record


def read(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the records, or the one that the file is."""
    data = original.all_bytes()
    return documents_in(data, original.limits.depth, tell)


def documents_in(data: bytes, depth: int, tell: Reporter) -> Iterable[Document]:
    """Return what some JSON holds; JSON Lines too, whatever they are called.

    Raises:
        SetAside: it is neither.
    """
    if not data.strip():
        return ()
    try:
        value = parsed(data)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return documents_in_lines(data.split(b"\n"), depth, tell)
        where = f"line {error.lineno}, column {error.colno}"
        raise SetAside(f"is no JSON: {error.msg} at {where}; mend it there") from None
    except RecursionError:
        raise SetAside("nests objects too deep; flatten it") from None
    return documents_of(value, depth)


def documents_in_lines(lines: Iterable[bytes], depth: int, tell: Reporter) -> Iterator[Document]:
    """Yield a document for each line. Those that are no JSON are passed over and told of.

    Raises:
        SetAside: every line is.
    """
    broken = first = good = 0
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not text.strip():
            continue
        try:
            record = parsed(text)
            if not isinstance(record, dict | list | str):
                raise SetAside("says nothing")
            document = document_of(record, line=number, depth=depth)
        except (json.JSONDecodeError, RecursionError, SetAside):
            broken += 1
            first = first or number
            continue
        good += 1
        yield document
    if broken and not good:
        raise SetAside("holds not one record on a line of its own; write one object on every line")
    if broken:
        what = "1 line is no record" if broken == 1 else f"{broken:,} lines are no records"
        tell(f"{what} and passed over, from line {first} on; mend or delete what is there")


def parsed(data: bytes) -> object:
    """Return what the JSON says.

    Raises:
        json.JSONDecodeError: it is none.
        RecursionError: it is nested too deep.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Slower, but it bears halves of surrogate pairs, NaN, other encodings, and tells where a mistake is.
        try:
            return json.loads(decoded(data))
        except json.JSONDecodeError:
            raise
        except ValueError:
            raise json.JSONDecodeError("a number of too many digits", "", 0) from None


def documents_of(value: object, depth: int) -> Iterator[Document]:
    """Yield the documents that a value holds, by its shape."""
    match value:
        case list():
            for record in value:
                yield document_of(record, depth=depth - 1)
        case dict() if main_text(value):
            yield document_of(value, key="", depth=depth)
        case dict() if listed := _lists_of_records(value):
            rest = {name: part for name, part in value.items() if name not in listed}
            about = document_of(rest, key="", depth=depth)
            if about.sections:
                yield about
            for name in listed:
                for record in value[name]:
                    yield document_of(record, depth=depth - 2)
        case dict() if len(value) > 1 and all(isinstance(part, dict) for part in value.values()):
            for name, record in value.items():
                yield document_of({"title": name, **record}, key=name, depth=depth - 1)
        case None | bool():
            return
        case _:
            yield document_of(value, key="", depth=depth)


def _lists_of_records(value: dict[str, object]) -> list[str]:
    return [
        name
        for name, part in value.items()
        if isinstance(part, list) and len(part) > 1 and all(isinstance(record, dict) for record in part)
    ]


_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(original: Original, tell: Reporter) -> Iterable[Document]:
    """Yield the records, read line by line: the file may be larger than memory."""
    start = original.file.read(2)
    original.file.seek(0)
    if start in _WIDE:
        lines: Iterable[bytes] = decoded(original.all_bytes()).encode("utf-8", "replace").split(b"\n")
    else:
        lines = original.file
    came = False
    try:
        for document in documents_in_lines(lines, original.limits.depth, tell):
            came = True
            yield document
    except SetAside:
        if came or not original.file.seekable():
            raise
        original.file.seek(0)
        yield from documents_in(original.all_bytes(), original.limits.depth, tell)


_LINES = tuple(suffix for suffix in ZST if suffix.removesuffix(".zst") in JSON_LINES)
_WINDOW_LOG = 27  # who packed it may have looked back by 128 MiB, as `zstd --long` does
_BLOCK = 1024 * 1024


def read_packed(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the records inside."""
    data = _unpacked(original)
    if original.name.lower().endswith(_LINES):
        return documents_in_lines(data.split(b"\n"), original.limits.depth, tell)
    return documents_in(data, original.limits.depth, tell)


def _unpacked(original: Original) -> bytes:
    most = original.limits.unpacked_bytes
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise SetAside("needs a library to unpack it; install pixi-persona[docs]") from None
    data = bytearray()
    if not original.size:
        return b""
    try:
        with zstd.ZstdFile(
            original.file, options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        ) as unpacked:
            while block := unpacked.read(_BLOCK):
                data += block
                if len(data) > most:
                    raise SetAside(f"unpacks to more than {mib(most)}; split it")
    except EOFError:
        raise SetAside("is cut off; pack it anew") from None
    except zstd.ZstdError:
        raise SetAside("is broken, or not packed with Zstandard; pack it anew") from None
    return bytes(data)
