"""A sans-IO decoder of server-sent events: bytes in, in any pieces, the data of whole events out.

Only the `data` field matters to a chat stream; `event`, `id` and `retry` are dropped. Of comments (`: ping`)
the last is kept, since some servers tell in them how far they have read a prompt.
"""

_BOM = b"\xef\xbb\xbf"
_USUAL_START = b"data: "
_USUAL_END = b"\n\n"
_USUAL_BETWEEN = _USUAL_END + _USUAL_START


class EventTooLong(ValueError):
    """A single event outgrew the limit, in bytes: this is no chat stream."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of more than {limit} bytes")
        self.limit = limit


class SSEDecoder:
    """Decodes one stream. Cutting changes nothing, and the time taken is linear in the bytes fed.

    Args:
        limit: bytes of one unfinished event, above which `feed` raises `EventTooLong`.

    Attributes:
        comment: the last that came; whoever reads it may empty it.
    """

    def __init__(self, limit: int = 16 * 1024 * 1024) -> None:
        self.comment = b""
        self._limit = limit
        self._held = 0  # bytes in the two lists below
        self._unfinished: list[bytes] = []  # pieces of a line whose end has not come
        self._data: list[bytes] = []  # `data` lines of an event whose end has not come
        self._after_cr = False  # a "\n" that comes next belongs to the line end before it
        self._at_first_line = True

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; gives the data of every event that they complete."""
        payloads: list[bytes] = []
        if self._unfinished or self._data or self._after_cr:
            # Finish the event that is under way line by line, so that the rest can go the fast way.
            # After two line feeds nothing is under way, whatever came before.
            cut = data.find(_USUAL_END) + 2
            if cut == 1:
                cut = len(data)
            self._take_lines(data[:cut], payloads)
            data = data[cut:]
        cut = data.rfind(_USUAL_END) + 2
        if cut > 1 and (usual := _split_usual(data[:cut])) is not None:
            self._at_first_line = False
            payloads += usual
            data = data[cut:]
        if data:
            self._take_lines(data, payloads)
        return payloads

    def close(self) -> list[bytes]:
        """End the stream; give the event that lacked only its closing blank line, if any."""
        payloads: list[bytes] = []
        self._take_lines(b"\n\n", payloads)
        self._after_cr = False
        return payloads

    def _take_lines(self, data: bytes, payloads: list[bytes]) -> None:
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        # For bytes, `splitlines` knows exactly the three line ends of the format.
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            if len(line) == len(piece):
                self._hold(self._unfinished, piece)
                return
            if self._unfinished:
                begun = b"".join(self._unfinished)
                self._unfinished.clear()
                self._held -= len(begun)
                line = begun + line
            if line:
                self._take_line(line)
            else:
                self._dispatch(payloads)
        self._after_cr = data.endswith(b"\r")

    def _take_line(self, line: bytes) -> None:
        if self._at_first_line:
            self._at_first_line = False
            line = line.removeprefix(_BOM)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._hold(self._data, value.removeprefix(b" "))
        elif not field:
            self.comment = value

    def _dispatch(self, payloads: list[bytes]) -> None:
        self._at_first_line = False
        payload = b"\n".join(self._data)
        if payload:
            payloads.append(payload)
        self._data.clear()
        self._held = 0

    def _hold(self, where: list[bytes], piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._limit:
            raise EventTooLong(self._limit)
        where.append(piece)


def _split_usual(data: bytes) -> list[bytes] | None:
    """Split bytes that are nothing but `data: …\\n\\n`, over and over; None for anything else.

    The count proves it: with two line ends for each event, none is left to be anything but a separator.
    """
    if not data.startswith(_USUAL_START) or b"\r" in data:
        return None
    payloads = data[len(_USUAL_START) : -len(_USUAL_END)].split(_USUAL_BETWEEN)
    if data.count(b"\n") != 2 * len(payloads) or b"" in payloads:
        return None
    return payloads
