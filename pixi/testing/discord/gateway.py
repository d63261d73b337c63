"""A connection to the gateway: HELLO, IDENTIFY or RESUME, heartbeats, and what Discord closes it for."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import deque
from typing import TYPE_CHECKING

import msgspec
from aiohttp import WSMsgType, web

from pixi.testing.discord.calls import Json, invalid
from pixi.testing.discord.hub import GatewaySession

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

_TAKEN = frozenset({"name", "description", "type", "required", "choices", "value", "options"})
"""Fields of an option of a slash command."""


def message(payload: Json) -> Json:
    """Return a message as REST and the gateway give it."""
    payload.setdefault("thread", None)
    payload["interaction"] = payload["poll"] = None
    if found := payload.get("reactions"):
        payload["reactions"] = [{"count": each["count"], "emoji": each["emoji"]} for each in found]
    return payload


def fetched(payload: Json) -> Json:
    """Return a message that was asked for by its id."""
    del payload["mentions"]
    return payload


def updated(payload: Json) -> Json:
    """Return a message that was edited."""
    author = {key: value for key, value in payload["author"].items() if key != "id"}
    return payload | {"author": author}


def member(payload: Json) -> Json:
    """Return a membership: its roles are told whole."""
    payload["roles"] = [{"id": role, "name": "a role"} for role in payload["roles"]]
    return payload


def check_options(options: object) -> None:
    """Raises `RefusedCall`: an option of a slash command has a field that is not known there."""
    for at, option in enumerate(options if isinstance(options, list) else ()):
        if set(option) - _TAKEN:
            raise invalid(("options", at), "BASE_TYPE_BAD", "must NOT have additional properties")


RECONNECT, INVALID_SESSION, HELLO, ACK = 7, 9, 10, 11
MESSAGE_CONTENT = 1 << 15
"""The privileged intent to read what people write."""

_LONG = 4096  # bytes of an event, from which on it is compressed where the client asked for that


class GatewaySettings:
    """Settings of the gateway for a test.

    Attributes:
        heartbeat: seconds between heartbeats.
        closed: new connections are refused with HTTP 503.
        shards: the number that GET /gateway/bot recommends.
    """

    def __init__(self) -> None:
        self.heartbeat = 41.25
        self.closed = False
        self.shards = 1


class Gateway:
    """Takes connections."""

    def __init__(self, world: World) -> None:
        self.settings = GatewaySettings()
        self.connections: set[GatewayConnection] = set()
        self.identifies = 0
        self.resumes = 0
        self.world = world

    @property
    def url(self) -> str:
        """Return where to connect."""
        return self.world.origin.replace("http", "ws", 1)

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Serve a client that connects. Compression of the transport is not spoken."""
        if self.settings.closed or "compress" in request.query:
            return web.Response(status=503, text="no healthy upstream")
        socket = web.WebSocketResponse(max_msg_size=1 << 20, autoping=True, timeout=1.0)
        await socket.prepare(request)
        connection = GatewayConnection(self, socket, request)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)
            self.world.changed()
        return socket


class GatewayConnection:
    """A websocket."""

    def __init__(self, gateway: Gateway, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.session: GatewaySession | None = None
        self._gateway = gateway
        self._world = gateway.world
        self._socket = socket
        self._request = request
        self._compresses = False
        self._queue: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._close_with: tuple[int, str] | None = None

    # Called by the hub.

    def send(self, data: bytes) -> None:
        """Put something on the wire, in order."""
        self._queue.append(data)
        self._filled.set()

    def say(self, op: int, data: object = None) -> None:
        """Something that is no event."""
        self.send(msgspec.json.encode({"t": None, "s": None, "op": op, "d": data}))

    def close(self, code: int, reason: str = "") -> None:
        """Close, after what waits to be sent."""
        self._let_go()
        self._close_with = self._close_with or (code, reason)
        self._filled.set()

    def abort(self) -> None:
        """Break off: no close frame, no more bytes."""
        self._let_go()
        self._queue.clear()
        if self._request.transport is not None:
            self._request.transport.abort()

    def _let_go(self) -> None:
        if self.session is not None and self.session.line is self:
            self.session.line = None

    # Its life.

    async def run(self) -> None:
        """Serve until either side closes."""
        writer = asyncio.create_task(self._write())
        self.say(HELLO, {"heartbeat_interval": round(self._gateway.settings.heartbeat * 1000)})
        try:
            await self._read()
        finally:
            self._let_go()
            if self._socket.close_code in {1000, 1001} and self._close_with is None and self.session:
                self._world.hub.end(self.session)
            if self._close_with is None:
                writer.cancel()
            await asyncio.wait({writer}, timeout=2)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                data = self._queue.popleft()
                try:
                    if self._compresses and len(data) > _LONG:
                        await self._socket.send_bytes(zlib.compress(data))
                    else:
                        await self._socket.send_str(data.decode())
                except (ConnectionError, RuntimeError):
                    self._let_go()
                    return
            if self._close_with is not None:
                code, reason = self._close_with
                await self._socket.close(code=code, message=reason.encode(), drain=True)
                return

    async def _read(self) -> None:
        async for frame in self._socket:
            if self._close_with is not None:
                continue
            if frame.type is not WSMsgType.TEXT:
                return
            payload = json.loads(frame.data)
            match payload["op"]:
                case 1:  # HEARTBEAT
                    self.say(ACK)
                    self._world.changed()
                case 2:  # IDENTIFY
                    self._identify(payload["d"])
                case 6:  # RESUME
                    self._resume(payload["d"])

    def _identify(self, body: Json) -> None:
        world = self._world
        self._gateway.identifies += 1
        if body.get("token") != world.token:
            return self.close(4004, "Authentication failed.")
        if body["intents"] & MESSAGE_CONTENT and not world.shows_content:
            return self.close(4014, "Disallowed intent(s).")
        shard, shards = body.get("shard", [0, 1])
        if not 0 <= shard < shards:
            return self.close(4010, "Invalid shard.")
        self._compresses = body.get("compress") is True
        self.session = world.hub.begin(shard, shards, self, f"{self._gateway.url}/resume")
        return None

    def _resume(self, body: Json) -> None:
        self._gateway.resumes += 1
        if body.get("token") != self._world.token:
            return self.close(4004, "Authentication failed.")
        self.session = self._world.hub.resume(body["session_id"], body["seq"], self)
        if self.session is None:
            self.say(INVALID_SESSION, False)
        return None
