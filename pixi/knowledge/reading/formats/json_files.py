"""JSON: one record, a list of them, or something that holds such a list."""

import codecs
import json
from collections.abc import Iterable, Iterator

import msgspec

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.records import document_of, main_text
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The records, or the one that the file is."""
    data = original.all_bytes()
    return documents_in(data, original.limits.depth, tell)


def documents_in(data: bytes, depth: int, tell: Tell) -> Iterable[Document]:
    """What some JSON holds; JSON Lines too, whatever they are called.

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
    """A document for each line. Those that are no JSON are passed over and told of.

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
    """What the JSON says.

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
    """The documents that a value holds, by its shape."""
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
