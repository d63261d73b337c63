"""A connection to the gateway: HELLO, IDENTIFY or RESUME, heartbeats, and what Discord closes it for."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING

import msgspec
from aiohttp import WSMsgType, web

from pixi.testing.discord.calls import Form, Json, RefusedCall
from pixi.testing.discord.hub import GatewaySession
from pixi.testing.discord.ids import KNOWN, PRIVILEGED, GatewayIntents

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
    form = Form()
    for at, option in enumerate(options if isinstance(options, list) else ()):
        if set(option) - _TAKEN:
            form.wrong(("options", at), "BASE_TYPE_BAD", "must NOT have additional properties")
    form.check()


def no_webhook() -> RefusedCall:
    """Return what executing a webhook gives; nothing is posted."""
    return RefusedCall(500, 0, "Internal Server Error")


class OneByOne:
    """Packs each message of the gateway as a stream, or a frame, of its own."""

    def __init__(self, compress: str) -> None:
        self._zstd = compress == "zstd-stream"

    def pack(self, data: bytes) -> bytes:
        """Pack one message."""
        if not self._zstd:
            return zlib.compress(data)
        blocks = [data[start : start + (1 << 17)] for start in range(0, len(data), 1 << 17)]
        packed = [
            ((len(block) << 3) | (at == len(blocks) - 1)).to_bytes(3, "little") + block
            for at, block in enumerate(blocks)
        ]
        return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(packed)


class Plain:
    """No compression of the transport."""

    def __init__(self) -> None:
        self.by_payload = False

    def pack(self, data: bytes) -> bytes | str:
        """Long payloads are compressed one by one, where the client asked for it."""
        return zlib.compress(data) if self.by_payload and len(data) > 4096 else data.decode()


class ZlibStream:
    """One zlib stream per connection, flushed after each event."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(1)

    def pack(self, data: bytes) -> bytes:
        """Ends with 00 00 ff ff."""
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class ZstdStream:
    """One zstd frame per connection, of raw blocks: a true stream that needs no library (RFC 8878)."""

    _HEADER = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x38"  # magic; no size, no checksum; a window of 128 KB
    _BLOCK = 128 * 1024

    def __init__(self) -> None:
        self._begun = False

    def pack(self, data: bytes) -> bytes:
        """Pack a frame that goes on: no block is the last one."""
        parts = [] if self._begun else [self._HEADER]
        self._begun = True
        for start in range(0, len(data), self._BLOCK):
            block = data[start : start + self._BLOCK]
            parts += [(len(block) << 3).to_bytes(3, "little"), block]
        return b"".join(parts)


SocketWire = Plain | ZlibStream | ZstdStream | OneByOne
"""Packs an event into one message of the websocket: a text, or bytes for a binary one."""


def wire(compress: str | None) -> SocketWire:
    """Return the one that `compress` in the gateway's address names. Raises `ValueError`."""
    match compress:
        case None | "":
            return Plain()
        case "zlib-stream":
            return ZlibStream()
        case "zstd-stream":
            return ZstdStream()
    raise ValueError(f"{compress!r} is no compression.")


DISPATCH, HEARTBEAT, IDENTIFY, PRESENCE, VOICE, RESUME = 0, 1, 2, 3, 4, 6
RECONNECT, REQUEST_MEMBERS, INVALID_SESSION, HELLO, ACK = 7, 8, 9, 10, 11
KNOWN_OPS = frozenset({HEARTBEAT, IDENTIFY, PRESENCE, VOICE, RESUME, REQUEST_MEMBERS, 31, 43})
LONGEST_PAYLOAD = 4096
SENDS_PER_MINUTE = 120


class GatewaySettings:
    """Settings of the gateway for a test.

    Attributes:
        heartbeat: seconds between heartbeats.
        acks: heartbeats are answered; if not, connections are zombies.
        closed: new connections are refused with HTTP 503.
        guilds_per_shard: more of them in one session are refused with 4011.
        identify_every: seconds between two IDENTIFYs of one bucket; too early is answered by INVALID_SESSION.
        max_concurrency: buckets of IDENTIFYs, as GET /gateway/bot tells.
        shards: the number that GET /gateway/bot recommends.
    """

    def __init__(self) -> None:
        self.heartbeat = 41.25
        self.closed = False
        self.guilds_per_shard = 2500
        self.identify_every = 0.0
        self.max_concurrency = 1
        self.shards = 1


class Gateway:
    """Takes connections."""

    def __init__(self, world: World) -> None:
        self.settings = GatewaySettings()
        self.connections: set[GatewayConnection] = set()
        self.presences: list[Json] = []
        self.identifies = 0
        self.resumes = 0
        self.identified_at: dict[int, float] = {}
        self.world = world

    @property
    def url(self) -> str:
        """Return where to connect."""
        return self.world.origin.replace("http", "ws", 1)

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Return a client connects."""
        if self.settings.closed:
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

    def may_identify(self, shard: int) -> bool:
        """Return whether it is not too early for another IDENTIFY of that bucket."""
        bucket, now = shard % self.settings.max_concurrency, time.monotonic()
        if now - self.identified_at.get(bucket, float("-inf")) < self.settings.identify_every:
            return False
        self.identified_at[bucket] = now
        return True


class GatewayConnection:
    """A websocket."""

    def __init__(self, gateway: Gateway, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.session: GatewaySession | None = None
        self.heartbeats: list[float] = []
        self._gateway = gateway
        self._world = gateway.world
        self._socket = socket
        self._request = request
        self._wire: SocketWire = Plain()
        self._queue: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._close_with: tuple[int, str] | None = None
        self._sent: deque[float] = deque()
        self._watch: asyncio.TimerHandle | None = None

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
        query = self._request.query
        version, encoding = query.get("v"), query.get("encoding")
        try:
            self._wire = wire(query.get("compress"))
            if self._world.lean and (compress := query.get("compress")):
                self._wire = OneByOne(compress)
        except ValueError as error:
            await self._socket.close(code=4002, message=str(error).encode())
            return
        if version not in {"9", "10"}:
            await self._socket.close(code=4012, message=b"Invalid API version.")
            return
        if encoding not in {None, "json"}:
            await self._socket.close(code=4002, message=b"Only JSON is spoken here.")
            return
        writer = asyncio.create_task(self._write())
        self.say(HELLO, {"heartbeat_interval": round(self._gateway.settings.heartbeat * 1000), "_trace": []})
        self._expect_heartbeat()
        try:
            await self._read()
        finally:
            if self._watch is not None:
                self._watch.cancel()
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
                packed = self._wire.pack(self._queue.popleft())
                try:
                    if isinstance(packed, str):
                        await self._socket.send_str(packed)
                    else:
                        await self._socket.send_bytes(packed)
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
            if frame.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                return
            data = frame.data if isinstance(frame.data, bytes) else frame.data.encode()
            if len(data) > LONGEST_PAYLOAD:
                self.close(4002, "Error while decoding payload.")
                continue
            try:
                payload = json.loads(data)
                op, body = payload["op"], payload.get("d")
            except (ValueError, TypeError, KeyError, AttributeError):
                self.close(4002, "Error while decoding payload.")
                continue
            if self._too_many():
                self.close(4008, "You are being rate limited.")
                continue
            self._heed(op, body)

    def _too_many(self) -> bool:
        now = time.monotonic()
        self._sent.append(now)
        while self._sent[0] < now - 60:
            self._sent.popleft()
        return len(self._sent) > SENDS_PER_MINUTE

    def _heed(self, op: object, body: object) -> None:
        if op not in KNOWN_OPS:
            self.close(4001, "Unknown opcode.")
        elif op == HEARTBEAT:
            self.heartbeats.append(time.monotonic())
            self._expect_heartbeat()
            self.say(ACK)
            self._world.changed()
        elif op in {IDENTIFY, RESUME} and self.session is not None:
            self.close(4005, "Already authenticated.")
        elif op == IDENTIFY and isinstance(body, dict):
            self._identify(body)
        elif op == RESUME and isinstance(body, dict):
            self._resume(body)
        elif self.session is None:
            self.close(4003, "Not authenticated.")
        elif op == PRESENCE and isinstance(body, dict):
            self._gateway.presences.append(body)

    def _expect_heartbeat(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        patience = self._gateway.settings.heartbeat * 2
        self._watch = asyncio.get_running_loop().call_later(patience, self.close, 4009, "Session timed out.")

    def _identify(self, body: Json) -> None:
        settings, world = self._gateway.settings, self._world
        self._gateway.identifies += 1
        if body.get("token") != world.token:
            return self.close(4004, "Authentication failed.")
        intents = body.get("intents")
        if not isinstance(intents, int) or intents & ~int(KNOWN):
            return self.close(4013, "Invalid intent(s).")
        if GatewayIntents(intents) & PRIVILEGED & ~world.privileged:
            return self.close(4014, "Disallowed intent(s).")
        if not isinstance(body.get("properties"), dict):
            return self.close(4002, "Error while decoding payload.")
        match body.get("shard", [0, 1]):
            case [int(shard), int(shards)] if 0 <= shard < shards:
                pass
            case _:
                return self.close(4010, "Invalid shard.")
        mine = sum(1 for guild in world.guilds if (guild >> 22) % shards == shard)
        if mine > settings.guilds_per_shard:
            return self.close(4011, "Sharding required.")
        if not self._gateway.may_identify(shard):
            return self.say(INVALID_SESSION, False)
        if isinstance(self._wire, Plain):
            self._wire.by_payload = body.get("compress") is True
        resume_url = f"{self._gateway.url}/resume"
        self.session = world.hub.begin(shard, shards, GatewayIntents(intents), self, resume_url)
        return None

    def _resume(self, body: Json) -> None:
        self._gateway.resumes += 1
        if body.get("token") != self._world.token:
            return self.close(4004, "Authentication failed.")
        number, session_id = body.get("seq"), body.get("session_id")
        known = self._world.hub.sessions.get(session_id) if isinstance(session_id, str) else None
        if not isinstance(number, int) or (known is not None and number > known.last):
            return self.close(4007, "Invalid seq.")
        self.session = self._world.hub.resume(str(session_id), number, self)
        if self.session is None:
            self.say(INVALID_SESSION, False)
        return None
