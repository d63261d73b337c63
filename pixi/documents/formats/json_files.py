"""JSON and JSON Lines, plain or compressed with Zstandard: records, or one record."""

import codecs
import json
import sys
from collections.abc import Iterable, Iterator

import msgspec

from pixi.documents.document import Document
from pixi.documents.files import JSON_LINES, ZST, FileLimits, Original, SetAside, mib
from pixi.documents.formats import Tell
from pixi.documents.formats.plain import decoded
from pixi.documents.formats.records import document_of, main_text


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """Return the records, or the one that the file is."""
    data = original.all_bytes()
    return documents_in(data, original.limits.depth, tell)


def documents_in(data: bytes, depth: int, tell: Tell) -> Iterable[Document]:
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


def documents_in_lines(lines: Iterable[bytes], depth: int, tell: Tell) -> Iterator[Document]:
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


def read_lines(original: Original, tell: Tell) -> Iterable[Document]:
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


def read_packed(original: Original, tell: Tell) -> Iterable[Document]:
    """Return the records inside."""
    data = _unpacked(original, original.limits)
    if original.name.lower().endswith(_LINES):
        return documents_in_lines(data.split(b"\n"), original.limits.depth, tell)
    return documents_in(data, original.limits.depth, tell)


def _unpacked(original: Original, limits: FileLimits) -> bytes:
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
                if len(data) > limits.unpacked_bytes:
                    raise SetAside(f"unpacks to more than {mib(limits.unpacked_bytes)}; split it")
    except EOFError:
        raise SetAside("is cut off; pack it anew") from None
    except zstd.ZstdError:
        raise SetAside("is broken, or not packed with Zstandard; pack it anew") from None
    return bytes(data)
