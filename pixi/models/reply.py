"""A reply, pushed: bytes to events to deltas in the call in which they arrive, under the deadlines."""

import asyncio
import contextvars
import math
import re
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from pixi.core.errors import ModelError
from pixi.core.llm import Delta, Text
from pixi.models import faults
from pixi.models.connections import PushedBody
from pixi.models.deadlines import DeadlineExceeded, Deadlines, FirstWait, Watchdog
from pixi.models.dialects.dialect import ReplyReader
from pixi.models.dialects.prompt import JsonObject
from pixi.models.faults import Server
from pixi.models.model import SLICE, Take, slices

_BOM = b"\xef\xbb\xbf"
_USUAL_START = b"data: "
_USUAL_END = b"\n\n"
_USUAL_BETWEEN = _USUAL_END + _USUAL_START
_LF, _CR = b"\n\r"  # numbers: to look for those in bytes takes a tenth of the time
_SLICE = 16 * 1024  # bytes: some seventy events, of a word each
_MOST_AT_ONCE = 16 * 1024 * 1024  # that is held until it is whole
# `: keepalive 512/1669`, in which mlx_lm.server tells how many tokens of a prompt it has read.
_PROGRESS = re.compile(rb"\s*keepalive (\d{1,9})/(\d{1,9})\s*")


class EventTooLong(ValueError):
    """A single event outgrew the limit, in bytes: this is no chat stream."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of more than {limit} bytes")
        self.limit = limit


class SSEDecoder:
    """Decodes one stream of server-sent events, cut anywhere, in time linear in its bytes.

    Args:
        limit: bytes of one unfinished event, above which `feed` raises `EventTooLong`.

    Attributes:
        comment: the last that came; the reader of it empties it.
    """

    def __init__(self, limit: int = _MOST_AT_ONCE) -> None:
        self.comment = b""
        self._limit = limit
        self._held = 0  # bytes in the two lists below
        self._unfinished: list[bytes] = []  # pieces of a line whose end has not come
        self._data: list[bytes] = []  # `data` lines of an event whose end has not come
        self._after_cr = False  # a "\n" that comes next belongs to the line end before it
        self._at_first_line = True

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the data of every event that they complete."""
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
        """End the stream; return the event that lacked only its closing blank line, if any."""
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

    What stands between the separators proves it: it holds no line end, so each is one line of data.
    """
    if not data.startswith(_USUAL_START):
        return None
    payloads = data[len(_USUAL_START) : -len(_USUAL_END)].split(_USUAL_BETWEEN)
    lines = b"".join(payloads)
    return None if _LF in lines or _CR in lines or b"" in payloads else payloads


class Reply:
    """A reply, in as many responses as it takes: `read` each, then `finish`.

    Args:
        reader: makes deltas of the events.
        take: is handed the deltas.
        server: whom errors are about.
        deadlines: for the content.
        wait: for the first of it; it is told of the server's progress.
        answered: called when the server has shown that it answers.

    Attributes:
        seen: something of the reply was handed on: it cannot be asked for again.
        is_enough: `take` wants no more.
    """

    def __init__(
        self,
        reader: ReplyReader[Any],
        take: Take,
        *,
        server: Server,
        deadlines: Deadlines,
        wait: FirstWait,
        answered: Callable[[], None],
    ) -> None:
        self.seen = False
        self.is_enough = False
        self._reader = reader
        self._take = take
        self._server = server
        self._deadlines = deadlines
        self._wait = wait
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        # The network calls from a context of its own; what is read belongs to who asked.
        self._context = contextvars.copy_context()
        self._response: aiohttp.ClientResponse | None = None

    async def read(self, response: aiohttp.ClientResponse, wait: FirstWait) -> None:
        """Read a response whose headers said yes, to its end.

        Args:
            wait: for its first content.

        Raises:
            ModelError: the server said that it failed, broke off, or let a deadline pass.
        """
        self.close()  # the part before is not wanted any more
        self._body = PushedBody(response)
        self._response = response
        self._decoder = SSEDecoder()
        self._payloads_in: Callable[[bytes], list[bytes]] = self._begin
        self._is_whole = False  # the body is no stream
        self._whole = bytearray()
        # Bytes that arrived, up to where they were decoded, and deltas that were read and not handed on yet.
        # Where there is more than a slice of them, `_step` is scheduled for the rest.
        self._data = b""
        self._at = 0
        self._unsaid: list[Delta] = []
        self._is_scheduled = False
        self._was_read = False  # nothing that comes after is of interest
        self._deadline_error: ModelError | None = None  # the error of a deadline that passed
        self._has_content = False
        self._unseen = self._reader.unseen  # signs of work at the last look
        self._over = self._loop.create_future()  # done when the response was read, or failed
        turn_ends = math.inf if wait is self._wait else self._wait.asked_at + self._deadlines.turn
        self._watchdog = Watchdog(self._deadlines, wait, self._on_timeout, turn_ends)
        try:
            self._body.start(self._arrived)
            self._arrived()
            await self._over
        finally:
            self._watchdog.close()
        if self.is_enough:
            return
        if self._reader.complaint is not None:
            raise faults.refusal(self._server, self._reader.complaint)
        if not self._reader.understood and not self._reader.done:
            raise faults.no_reply(self._server, response.content_type)

    async def finish(self) -> None:
        """Hand on the end of the reply, and let its connection serve again.

        Raises:
            ModelError: it is no reply that it amounts to.
        """
        for delta in self._reader.close():
            if self._hand_on(delta):
                return
        await self._body.drain()

    def more(self) -> JsonObject | None:
        """Return the fields of another request that the server wants before it goes on; None: it is done."""
        return self._reader.more()

    def close(self) -> None:
        """Close the connection at once, unless the response was read to its end."""
        if self._response is not None:
            self._body.stop()
            self._response.close()

    def _arrived(self) -> None:
        """Read what came, unless a slice of what came before waits for its turn."""
        data = self._body.take()
        if self._data:
            data = self._data[self._at :] + data
        self._data, self._at = data, 0
        if not self._is_scheduled:
            self._context.run(self._step)
        elif data:
            self._body.pause()

    def _step(self) -> None:
        """Read one slice. An error, also one of `take`, is raised where the reply is awaited."""
        self._is_scheduled = False
        if self._over.done():
            return
        try:
            if self._deadline_error is not None:
                self._end(self._deadline_error)
            elif self._unsaid:
                self._hand_on(self._unsaid.pop(0))
            elif self._data:
                start, self._at = self._at, self._at + _SLICE
                piece = self._data[start : self._at]
                if self._at >= len(self._data):
                    self._data, self._at = b"", 0  # nothing that was read is held
                self._hear(self._reader.feed(self._payloads_in(piece)))
            if not self._over.done():
                self._go_on()
        except EventTooLong as error:
            self._fail(faults.endless(self._server, error.limit))
        except BaseException as error:
            self._fail(error)

    def _go_on(self) -> None:
        """See that the next step is taken, or that it was the last."""
        if self._unsaid or self._data:
            self._body.pause()
            self._schedule()
        elif self._was_read:
            self._over.set_result(None)
        elif self._body.is_paused:
            self._schedule()  # first: what arrives at once is read in the next step
            self._body.resume()
        elif self._body.has_ended:
            self._end(self._body.fault)
            self._go_on()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._step, context=self._context)

    def _begin(self, data: bytes) -> list[bytes]:
        """Tell by the first of the body whether it is a stream: servers are careless of its type."""
        self._is_whole = data.lstrip()[:1] in (b"{", b"[")
        self._payloads_in = self._held if self._is_whole else self._decoder.feed
        return self._payloads_in(data)

    def _held(self, data: bytes) -> list[bytes]:
        """Hold a body that is no stream until it is whole."""
        self._whole += data
        if len(self._whole) > _MOST_AT_ONCE:
            raise EventTooLong(_MOST_AT_ONCE)
        return []

    def _hear(self, deltas: list[Delta]) -> None:
        """Hand on what was read."""
        reader = self._reader
        if reader.ended:
            self._watchdog.last_words()
        if deltas:
            self._has_content = True
            self._watchdog.content()
            for delta in deltas:
                if type(delta) is Text and len(delta.text) > SLICE:
                    self._unsaid.extend(slices(delta.text))
                elif self._unsaid:
                    self._unsaid.append(delta)
                elif self._hand_on(delta):
                    return
        elif reader.unseen != self._unseen:
            self._has_content = True
            self._unseen = reader.unseen
            self._watchdog.content()
            if reader.held > _MOST_AT_ONCE:
                raise EventTooLong(_MOST_AT_ONCE)
        elif not self._has_content:
            self._tell_progress()
        if reader.done or reader.complaint is not None:
            self._was_read = True
            self._data = b""

    def _tell_progress(self) -> None:
        """Hand on how far the prompt was read, where that is farther than was known."""
        told, self._reader.progress = self._reader.progress, None
        comment, self._decoder.comment = self._decoder.comment, b""
        if told is not None:
            sign = self._wait.read_on(told.done, told.total)
        elif counts := _PROGRESS.fullmatch(comment):
            sign = self._wait.read_on(int(counts[1]), int(counts[2]))
        else:
            return
        if sign is not None:
            self._answered()
            if self._take(sign):
                self._stop()

    def _hand_on(self, delta: Delta) -> bool:
        if not self.seen:
            self.seen = True
            self._answered()
            self._wait.answered()
        if self._take(delta):
            self._stop()
            return True
        return False

    def _stop(self) -> None:
        self.is_enough = True
        if not self._over.done():
            self._over.set_result(None)

    def _end(self, fault: BaseException | None) -> None:
        """Read the last of a body, of which no more comes."""
        self._was_read, self._deadline_error, self._data = True, None, b""
        if fault is not None and not self._reader.ended and not (self._whole and is_json(self._whole)):
            self._fail(fault if isinstance(fault, ModelError) else faults.unreachable(self._server, fault))
            return
        self._hear(self._reader.feed(whole_events(self._whole) if self._is_whole else self._decoder.close()))

    def _on_timeout(self, exceeded: DeadlineExceeded) -> None:
        """End the reply: a deadline passed."""
        self._deadline_error = faults.overdue(self._server, exceeded)
        self._context.run(self._step)

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)


def whole_events(body: bytes | bytearray) -> list[bytes]:
    """Return the events of an answer that is no stream: an object is the only one, a list has several."""
    try:
        return [bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (ValueError, RecursionError):
        return [bytes(body)]


def is_json(body: bytes | bytearray) -> bool:
    """Return True if a body is one JSON value from its first byte to its last."""
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return True
