"""One reply, read from a provider's SDK: its pieces to deltas, under the deadlines."""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

import aiohttp

from pixi.core.deltas import Delta
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.deadlines import Deadlines, FirstWait, Overdue, Watchdog
from pixi.models.faults import Server

# A connection is worth this much waiting for the end of its last answer, so that the next needs none anew.
_DRAIN_SECONDS = 0.05
_MOST_AT_ONCE = 16 * 1024 * 1024  # that is held until it is whole

_P_contra = TypeVar("_P_contra", contravariant=True)
_P = TypeVar("_P")


class Assembler(Protocol[_P_contra]):
    """Makes deltas of the pieces of one stream, without waiting for anything: `feed` them, then `close`."""

    @property
    def ended(self) -> bool:
        """The server said why its reply ended: what follows are its last words."""
        ...

    @property
    def done(self) -> bool:
        """Nothing that follows is read."""
        ...

    @property
    def understood(self) -> int:
        """How many pieces were those of a reply."""
        ...

    @property
    def unseen(self) -> int:
        """How much content came that no delta shows yet."""
        ...

    @property
    def held(self) -> int:
        """How much is held until the end, in characters, about."""
        ...

    def feed(self, piece: _P_contra) -> list[Delta]:
        """Take the next piece of the stream."""
        ...

    def close(self) -> list[Delta]:
        """The stream is over. Gives what was held, and `Finished`.

        Raises:
            ModelError: it is no reply that it amounts to.
        """
        ...


class WatchedReply(Generic[_P]):
    """The reply in a stream that was opened.

    Args:
        pieces: the stream, as the package gives it. It raises `ModelError` alone.
        assembler: what its pieces amount to.
        response: over which it comes.
        server: whom errors are about.
        deadlines: for the content.
        wait: for the first of it.
    """

    def __init__(
        self,
        pieces: AsyncIterator[_P],
        assembler: Assembler[_P],
        response: aiohttp.ClientResponse,
        *,
        server: Server,
        deadlines: Deadlines,
        wait: FirstWait,
    ) -> None:
        self._pieces = pieces
        self._assembler = assembler
        self._response = response
        self._server = server
        self._at_end = False
        self._finished = False
        # The carriage's own wait is broken off, and no task is cancelled: whoever asks next gets the error.
        self._watchdog = Watchdog(deadlines, wait, response.content.set_exception)

    async def read(self) -> list[Delta]:
        """Wait for the next deltas, at least one; none: the reply is over, and `Finished` was given.

        Raises:
            ModelError: the server said that it failed, broke off, or let a deadline pass.
        """
        if self._finished:
            return []
        self._watchdog.resume()
        assembler = self._assembler
        while not (self._at_end or assembler.done):
            unseen = assembler.unseen
            deltas = await self._take_next()
            if assembler.ended:
                self._watchdog.last_words()
            if deltas:
                self._watchdog.pause()
                return deltas
            if assembler.unseen != unseen:
                self._watchdog.content()
                if assembler.held > _MOST_AT_ONCE:
                    raise faults.endless(self._server, _MOST_AT_ONCE)
        return self._finish()

    async def drain(self) -> None:
        """Read the end of a response whose reply is over, so that its connection can serve again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self._response.content.readany():
                    pass
        except (TimeoutError, Overdue, aiohttp.ClientError, OSError):
            # `close` then closes the connection instead.
            return

    def close(self) -> None:
        """Stop watching and, unless the response was read to its end, close the connection at once."""
        self._watchdog.close()
        self._response.close()

    async def _take_next(self) -> list[Delta]:
        """Feed the next piece; none comes at the end, nor where only last words were lost."""
        try:
            return self._assembler.feed(await anext(self._pieces))
        except StopAsyncIteration:
            self._at_end = True
        except ModelError:
            if not self._assembler.ended:
                raise
            self._at_end = True
        return []

    def _finish(self) -> list[Delta]:
        if not self._assembler.understood:
            raise faults.no_reply(self._server, self._response.content_type)
        self._finished = True
        self._watchdog.close()
        return self._assembler.close()
