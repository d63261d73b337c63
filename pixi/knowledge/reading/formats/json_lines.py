"""JSON Lines: a record on every line."""

import codecs
from collections.abc import Iterable

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.json_files import documents_in, documents_in_lines
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The records. They are read line by line: the file may be larger than what fits into memory at once."""
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
