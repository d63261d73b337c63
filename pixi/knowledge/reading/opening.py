"""A file opened for reading without trusting what stands at its name."""

import os
import stat
from dataclasses import dataclass
from io import BufferedReader, UnsupportedOperation
from typing import BinaryIO

from pixi.knowledge.reading.limits import Limits, mib
from pixi.knowledge.reading.outcome import SetAside

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
class Original:
    """What a reader reads.

    Attributes:
        file: the bytes; it can be sought.
        name: the file's, without its folders.
        size: bytes.
        limits: what it may cost.
    """

    file: BinaryIO
    name: str
    size: int
    limits: Limits

    def all_bytes(self) -> bytes:
        """All of it, but for what it grew by since it was opened."""
        return self.file.read(self.size)


def open_regular(path: bytes, limits: Limits) -> int:
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


def original_of(descriptor: int, name: bytes, limits: Limits) -> Original:
    """What `open_regular` opened, for a reader.

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


def _check_size(size: int, limits: Limits) -> None:
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
