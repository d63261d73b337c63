"""How what the gateway says goes over the wire: plain, in one zlib stream, in one zstd stream."""

import zlib
from typing import Protocol


class SocketWire(Protocol):
    """Turns an event into what one websocket message holds."""

    def pack(self, data: bytes) -> bytes | str:
        """Text is sent as text, bytes as a binary message."""
        ...


class Plain:
    """No compression of the transport."""

    def __init__(self) -> None:
        self.by_payload = False

    def pack(self, data: bytes) -> bytes | str:
        """Long payloads are compressed one by one, where the client asked for it."""
        return zlib.compress(data) if self.by_payload and len(data) > 4096 else data.decode()


class ZlibStream:
    """One zlib stream per connection, flushed after each event."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(1)

    def pack(self, data: bytes) -> bytes:
        """Ends with 00 00 ff ff."""
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class ZstdStream:
    """One zstd frame per connection, of raw blocks: a true stream that needs no library (RFC 8878)."""

    _HEADER = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x38"  # magic; no size, no checksum; a window of 128 KB
    _BLOCK = 128 * 1024

    def __init__(self) -> None:
        self._begun = False

    def pack(self, data: bytes) -> bytes:
        """The frame goes on: no block is the last one."""
        parts = [] if self._begun else [self._HEADER]
        self._begun = True
        for start in range(0, len(data), self._BLOCK):
            block = data[start : start + self._BLOCK]
            parts += [(len(block) << 3).to_bytes(3, "little"), block]
        return b"".join(parts)


def wire(compress: str | None) -> Plain | ZlibStream | ZstdStream:
    """The one that `compress` in the gateway's address names. Raises `ValueError`."""
    match compress:
        case None | "":
            return Plain()
        case "zlib-stream":
            return ZlibStream()
        case "zstd-stream":
            return ZstdStream()
    raise ValueError(f"{compress!r} is no compression.")
