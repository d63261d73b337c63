"""The gateway goes in rude ways: the reason is still heard, and nobody is hammered."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import discord.http
import discord.shard
import pytest
from aiohttp import web
from discord.gateway import DiscordClientWebSocketResponse, DiscordWebSocket

from pixi.channels.discord import client, reconnecting
from pixi.channels.discord.bot import Bot
from pixi.core.errors import ConfigError
from tests.channels.discord.ears import BOT, PERSONAS, user
from tests.channels.discord.house import RecordingHouse

TOKEN = "t0ken"
IDENTIFY, RESUME = 2, 6


@dataclass(slots=True)
class Rude:
    """A gateway that closes at once, without waiting for a goodbye.

    Attributes:
        codes: with what it closes one connection after the other; the last one again and again.
        asked: the operations that came, but for heartbeats.
        at: when.
    """

    codes: list[int]
    asked: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
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
        self.at.append(time.monotonic())
        code = self.codes[0] if len(self.codes) == 1 else self.codes.pop(0)
        assert socket._writer is not None
        assert request.transport is not None
        if code:
            await socket._writer.close(code, b"no")
        request.transport.close()
        return socket

    async def _heard(self, socket: web.WebSocketResponse) -> dict[str, Any]:
        payload: dict[str, Any] = json.loads((await socket.receive()).data)
        return payload


@asynccontextmanager
async def rude(*codes: int) -> AsyncGenerator[Rude, None]:
    server = Rude(list(codes))
    app = web.Application()
    app.router.add_get("/socket", server.socket)
    app.router.add_route("*", "/{path:.*}", server.rest)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


async def run(server: Rude) -> None:
    api_url = f"http://127.0.0.1:{server.port}/api/v10"
    bot = Bot(RecordingHouse(personas=PERSONAS), token=TOKEN, api_url=api_url, tell=lambda _: None)
    async with asyncio.timeout(20):
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


@pytest.mark.parametrize("code", [0, 4000, 4007])
async def test_a_session_that_never_began_is_not_resumed(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting, "_AT_ONCE", 0.2)
    monkeypatch.setattr(client, "_BETWEEN_SESSIONS", 0.0)
    async with rude(code, code, 4014) as server:
        with pytest.raises(ConfigError):
            await run(server)
        assert server.asked == [IDENTIFY] * 3
        pauses = [later - before for before, later in zip(server.at, server.at[1:], strict=False)]
        assert min(pauses) >= 0.15, "nobody is hammered"


def test_discord_py_is_left_as_it_was() -> None:
    before = discord.http.DiscordClientWebSocketResponse, DiscordWebSocket.poll_event  # type: ignore[attr-defined]
    with reconnecting.patient_gateway():
        assert DiscordWebSocket.poll_event is not before[1]
    assert (DiscordClientWebSocketResponse, DiscordWebSocket.poll_event) == before


def test_after_many_failures_it_waits_a_minute_and_no_longer() -> None:
    with reconnecting.patient_gateway():
        backoff = getattr(discord.shard, "ExponentialBackoff")()  # noqa: B009 - no name of its own
    waits = [backoff.delay() for _ in range(200)]
    assert 30 < max(waits) <= 64

    backoff._last_invocation -= 301  # nothing failed for five minutes
    assert backoff.delay() <= 2
