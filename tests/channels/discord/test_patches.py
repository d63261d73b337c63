"""The gateway goes in rude ways: the reason is still heard, and nobody is hammered."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import discord.http
import discord.shard
import pytest
from aiohttp import WSMsgType, web
from discord.gateway import DiscordClientWebSocketResponse, DiscordWebSocket, KeepAliveHandler

from pixi.channels.discord.bot import Bot
from pixi.channels.discord.gateway import patches
from pixi.core.errors import ConfigError
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.incoming import PERSONAS
from tests.channels.discord.plain_server import plain_server
from tests.channels.discord.rest_discord import BOT, user
from tests.channels.discord.test_bot import backend, lines, running, texts
from tests.servers.staged_web import served
from tests.waiting import until, within

TOKEN = "t0ken"
IDENTIFY, RESUME = 2, 6


@dataclass(slots=True)
class Rude:
    """A gateway that closes at once, without waiting for a goodbye.

    Attributes:
        codes: with what it closes one connection after the other; the last one again and again.
        asked: the operations that came, but for heartbeats.
    """

    codes: list[int]
    asked: list[int] = field(default_factory=list)
    port: int = 0

    async def rest(self, request: web.Request) -> web.StreamResponse:
        """Answer what a bot asks before it connects."""
        if request.path.endswith("/gateway"):
            return web.json_response({"url": f"ws://127.0.0.1:{self.port}/socket"})
        if request.path.endswith("/users/@me"):
            return web.json_response(user(BOT))
        return web.json_response({"code": 0, "message": "404: Not Found"}, status=404)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Hear one operation, and be gone."""
        socket = web.WebSocketResponse(autoclose=False)
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 30_000}})
        while (payload := await self._heard(socket))["op"] == 1:
            await socket.send_json({"op": 11})
        self.asked.append(payload["op"])
        code = self.codes[0] if len(self.codes) == 1 else self.codes.pop(0)
        assert socket._writer is not None
        assert request.transport is not None
        if code:
            await socket._writer.close(code, b"no")
        request.transport.close()
        return socket

    async def _heard(self, socket: web.WebSocketResponse) -> dict[str, Any]:
        frame = await socket.receive()
        if frame.type is not WSMsgType.TEXT:
            return {"op": None}  # the bot went
        payload: dict[str, Any] = json.loads(frame.data)
        return payload


@asynccontextmanager
async def rude(*codes: int) -> AsyncGenerator[Rude, None]:
    server = Rude(list(codes))
    async with served({"/socket": server.socket, "/{path:.*}": server.rest}) as server.port:
        yield server


async def run(server: Rude) -> None:
    api_url = f"http://127.0.0.1:{server.port}/api/v10"
    bot = Bot(RecordingBackend(personas=PERSONAS), token=TOKEN, api_url=api_url, tell=lambda _: None)
    async with within("the end of the bot"):
        await bot.run()


@pytest.mark.parametrize(
    ("code", "told"), [(4004, "does not know the token"), (4014, "Message Content Intent")]
)
async def test_the_reason_is_heard_though_the_line_is_gone(code: int, told: str) -> None:
    for _ in range(3):
        async with rude(code) as server:
            with pytest.raises(ConfigError, match=told):
                await run(server)
            assert server.asked == [IDENTIFY]


def asleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between connections in place of making them."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(patches, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(patches, "_AT_ONCE", 1.0)
    return pauses


@pytest.mark.parametrize("code", [0, 4000, 4007])
async def test_a_session_that_never_began_is_not_resumed(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = asleep(monkeypatch)
    async with rude(code, code, 4014) as server:
        with pytest.raises(ConfigError):
            await run(server)
        assert server.asked == [IDENTIFY] * 3
        assert pauses == [1.0, 2.0], "nobody is hammered"


HTML = "<html>502 Bad Gateway</html>"
GARBLED = [
    HTML,
    "[]",
    '{"op":10,"d":null}',
    '{"op":10,"d":{"heartbeat_interval":30000}}',  # a second one: it would beat twice
    '{"op":0,"t":"READY","d":null,"s":2}',
    "[" * 100_000,
    b"\x78\x9c\xff\xff\xff\xff\x00\x00\xff\xff",
    b"\xff\xff",
]


@pytest.mark.parametrize("frame", GARBLED, ids=lambda frame: repr(frame[:30]))
async def test_a_frame_that_nobody_can_read_costs_a_connection_and_a_line(
    frame: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with plain_server() as server:
        here = backend()
        with caplog.at_level(logging.WARNING):
            async with running(server, here):
                await server.garble(frame)
                await until(lambda: server.resumed, "the session is resumed")
                await server.say(f"<@{BOT}> still there?")
                await until(lambda: texts(here), "what is said after it is heard")
                await until(lambda: len(_beating()) == 1, "the thread of the first connection ends")
        told, lost = lines(caplog)
        assert told.startswith("the gateway sent a frame that cannot be read (")
        assert lost == "shard 0 lost its connection"
        assert len(server.identified) == 1


@pytest.mark.parametrize("interval", ["0", "-5", "NaN", "1e400"])
async def test_heartbeats_without_an_end_are_not_begun(
    interval: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asleep(monkeypatch)
    async with plain_server() as server, running(server, backend()):
        server.hello = f'{{"op":10,"d":{{"heartbeat_interval":{interval}}}}}'
        await server.cut()
        await until(lambda: len(caplog.records) > 1, "it is told")
        server.hello = ""
        await until(lambda: server.resumed or len(server.identified) > 1, "it is connected again")
        assert not [each for each in threading.enumerate() if getattr(each, "interval", 1) <= 0]


async def test_a_frame_that_is_sent_again_whenever_a_session_is_resumed_ends_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asleep(monkeypatch)
    async with plain_server() as server:
        here = backend()
        server.garbles_resumed = "[]"
        async with running(server, here):
            await server.garble("[]")
            await until(lambda: len(server.identified) == 2, "a new session")
            await server.say(f"<@{BOT}> hi")
            await until(lambda: texts(here), "it is heard")
        assert server.resumed == 1


async def test_a_gateway_that_brings_nothing_but_garbage_is_asked_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = asleep(monkeypatch)
    async with plain_server() as server:
        here = backend()
        async with running(server, here):
            server.hello = HTML
            await server.cut()
            await until(lambda: len(pauses) >= 8, "eight connections")
            assert pauses[:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
            server.hello = ""
            await until(lambda: len(server.identified) == 2, "it is connected again")
            await server.say(f"<@{BOT}> hi")
            await until(lambda: texts(here), "it is heard")


def _beating() -> list[KeepAliveHandler]:
    return [each for each in threading.enumerate() if isinstance(each, KeepAliveHandler)]


def test_discord_py_is_left_as_it_was() -> None:
    before = discord.http.DiscordClientWebSocketResponse, DiscordWebSocket.poll_event  # type: ignore[attr-defined]
    with patches.patched():
        assert DiscordWebSocket.poll_event is not before[1]
    assert (DiscordClientWebSocketResponse, DiscordWebSocket.poll_event) == before


def test_after_many_failures_it_waits_a_minute_and_no_longer() -> None:
    with patches.patched():
        backoff = getattr(discord.shard, "ExponentialBackoff")()  # noqa: B009 - no name of its own
    waits = [backoff.delay() for _ in range(200)]
    assert 30 < max(waits) <= 64

    backoff._last_invocation -= 301  # nothing failed for five minutes
    assert backoff.delay() <= 2
