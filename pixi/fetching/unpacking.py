"""Bodies unpacked as they come, never by more than they may be: a small file may hold a huge one."""

import zlib
from collections.abc import Iterator

from pixi.fetching.outcome import WebError

KNOWN = "gzip, deflate"
"""What is asked for. Nothing else is understood."""

_STEP = 262_144  # bytes that are unpacked at once
_MEMBERS = 64  # of a gzip file: each of a few bytes would take far longer than it is worth


class Unpacker:
    """Unpacks one body.

    Args:
        encoding: as the server says.

    Raises:
        WebError: it is none that was asked for.
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise WebError("The server packs its pages in a way that was not asked for.")
        self._packed = name not in ("", "identity")
        self._deflate = name == "deflate"
        self._members = 0
        self._opened: zlib._Decompress | None = None

    def unpacked(self, data: bytes) -> Iterator[bytes]:
        """What comes of the next bytes, in steps; who has enough takes no more.

        Raises:
            WebError: it is broken.
        """
        if not self._packed:
            yield data
            return
        held = False  # more may come of what was taken already
        try:
            while data or held:
                opened = self._opened or self._open(data)
                piece = opened.decompress(data, _STEP)
                yield piece
                held = len(piece) == _STEP
                if opened.eof:
                    self._opened, data, held = None, opened.unused_data, False
                    if self._deflate:
                        return
                else:
                    data = opened.unconsumed_tail
        except zlib.error:
            raise WebError("The page came broken: it cannot be unpacked.") from None

    def _open(self, data: bytes) -> "zlib._Decompress":
        self._members += 1
        if self._members > _MEMBERS:
            raise WebError("The page came broken: it cannot be unpacked.")
        if not self._deflate:
            mode = 16 + zlib.MAX_WBITS
        else:  # some servers leave out the head that belongs to it
            mode = zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
        self._opened = zlib.decompressobj(mode)
        return self._opened
