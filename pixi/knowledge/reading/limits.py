"""How much a single file may cost."""

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may cost before it is set aside.

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
    """Bytes, for people."""
    return f"{count / _MIB:,.0f} MiB" if count >= _MIB else f"{count:,} bytes"
