"""Every patch of discord.py, and why.

Those that hold for the whole process stand in one table, in `patched`; they are taken back when a bot has
ended. By them

- the gateway learns why the other side closed, pauses longer after what came to nothing, resumes only what
  can be resumed, and makes a connection anew after a frame that nobody can read;
- another server than Discord is talked to, for addresses are attributes of classes. Compression of the
  transport is off there, and JSON is taken for JSON whatever its media type is.

Those of one client (`complete_payloads`) complete what another server leaves out, before discord.py reads it;
an event that is odd all the same costs a line in the log, and no connection.
"""

import asyncio
import json
import logging
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp
import discord.http
import discord.shard
import discord.utils
import discord.webhook.async_
import yarl
from discord.asset import Asset
from discord.backoff import ExponentialBackoff
from discord.gateway import (
    DiscordClientWebSocketResponse,
    DiscordWebSocket,
    ReconnectWebSocket,
    WebSocketClosure,
)
from discord.http import Route

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.gateway.payloads import complete, complete_answer, complete_ready, with_less
from pixi.channels.discord.gateway.preflight import DiscordServer

_log = logging.getLogger("pixi.discord")

_AT_ONCE = 1.0
"""Seconds. A connection that lasted no longer, or brought what cannot be read, is followed by such a pause;
each one after it by twice the pause, until one lasts."""

_LONGEST_PAUSE = 30.0  # seconds; discord.py gives a new connection 60 in all
_LASTED = 60.0  # seconds; a connection that lasted so long forgives those before it
_LONGEST_BEAT = 86_400_000  # milliseconds between two heartbeats

_DOUBLINGS = 6  # of a second: the longest wait is about a minute
_FORGIVEN = 300  # seconds after a failure
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
"""Errors that a frame raises which is not what Discord sends."""


BROKEN_EVENT = (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError)
"""Errors that discord.py raises on an event which is not what Discord sends."""

_ZLIB = b"\x78"  # begins what zlib compressed, and no JSON


@contextmanager
def patched(server: DiscordServer | None = None) -> Iterator[None]:
    """Patch discord.py for the whole process, until the block is left.

    Args:
        server: another server than Discord, which it is to talk to.
    """
    reconnection = _Reconnection()

    async def poll(self: DiscordWebSocket) -> None:
        await reconnection.poll(self)

    async def receive(self: DiscordWebSocket, msg: Any, /) -> None:
        await reconnection.receive(self, msg)

    table: list[tuple[object, str, object]] = [
        (discord.VoiceClient, "warn_nacl", False),  # it never speaks aloud
        (discord.VoiceClient, "warn_dave", False),
        (discord.http, "DiscordClientWebSocketResponse", _Socket),
        (discord.shard, "ExponentialBackoff", _Backoff),
        (DiscordWebSocket, "poll_event", poll),
        (DiscordWebSocket, "received_message", receive),
    ]
    if server is not None:
        table += [
            (Route, "BASE", server.rest),
            (DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(server.gateway)),
            (Asset, "BASE", str(yarl.URL(server.rest).origin())),  # pictures that are addressed by their hash
            (discord.http, "json_or_text", _json_or_text),
            (discord.webhook.async_, "json_or_text", _json_or_text),
            (DiscordWebSocket, "from_client", classmethod(_from_client)),
            (discord.utils, "_ActiveDecompressionContext", _EachByItself),
        ]
    before = [(home, name, vars(home)[name]) for home, name, _ in table]
    for home, name, other in table:
        setattr(home, name, other)
    try:
        yield
    finally:
        for home, name, usual in before:
            setattr(home, name, usual)


def complete_payloads(client: discord.AutoShardedClient) -> None:
    """Complete alike what the gateway tells a client and what REST answers it, before discord.py reads it."""
    parsers = client._connection.parsers
    for event, parser in parsers.items():
        parsers[event] = _sturdy(event, parser)
    parsers["READY"] = _sturdy("READY", _with_shard(client, client._connection.parse_ready))
    client.http.request = _completed_answers(client.http.request)  # type: ignore[method-assign]


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
        """Receive the next message."""
        message = await super().receive(timeout)
        if message.type is aiohttp.WSMsgType.CLOSE and isinstance(message.data, int):
            self._told = message.data
        return message

    @property
    def close_code(self) -> int | None:
        """Return the code with which it was closed."""
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


class _Reconnection:
    """Receives frames and decides what follows the end of a connection; remembers how the last ones went."""

    def __init__(self) -> None:
        self._failures: Counter[int | None] = Counter()  # connections in a row that came to nothing, by shard
        self._garbled: set[int | None] = set()  # shards whose connection brought a frame that cannot be read

    async def receive(self, websocket: DiscordWebSocket, message: Any) -> None:
        """Receive the next message.

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


_USUAL_FROM_CLIENT = DiscordWebSocket.from_client


async def _from_client(
    cls: type[DiscordWebSocket], client: discord.Client, /, **named: Any
) -> DiscordWebSocket:
    """Connect as discord.py does, without compression of the transport."""
    return await _USUAL_FROM_CLIENT(client, **named | {"compress": False})


class _EachByItself:
    """Reads binary messages of which each is compressed by itself, as IDENTIFY allows a server to do."""

    def decompress(self, data: bytes, /) -> str:
        """Return the text of a message."""
        return (zlib.decompress(data) if data.startswith(_ZLIB) else data).decode()


async def _json_or_text(response: aiohttp.ClientResponse) -> dict[str, object] | str:
    text = await response.text(encoding="utf-8")
    if response.content_type == "application/json" or text.startswith(("{", "[")):
        try:
            answer: dict[str, object] = json.loads(text)
        except ValueError:
            return text
        return answer
    return text


def _sturdy(event: str, parser: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a parser so that it is given complete events, and an odd one costs a line and no connection."""

    def parse(data: Any) -> None:
        try:
            if complete(event, data):
                parser(data)
            return
        except BROKEN_EVENT as error:
            _log.warning("an event %s could not be read: %s: %s", event, type(error).__name__, error)
        for less in with_less(event, data):
            with suppress(*BROKEN_EVENT):
                if complete(event, less):
                    parser(less)
                return

    return parse


def _completed_answers(
    request: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wrap `HTTPClient.request` so that it completes its answers."""

    async def completed(route: Route, **named: Any) -> Any:
        answer = await request(route, **named)
        try:
            complete_answer(route.path, answer)
        except BROKEN_EVENT as error:
            _log.info("an answer to %s is odd: %s: %s", route.path, type(error).__name__, error)
        return answer

    return completed


def _with_shard(client: discord.AutoShardedClient, parser: Callable[[Any], None]) -> Callable[[Any], None]:
    """Complete READY as discord.py needs it: a server with one shard may leave out which one it is."""

    def parse(data: Any) -> None:
        shard_ids = list(client._connection.shard_ids)
        if len(shard_ids) == 1:
            data.setdefault("shard", [shard_ids[0], client.shard_count])
        parser(data)

    return parse
