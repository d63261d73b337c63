"""A document as it is kept: its sections as bytes, its title, and the hash that tells it from others."""

import json
import re
import zlib
from collections.abc import Sequence
from hashlib import blake2b

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.one_line import on_one_line

_HASH = re.compile("[0-9a-f]{24}")
"""The key of a record that is known by its content alone."""


def key_of(document: Document, others: dict[str, int]) -> str:
    """The document's key, told from those before it where a file has it twice, and noted among them."""
    key = told = whole(document.key)
    count = others.get(key, 0)
    while told in others:
        count += 1
        told = f"{key}#{count}"
    others[key] = max(count, 1)
    others.setdefault(told, 1)
    return told


def title_of(path: str, document: Document) -> str:
    """For people: the file's name where it tells none, with the record's key where that says anything."""
    if title := on_one_line(document.title):
        return title
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    key = "" if _HASH.fullmatch(document.key) else document.key
    return on_one_line(f"{stem} {key}") or on_one_line(path)


def written(sections: Sequence[Section]) -> bytes:
    """The sections as JSON; `read` makes them of it again."""
    rows = [
        [whole(each.text), on_one_line(each.heading), each.line, each.page, each.on_one_line]
        for each in sections
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


def read(text: bytes) -> tuple[Section, ...]:
    """The sections of what `written` made."""
    return tuple(Section(*row) for row in json.loads(text))


def packed(text: bytes) -> bytes:
    """Made small."""
    return zlib.compress(text, 6)


def unpacked(small: bytes) -> bytes:
    """What `packed` was given."""
    return zlib.decompress(small)


def digest_of(title: str, text: bytes) -> bytes:
    """The hash of a title and of what stands below it."""
    return blake2b(whole(title).encode() + b"\0" + text, digest_size=16).digest()


def whole(text: str) -> str:
    """Without halves of characters, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
