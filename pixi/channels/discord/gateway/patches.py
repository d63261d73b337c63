"""Mends how discord.py's gateway is heard and reached again.

It learns why the gateway went, resumes what began, takes its time, and survives frames that nobody can read.
"""

import asyncio
import json
import logging
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import discord.http
import discord.shard
import discord.utils
from discord.backoff import ExponentialBackoff
from discord.gateway import (
    DiscordClientWebSocketResponse,
    DiscordWebSocket,
    ReconnectWebSocket,
    WebSocketClosure,
)

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.gateway.payloads import complete_ready

_log = logging.getLogger("pixi.discord")

_AT_ONCE = 1.0
"""Seconds. A connection that lasted no longer, or brought what cannot be read, is followed by such a pause;
each one after it by twice the pause, until one lasts."""

_LONGEST_PAUSE = 30.0  # seconds; discord.py gives a new connection 60 in all
_LASTED = 60.0  # seconds; a connection that lasted so long forgives those before it
_LONGEST_BEAT = 86_400_000  # milliseconds between two heartbeats

_DOUBLINGS = 6  # of a second: the longest wait is about a minute
_FORGIVEN = 300  # seconds after a failure
_BACKOFF = "ExponentialBackoff"  # what tells discord.py how long to wait after a failure
_SOCKET = "DiscordClientWebSocketResponse"  # what discord.py makes websockets of

_LOST = (4007, 4009)  # closed with these, a session cannot be resumed

# discord.py uses zstd where one of two modules has it; each has an error of its own, which is no ValueError.
_ZSTD_ERROR: type[Exception] = getattr(
    sys.modules.get(discord.utils._ZSTD_SOURCE or ""), "ZstdError", zlib.error
)
_UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    zlib.error,
    _ZSTD_ERROR,
)
"""What is raised by a frame that is not what Discord sends."""


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


class _Patience:
    """Receives frames and decides what follows the end of a connection; remembers how the last ones went."""

    def __init__(self) -> None:
        self._failures: Counter[int | None] = Counter()  # connections in a row that came to nothing, by shard
        self._garbled: set[int | None] = set()  # shards whose connection brought a frame that cannot be read

    async def receive(self, websocket: DiscordWebSocket, message: Any) -> None:
        """Receive a frame; one that cannot be read closes the connection, which is then made anew.

        Raises:
            WebSocketClosure: it cannot be read.
        """
        try:
            text = websocket._decompressor.decompress(message) if isinstance(message, bytes) else message
            if text is None:
                return  # the rest comes with the next message
            await _USUAL_RECEIVE(websocket, _completed(websocket, text))
        except _UNREADABLE as error:
            self._garbled.add(websocket.shard_id)
            told = one_line(f"{type(error).__name__}: {error}")
            _log.warning("the gateway sent a frame that cannot be read (%s); connecting again", told)
            raise WebSocketClosure from error

    async def poll(self, websocket: DiscordWebSocket) -> None:
        """Poll as discord.py does, but pause after what came to nothing, and resume only what can be.

        Raises:
            ReconnectWebSocket: the connection ended, and another is to be made.
            ConnectionError: it ended before it said hello, with no session to resume. discord.py takes this
                for a failure to connect; a ReconnectWebSocket would end the whole client there.
            ConnectionClosed: Discord closed it for good.
        """
        greeted = websocket._keep_alive is not None
        try:
            await _USUAL_POLL(websocket)
        except ReconnectWebSocket as reconnect:
            shard, socket = websocket.shard_id, websocket.socket
            garbled = shard in self._garbled
            self._garbled.discard(shard)
            await self._pause(shard, socket, garbled=garbled)
            resume = reconnect.resume and websocket.session_id is not None
            if isinstance(socket, _Socket) and socket.close_code in _LOST:
                resume = False
            if garbled and self._failures[shard] > 1:
                resume = False  # resumed, it would be sent the same frame again
            if not greeted and websocket.session_id is None:
                raise ConnectionError("the gateway closed the connection before it said hello") from None
            if resume != reconnect.resume:
                raise ReconnectWebSocket(reconnect.shard_id, resume=resume) from None
            raise

    async def _pause(
        self, shard: int | None, socket: aiohttp.ClientWebSocketResponse, *, garbled: bool
    ) -> None:
        lasted = time.monotonic() - socket.began if isinstance(socket, _Socket) else 0.0
        if lasted > _LASTED:
            self._failures[shard] = 0
        if not garbled and lasted >= _AT_ONCE:
            self._failures[shard] = 0
            return
        self._failures[shard] += 1
        await asyncio.sleep(min(_AT_ONCE * 2.0 ** (self._failures[shard] - 1), _LONGEST_PAUSE))


_USUAL_POLL = DiscordWebSocket.poll_event
_USUAL_RECEIVE = DiscordWebSocket.received_message


def _completed(websocket: DiscordWebSocket, text: str) -> str:
    """Return a frame; where it begins or resumes a session, with what that takes.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is none; or a HELLO that would let a thread
            beat without a pause, or beside the one that beats already.
    """
    if all(mark not in text for mark in ('"heartbeat_interval"', '"READY"', '"RESUMED"')):
        return text
    frame = json.loads(text)
    data, event = frame.get("d"), frame.get("t")
    if frame.get("op") == DiscordWebSocket.HELLO:
        if websocket._keep_alive is not None:
            raise ValueError("a second HELLO")
        if not 0 < data["heartbeat_interval"] < _LONGEST_BEAT:
            raise ValueError(f"a heartbeat every {data['heartbeat_interval']} ms")
    if event == "RESUMED" and not isinstance(data, dict):
        frame["d"] = {}
    elif event == "READY" and isinstance(data, dict):
        complete_ready(data, str(websocket.DEFAULT_GATEWAY))
    else:
        return text
    return json.dumps(frame)


@contextmanager
def patient_gateway() -> Iterator[None]:
    """Let discord.py hear and reconnect so. Holds for the whole process, until the block is left."""
    patience = _Patience()

    async def poll(self: DiscordWebSocket) -> None:
        await patience.poll(self)

    async def receive(self: DiscordWebSocket, msg: Any, /) -> None:
        await patience.receive(self, msg)

    patched = (
        (discord.http, _SOCKET, _Socket),
        (discord.shard, _BACKOFF, _Backoff),
        (DiscordWebSocket, "poll_event", poll),
        (DiscordWebSocket, "received_message", receive),
    )
    before = [(home, name, getattr(home, name)) for home, name, _ in patched]
    for home, name, mended in patched:
        setattr(home, name, mended)
    try:
        yield
    finally:
        for home, name, usual in before:
            setattr(home, name, usual)
