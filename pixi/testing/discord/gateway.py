"""The gateway: connections, and the sessions that outlive them.

A connection brings HELLO, IDENTIFY or RESUME, heartbeats, and what Discord closes it for. A session gets
events, numbered and kept, so that they can be sent again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from aiohttp import WSMsgType, web

from pixi.testing.discord.calls import Json
from pixi.testing.discord.guilds import Guild

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

RECONNECT, INVALID_SESSION, HELLO, ACK = 7, 9, 10, 11
MESSAGE_CONTENT = 1 << 15
"""The privileged intent to read what people write."""

_encode = msgspec.json.Encoder().encode
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


@dataclass(eq=False)
class GatewaySession:
    """A session begun by an IDENTIFY. It outlives its connection, so that it can be resumed.

    Attributes:
        kept: events with their numbers, the oldest dropped first.
        guilds: those that were opened to it.
    """

    id: str
    shard: int
    shards: int
    line: GatewayConnection | None
    kept: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=10_000))
    last: int = 0
    guilds: set[int] = field(default_factory=set)

    def has(self, guild_id: int | None) -> bool:
        """Return whether what happens in a guild, or in DMs, is this shard's."""
        if guild_id is None:
            return self.shard == 0
        return (guild_id >> 22) % self.shards == self.shard

    def push(self, event: str, data: bytes) -> None:
        """Send an event, now or when the session is resumed."""
        self.last += 1
        raw = b'{"t":"%b","s":%d,"op":0,"d":%b}' % (event.encode(), self.last, data)
        self.kept.append((self.last, raw))
        if self.line is not None:
            self.line.send(raw)

    def since(self, number: int) -> list[bytes] | None:
        """Return what came after an event; None: not all of it is kept any more."""
        missed = self.last - number
        if missed > len(self.kept):
            return None
        return [raw for at, raw in self.kept if at > number] if missed else []


class Gateway:
    """Takes connections, and tells sessions what happens.

    Attributes:
        sessions: by their ids; those that are connected, and those that can be resumed.
        identifies, resumes: how often a session was asked for.
    """

    def __init__(self, world: World) -> None:
        self.settings = GatewaySettings()
        self.connections: set[GatewayConnection] = set()
        self.sessions: dict[str, GatewaySession] = {}
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

    # Sessions.

    def dispatch(self, event: str, payload: Json, guild_id: int | None) -> None:
        """Tell every session that should know."""
        data = None
        for session in self.sessions.values():
            if session.has(guild_id) and (guild_id is None or guild_id in session.guilds):
                data = data or _encode(payload)
                session.push(event, data)

    def begin(self, shard: int, shards: int, line: GatewayConnection) -> GatewaySession:
        """Begin a session: READY, and the guilds one after the other."""
        self._forget_stale(shard, shards)
        session = GatewaySession(secrets.token_hex(16), shard, shards, line)
        self.sessions[session.id] = session
        guilds = [guild for guild in self.world.guilds.values() if session.has(guild.id)]
        ready = {
            "v": 10,
            "user": self.world.bot.payload(),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": f"{self.url}/resume",
            "shard": [shard, shards],
            "application": {"id": str(self.world.application_id), "flags": self.world.flags},
        }
        session.push("READY", _encode(ready))
        for guild in guilds:
            self._open(session, guild)
        self.world.changed()
        return session

    def open_guild(self, guild: Guild) -> None:
        """Show a guild to the sessions that it belongs to: the bot was invited, or it is back."""
        for session in self.sessions.values():
            if session.has(guild.id):
                self._open(session, guild, new=guild.id not in session.guilds)

    def _open(self, session: GatewaySession, guild: Guild, *, new: bool = False) -> None:
        session.guilds.add(guild.id)
        payload = guild.create_payload() | ({} if new else {"unavailable": False})
        session.push("GUILD_CREATE", _encode(payload))

    def resume(self, session_id: str, number: int, line: GatewayConnection) -> GatewaySession | None:
        """Go on with a session: what it missed is sent, then RESUMED. None: it cannot be."""
        session = self.sessions.get(session_id)
        missed = session.since(number) if session else None
        if session is None or missed is None:
            self.sessions.pop(session_id, None)
            return None
        if session.line is not None:
            session.line.abort()
        session.line = line
        for raw in missed:
            line.send(raw)
        session.push("RESUMED", b"{}")
        self.world.changed()
        return session

    def chosen(self, shard: int | None) -> list[GatewaySession]:
        """Return sessions of one shard, or all."""
        return [one for one in self.sessions.values() if shard is None or one.shard == shard]

    def live(self) -> list[GatewaySession]:
        """Return the sessions that are connected."""
        return [one for one in self.sessions.values() if one.line is not None]

    def end(self, session: GatewaySession) -> None:
        """End a session for good: nobody can resume it."""
        self.sessions.pop(session.id, None)

    def _forget_stale(self, shard: int, shards: int) -> None:
        """Drop all but the newest of the sessions that nobody came back to; they would only cost time."""
        stale = [one for one in self.sessions.values() if one.line is None]
        for old in [one for one in stale if (one.shard, one.shards) == (shard, shards)][:-1]:
            self.end(old)


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

    # Called by the gateway and its sessions.

    def send(self, data: bytes) -> None:
        """Put something on the wire, in order."""
        self._queue.append(data)
        self._filled.set()

    def say(self, op: int, data: object = None) -> None:
        """Something that is no event."""
        self.send(_encode({"t": None, "s": None, "op": op, "d": data}))

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
                self._gateway.end(self.session)
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
        self.session = self._gateway.begin(shard, shards, self)
        return None

    def _resume(self, body: Json) -> None:
        self._gateway.resumes += 1
        if body.get("token") != self._world.token:
            return self.close(4004, "Authentication failed.")
        self.session = self._gateway.resume(body["session_id"], body["seq"], self)
        if self.session is None:
            self.say(INVALID_SESSION, False)
        return None
