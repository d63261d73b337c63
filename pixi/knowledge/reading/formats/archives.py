"""Zip archives opened with suspicion: what documents and books come in."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pixi.knowledge.reading.limits import Limits, mib
from pixi.knowledge.reading.outcome import SetAside

_MEMBERS = 20_000
_ENCRYPTED = 1  # bit of a member's flags
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"  # begins an office file of before 2007, and one with a password


@contextmanager
def opened(file: BinaryIO, kind: str) -> Iterator[zipfile.ZipFile]:
    """The archive.

    Args:
        file: to read it from.
        kind: what it should be, for people: "Word document".

    Raises:
        SetAside: it is broken, encrypted, or none; also for what is found out while it is read.
    """
    if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
        raise SetAside(f"is an old {kind}, or has a password; save a copy in the new format, without one")
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MEMBERS:
                raise SetAside(f"holds more than {_MEMBERS:,} files; save it anew")
            if any(member.flag_bits & _ENCRYPTED for member in members):
                raise SetAside("is encrypted; save a copy without a password")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        raise SetAside(f"is broken, or no {kind}; save it anew") from None


def check_unpacked(archive: zipfile.ZipFile, limits: Limits) -> None:
    """See that everything inside comes to no more than it may. Nobody unpacks more than is declared.

    Raises:
        SetAside: it does.
    """
    if sum(member.file_size for member in archive.infolist()) > limits.unpacked_bytes:
        raise SetAside(f"unpacks to more than {mib(limits.unpacked_bytes)}; save it with fewer pictures")
