"""One reader for each format. A reader makes documents of a file that is already open; it runs apart.

A reader is a function of an `Original` and of something to tell what it passed over; it gives documents, in
order, as it comes to them, and raises `SetAside` where it can make none.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module

from pixi.knowledge.entry import Document
from pixi.knowledge.reading import labels, suffixes
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

Tell = Callable[[str], None]
Reader = Callable[[Original, Tell], Iterable[Document]]

_MODULES = {
    "markdown": suffixes.MARKDOWN,
    "plain": suffixes.PLAIN,
    "restructured": suffixes.RESTRUCTURED,
    "html": suffixes.HTML,
    "json_files": suffixes.JSON,
    "json_lines": suffixes.JSON_LINES,
    "tables": suffixes.TABLES,
    "pdf": suffixes.PDF,
    "word": suffixes.WORD,
    "epub": suffixes.EPUB,
    "zst": suffixes.ZST,
}
_MODULE_OF = {suffix: name for name, known in _MODULES.items() for suffix in known}
_FETCHED = "fetched"
_SLOW = suffixes.PDF | suffixes.WORD | suffixes.EPUB | suffixes.ZST


def is_slow(name: str) -> bool:
    """Whether even a small file of that name may take long."""
    return suffixes.suffix_of(name) in _SLOW


def read_documents(original: Original, tell: Tell) -> Iterable[Document]:
    """The documents of a file, read by what its name says it is.

    Args:
        original: the file.
        tell: called with a line for people on what was passed over in it.

    Raises:
        SetAside: none can be made; also while they are taken.
    """
    if original.name.endswith(labels.SUFFIX):
        return _reader(_FETCHED)(original, tell)
    suffix = suffixes.suffix_of(original.name)
    if not suffix:
        raise SetAside(f"is of no kind that can be read; those are {', '.join(sorted(suffixes.SUFFIXES))}")
    return _reader(_MODULE_OF[suffix])(original, tell)


@cache
def _reader(module: str) -> Reader:
    reader: Reader = import_module(f"{__name__}.{module}").read
    return reader
