"""Files and the documents in them: what a reader is given, makes of it, and refuses."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader, UnsupportedOperation
from typing import BinaryIO

from pixi.core.errors import PixiError

_MIB = 1024 * 1024
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Errors that libraries raise over a file that is not of its kind. Any other ends the process."""
MARKDOWN = frozenset({".md", ".markdown"})
PLAIN = frozenset({".txt", ".text"})
RESTRUCTURED = frozenset({".rst", ".rest"})
HTML = frozenset({".html", ".htm", ".xhtml"})
JSON = frozenset({".json"})
JSON_LINES = frozenset({".jsonl", ".ndjson"})
TABLES = frozenset({".csv", ".tsv"})
PDF = frozenset({".pdf"})
WORD = frozenset({".docx"})
EPUB = frozenset({".epub"})
ZST = frozenset({".zst", ".json.zst", ".jsonl.zst", ".ndjson.zst"})
FETCHED = ".fetched"
"""Suffix of a page that was fetched, see `formats/fetched.py`. No database holds one."""
SUFFIXES = MARKDOWN | PLAIN | RESTRUCTURED | HTML | JSON | JSON_LINES | TABLES | PDF | WORD | EPUB | ZST
"""Suffixes that can be read: lower-case, with the dot. One of two parts ends like one of a single part."""
_NOT_FILES = {
    stat.S_IFDIR: "a folder, though its name is that of a file; rename it",
    stat.S_IFLNK: "a symbolic link; put the file itself in its place",
    stat.S_IFIFO: "a pipe; put a file in its place",
    stat.S_IFSOCK: "a socket; put a file in its place",
    stat.S_IFCHR: "a device; put a file in its place",
    stat.S_IFBLK: "a device; put a file in its place",
}
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document, in reading order.

    Attributes:
        text: as it stands in the file, with its line breaks where `line` is told.
        heading: the headings above it, outermost first, joined by ` › `; "" where there are none.
        line: the number, from 1, of the file's line on which `text` begins; 0: lines mean nothing there.
        page: the page, from 1; 0: there are no pages.
        on_one_line: all of `text` stands on `line`, and its line breaks are not the file's: a record of JSON
            Lines, a row of a table.
    """

    text: str
    heading: str = ""
    line: int = 0
    page: int = 0
    on_one_line: bool = False

    def line_at(self, position: int) -> int:
        """Return on which line of the file the character at `position` of `text` stands; 0: not known."""
        if not self.line or self.on_one_line:
            return self.line
        return self.line + self.text.count("\n", 0, position)


@dataclass(frozen=True, slots=True)
class Document:
    """A document: a file, or one record of it.

    Attributes:
        key: names the record within its file, unchanged by edits elsewhere in it; "" where the file is one
            document.
        title: for people, one line; "" where the file tells none.
        sections: in reading order.
    """

    key: str
    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits of a file; beyond them it is set aside.

    Attributes:
        seconds: for one file, on the clock.
        megabytes: of memory for the process that reads it.
        file_bytes: of the file itself.
        unpacked_bytes: of what is inside a compressed file, all in all.
        characters: of text that comes out, headings and titles too.
        records: documents that come out.
        depth: of objects in objects.
    """

    seconds: float = 60.0
    megabytes: int = 1024
    file_bytes: int = 256 * _MIB
    unpacked_bytes: int = 256 * _MIB
    characters: int = 256_000_000
    records: int = 1_000_000
    depth: int = 64


def mib(count: int) -> str:
    """Return a number of bytes for people."""
    return f"{count / _MIB:,.0f} MiB" if count >= _MIB else f"{count:,} bytes"


class SetAside(PixiError):
    """A file was not read. The text is one line for people: what is wrong, and what mends it.

    Attributes:
        again: it may be readable in a moment, without anybody's mending it: it was gone, or locked.
    """

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again

    @property
    def reason(self) -> str:
        """The text."""
        return str(self)


class Documents(tuple[Document, ...]):
    """The documents of one file, in its order.

    Attributes:
        note: one line on what in the file was passed over; "" where all of it was read.
    """

    note: str

    def __new__(cls, documents: Iterable[Document] = (), note: str = "") -> "Documents":
        """Put them together."""
        made = super().__new__(cls, documents)
        made.note = note
        return made


def suffix_of(name: str) -> str:
    """Return the suffix by which a file is read, in lower case, of two parts where it has two; "": it is not.

    Args:
        name: of a file, without its folders.
    """
    start, last = os.path.splitext(name.lower())
    if last == ".zst":
        both = os.path.splitext(start)[1] + last
        return both if both in SUFFIXES else last
    return last if last in SUFFIXES else ""


@dataclass(frozen=True, slots=True)
class Original:
    """A file for a reader.

    Attributes:
        file: the bytes; it can be sought.
        name: the file's, without its folders.
        size: bytes.
        limits: what it may cost.
    """

    file: BinaryIO
    name: str
    size: int
    limits: FileLimits

    def all_bytes(self) -> bytes:
        """Return all of it, but for what it grew by since it was opened."""
        return self.file.read(self.size)


def open_regular(path: bytes, limits: FileLimits) -> int:
    """Open a regular file, and nothing else, within the limits; return its descriptor.

    Raises:
        SetAside: it is something else, too large, gone, or not to be read.
    """
    try:
        _check_kind(os.lstat(path).st_mode)  # before it is opened: opening a device may already do something
        descriptor = os.open(path, _FLAGS)
        try:
            state = os.fstat(descriptor)
            _check_kind(state.st_mode)  # once more, of what was really opened
            _check_size(state.st_size, limits)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise _unreadable(error) from None
    except ValueError:
        raise SetAside("has a name that no file can have; rename it") from None
    return descriptor


def original_of(descriptor: int, name: bytes, limits: FileLimits) -> Original:
    """Return what `open_regular` opened, for a reader.

    Args:
        descriptor: closed with the `file` of what is returned.
        name: of the file; its folders do not count.
        limits: what the file may cost.

    Raises:
        SetAside: the file cannot be read.
    """
    try:
        file = os.fdopen(descriptor, "rb")
        size = os.fstat(descriptor).st_size
    except OSError as error:
        raise _unreadable(error) from None
    assert isinstance(file, BufferedReader)
    return Original(file, os.path.basename(os.fsdecode(name)), size, limits)


def _check_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise SetAside(f"is {_NOT_FILES.get(stat.S_IFMT(mode), 'no file; put one in its place')}")


def _check_size(size: int, limits: FileLimits) -> None:
    if size > limits.file_bytes:
        raise SetAside(f"is larger than {mib(limits.file_bytes)}; split it into smaller files")


def _unreadable(error: OSError) -> SetAside:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return SetAside("is gone; it is read again when it is back", again=True)
        case UnsupportedOperation():
            return SetAside("cannot be read in any order; put a plain file in its place")
        case PermissionError():
            return SetAside("may not be read; check its permissions, or close what holds it", again=True)
        case BlockingIOError():
            return SetAside("is locked; close what holds it", again=True)
        case _:
            return SetAside(f"cannot be read ({error.strerror}); check the disk", again=True)
