"""Readers of files: functions that make documents of a file that is already open. They run apart.

A reader is a function of an `Original` and of something to tell what it passed over; it gives documents, in
order, as it comes to them, and raises `SetAside` where it can make none.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module

from pixi.core.errors import Reporter
from pixi.documents import files
from pixi.documents.files import Document, Original, SetAside

Reader = Callable[[Original, Reporter], Iterable[Document]]

_READERS = {
    ("text", "read_markdown"): files.MARKDOWN,
    ("text", "read_restructured"): files.RESTRUCTURED,
    ("text", "read"): files.PLAIN,
    ("html", "read"): files.HTML,
    ("records", "read"): files.JSON,
    ("records", "read_lines"): files.JSON_LINES,
    ("records", "read_packed"): files.ZST,
    ("records", "read_table"): files.TABLES,
    ("office", "read_pdf"): files.PDF,
    ("office", "read_word"): files.WORD,
    ("office", "read_epub"): files.EPUB,
    ("fetched", "read"): frozenset({files.FETCHED}),
}
"""The module and the function that read each kind of file; a module is imported when it is first needed."""

_READER_OF = {suffix: reader for reader, known in _READERS.items() for suffix in known}
_SLOW = files.PDF | files.WORD | files.EPUB | files.ZST


def is_slow(name: str) -> bool:
    """Return True if even a small file of that name may take long."""
    return files.suffix_of(name) in _SLOW


def read_documents(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the documents of a file, read by what its name says it is.

    Args:
        original: the file.
        tell: called with a line for people on what was passed over in it.

    Raises:
        SetAside: none can be made; also while they are taken.
    """
    fetched = original.name.endswith(files.FETCHED)
    suffix = files.FETCHED if fetched else files.suffix_of(original.name)
    if not suffix:
        raise SetAside(f"is of no kind that can be read; those are {', '.join(sorted(files.SUFFIXES))}")
    reader = _READER_OF[suffix]
    if original.size == 0 and reader[0] == "office":
        raise SetAside("is empty: 0 bytes; save it anew")
    return _reader(*reader)(original, tell)


@cache
def _reader(module: str, name: str) -> Reader:
    reader: Reader = getattr(import_module(f"{__name__}.{module}"), name)
    return reader
