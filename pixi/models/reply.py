"""One reply, read from an open response: bytes to deltas, under the deadlines."""

import asyncio
import re
from typing import Protocol

import aiohttp
import msgspec

from pixi.core.deltas import Delta, PromptProgress
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.complaint import Complaint
from pixi.models.deadlines import Deadlines, FirstWait, Overdue, Watchdog
from pixi.models.faults import Server
from pixi.models.sse import EventTooLong, SSEDecoder

# A connection is worth this much waiting for the end of its last answer, so that the next needs none anew.
_DRAIN_SECONDS = 0.05
_MOST_AT_ONCE = 16 * 1024 * 1024  # that is held until it is whole
# `: keepalive 512/1669`, in which mlx_lm.server tells how many tokens of a prompt it has read.
_PROGRESS = re.compile(rb"\s*keepalive (\d{1,9})/(\d{1,9})\s*")


class Assembler(Protocol):
    """Makes deltas of the payloads of one stream: `feed` them, then `close`."""

    @property
    def finish_reason(self) -> str:
        """The server's word for why the reply ended; "" while it has not said it."""
        ...

    @property
    def done(self) -> bool:
        """The end mark came; nothing that follows is read."""
        ...

    @property
    def complaint(self) -> Complaint | None:
        """What the server said instead of going on."""
        ...

    @property
    def understood(self) -> int:
        """Events of such a stream that were read."""
        ...

    @property
    def unseen(self) -> int:
        """Signs of work that came, though no delta shows them yet: pieces of calls, searches."""
        ...

    @property
    def held(self) -> int:
        """How much is held until the end, in characters, about."""
        ...

    def feed(self, payloads: list[bytes]) -> list[Delta]:
        """Take the payloads of one read; gives what they amount to, in order."""
        ...

    def close(self) -> list[Delta]:
        """The stream is over; gives the tool calls, whole, and `Finished`."""
        ...


class Reply:
    """The reply in a response whose headers said yes.

    Args:
        response: its body is read here, and nowhere else.
        assembler: makes deltas of it.
        server: whom errors are about.
        deadlines: for the content.
        wait: for the first of it; it is told of the server's progress.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        assembler: Assembler,
        server: Server,
        deadlines: Deadlines,
        wait: FirstWait,
    ) -> None:
        self._response = response
        self._content = response.content
        self._server = server
        self._decoder = SSEDecoder()
        self._assembler = assembler
        self._at_start = True  # of the body
        self._at_end = False
        self._is_whole = False
        self._finished = False
        # The reader's own wait is broken off, and no task is cancelled: whoever asks next gets the error.
        self._watchdog = Watchdog(deadlines, wait, self._content.set_exception)
        self._wait: FirstWait | None = wait  # None: the first content came

    async def read(self) -> list[Delta]:
        """Wait for the next deltas, at least one; none: the reply is over, and `Finished` was given.

        Raises:
            ModelError: the server said that it failed, broke off, or let a deadline pass.
        """
        if self._finished:
            return []
        self._watchdog.resume()
        assembler = self._assembler
        while not (self._at_end or assembler.done or assembler.complaint):
            data = await self._read_some()
            self._at_end = not data
            unseen = assembler.unseen
            deltas = assembler.feed(self._payloads(data) if data else self._decoder.close())
            if assembler.finish_reason:
                self._watchdog.last_words()
            sign = self._sign(deltas)
            if sign is not None:
                self._watchdog.progress()
                return [sign]
            if deltas:
                self._wait = None
                self._watchdog.pause()
                return deltas
            if assembler.unseen != unseen:
                self._wait = None
                self._watchdog.content()
                if assembler.held > _MOST_AT_ONCE:
                    raise faults.endless(self._server, _MOST_AT_ONCE)
        return self._finish()

    async def drain(self) -> None:
        """Read the end of a response whose reply is over, so that its connection can serve again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self._content.readany():
                    pass
        except (TimeoutError, Overdue, aiohttp.ClientError, OSError):
            # `close` then closes the connection instead.
            return

    def close(self) -> None:
        """Stop watching and, unless the response was read to its end, close the connection at once."""
        self._watchdog.close()
        self._response.close()

    def _sign(self, deltas: list[Delta]) -> PromptProgress | None:
        """Take out of the deltas what tells how far the prompt was read; None: nothing new was told."""
        comment, self._decoder.comment = self._decoder.comment, b""
        told = deltas.pop() if deltas and type(deltas[-1]) is PromptProgress else None
        if self._wait is None or deltas:
            return None
        if isinstance(told, PromptProgress):
            return self._wait.read_on(told.done, told.total)
        counts = _PROGRESS.fullmatch(comment)
        return self._wait.read_on(int(counts[1]), int(counts[2])) if counts else None

    async def _read_some(self) -> bytes:
        """The next bytes of the body, b"" at its end; the whole of it where it is no stream."""
        try:
            data = await self._content.readany()
            if self._at_start:
                self._at_start = False
                # Told by its first byte: servers are careless of the content type, in both directions.
                self._is_whole = data.lstrip().startswith(b"{")
                if self._is_whole:
                    return await self._read_whole(data)
            return data
        except Overdue as error:
            if self._assembler.finish_reason:
                return b""
            raise faults.overdue(self._server, error) from None
        except (aiohttp.ClientError, OSError) as error:
            if self._assembler.finish_reason:
                return b""
            raise faults.unreachable(self._server, error) from error

    async def _read_whole(self, begun: bytes) -> bytes:
        """A server that does not stream answers with one object: it is read as the only event."""
        whole = bytearray(begun)
        try:
            while data := await self._content.readany():
                whole += data
                if len(whole) > _MOST_AT_ONCE:
                    raise faults.endless(self._server, _MOST_AT_ONCE)
        except (aiohttp.ClientError, OSError, Overdue):
            if not is_json(whole):  # where it is all there, another length was declared than it has
                raise
        return bytes(whole)

    def _payloads(self, data: bytes) -> list[bytes]:
        if self._is_whole:
            return [data]
        try:
            return self._decoder.feed(data)
        except EventTooLong as error:
            raise faults.endless(self._server, error.limit) from error

    def _finish(self) -> list[Delta]:
        assembler = self._assembler
        complaint = assembler.complaint
        if complaint is not None:
            raise faults.refusal(self._server, complaint)
        if assembler.finish_reason == "error":
            raise ModelError(f"{self._server.place} failed in the middle of its reply.")
        if not assembler.understood and not assembler.done:
            raise faults.no_reply(self._server, self._response.content_type)
        self._finished = True
        self._watchdog.close()
        return assembler.close()


def is_json(body: bytes | bytearray) -> bool:
    """Return True if a body is one JSON value from its first byte to its last."""
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return True
