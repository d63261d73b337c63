"""Mends how discord.py reconnects: it hears why the gateway went, resumes what began, and takes its time."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import discord.http
import discord.shard
from discord.backoff import ExponentialBackoff
from discord.gateway import DiscordClientWebSocketResponse, DiscordWebSocket, ReconnectWebSocket

_AT_ONCE = 1.0
"""Seconds. A connection that lasted no longer is followed by such a pause."""

_DOUBLINGS = 6  # of a second: the longest wait is about a minute
_FORGIVEN = 300  # seconds after a failure
_BACKOFF = "ExponentialBackoff"  # what tells discord.py how long to wait after a failure
_SOCKET = "DiscordClientWebSocketResponse"  # what discord.py makes websockets of

_LOST = (4007, 4009)  # closed with these, a session cannot be resumed


class _Socket(DiscordClientWebSocketResponse):
    """Remembers with which code the other side closed.

    aiohttp forgets it where the connection is gone before it could say goodbye itself; then a wrong
    token or a missing intent would look like a broken line, to be tried again and again.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.began = time.monotonic()
        self._told: int | None = None

    async def receive(self, timeout: Any = None) -> aiohttp.WSMessage:  # noqa: ASYNC109 — aiohttp's own
        """The next message."""
        message = await super().receive(timeout)
        if message.type is aiohttp.WSMsgType.CLOSE and isinstance(message.data, int):
            self._told = message.data
        return message

    @property
    def close_code(self) -> int | None:
        """With which code it was closed."""
        return self._told or super().close_code


class _Backoff(ExponentialBackoff[Any]):
    """Waits a minute at most before it tries again.

    discord.py's own waits up to seventeen, and remembers failures for half an hour: a gateway that was away
    for some moments, a few times, would be left alone long after it is back.
    """

    def __init__(self, base: int = 1, *, integral: Any = False) -> None:
        super().__init__(base, integral=integral)
        self._max = _DOUBLINGS
        self._reset_time = _FORGIVEN


async def _poll(self: DiscordWebSocket) -> None:
    """As discord.py does it, but a session that never began, or is lost, is not resumed."""
    try:
        await _as_it_was(self)
    except ReconnectWebSocket as reconnect:
        socket = self.socket
        if isinstance(socket, _Socket) and time.monotonic() - socket.began < _AT_ONCE:
            await asyncio.sleep(_AT_ONCE)
        if reconnect.resume and (self.session_id is None or socket.close_code in _LOST):
            raise ReconnectWebSocket(reconnect.shard_id, resume=False) from None
        raise


_as_it_was = DiscordWebSocket.poll_event


@contextmanager
def patient_gateway() -> Iterator[None]:
    """Let discord.py reconnect so. Holds for the whole process, until the block is left."""
    patched = (
        (discord.http, _SOCKET, _Socket),
        (discord.shard, _BACKOFF, _Backoff),
        (DiscordWebSocket, "poll_event", _poll),
    )
    before = [(home, name, getattr(home, name)) for home, name, _ in patched]
    for home, name, mended in patched:
        setattr(home, name, mended)
    try:
        yield
    finally:
        for home, name, usual in before:
            setattr(home, name, usual)
