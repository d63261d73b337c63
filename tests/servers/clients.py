"""Real clients of the loopback Discord: discord.py, and a bare gateway connection."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import discord
import yarl

from pixi.testing.discord import LoopbackDiscord
from tests.waiting import LIMIT, within

Json = dict[str, Any]


@contextmanager
def pointed_at(server: LoopbackDiscord) -> Iterator[None]:
    """discord.py talks to the server inside, and to nothing else afterwards than before."""
    base, gateway = discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY
    discord.http.Route.BASE = f"{server.api_url}/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(server.gateway_url)
    try:
        yield
    finally:
        discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = base, gateway


class Bot(discord.AutoShardedClient):
    """Keeps what it hears, by the names of discord.py's events."""

    def __init__(self, intents: discord.Intents | None = None, shards: int = 1) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []
        self._pulse: asyncio.Future[None] | None = None
        super().__init__(
            intents=intents or discord.Intents.all(), shard_count=shards, guild_ready_timeout=0.05
        )
        self.tree = discord.app_commands.CommandTree(self)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        self.heard.append((event, args))
        super().dispatch(event, *args, **kwargs)
        if self._pulse is not None and not self._pulse.done():
            self._pulse.set_result(None)

    async def next_event(self) -> None:
        """Return after the next event."""
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._pulse)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """No pause between shards."""

    def of(self, event: str) -> list[Any]:
        """The first arguments of every event of that name."""
        return [args[0] if args else None for name, args in self.heard if name == event]

    def texts(self) -> list[str]:
        """What the messages that it heard say, its own left out."""
        return [message.content for message in self.of("message") if message.author != self.user]

    def channel(self, channel_id: int) -> discord.PartialMessageable:
        """Any channel to write in."""
        return self.get_partial_messageable(channel_id)


@asynccontextmanager
async def connected(
    server: LoopbackDiscord, intents: discord.Intents | None = None, shards: int = 1
) -> AsyncIterator[Bot]:
    """A bot that is ready."""
    with pointed_at(server):
        async with Bot(intents, shards) as bot:
            running = asyncio.create_task(bot.start(server.token))
            ready = asyncio.create_task(bot.wait_until_ready())
            done, _ = await asyncio.wait({running, ready}, timeout=LIMIT, return_when="FIRST_COMPLETED")
            ready.cancel()
            if running in done:
                await running
            assert ready in done, "the bot did not become ready"
            try:
                yield bot
            finally:
                await bot.close()
                await asyncio.wait({running}, timeout=LIMIT)


async def heard(bot: Bot, event: str, count: int = 1) -> list[Any]:
    """What the bot was told, once it was told so often."""
    async with within(f"{event}, {count} times"):
        while len(found := bot.of(event)) < count:
            await bot.next_event()
    return found


class Socket:
    """A gateway connection without a library around it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = socket
        self.frames: list[aiohttp.WSMessage] = []
        self.inflate = zlib.decompressobj()
        self.sequence: int | None = None

    async def take(self, op: int | None = None, event: str | None = None) -> Json:
        """The next payload, or the next with an opcode or an event; what comes before it is dropped."""
        while True:
            frame = await self.ws.receive(timeout=LIMIT)
            assert frame.type in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}, (
                frame,
                self.ws.close_code,
            )
            self.frames.append(frame)
            data = frame.data
            if isinstance(data, bytes):
                data = self.inflate.decompress(data)
            payload: Json = json.loads(data)
            self.sequence = payload.get("s") or self.sequence
            if (op is None or payload["op"] == op) and (event is None or payload["t"] == event):
                return payload

    async def say(self, op: int, data: object) -> None:
        await self.ws.send_str(json.dumps({"op": op, "d": data}))

    async def identify(self, token: str, intents: int = 513, **more: object) -> None:
        properties = {"os": "linux", "browser": "test", "device": "test"}
        await self.say(2, {"token": token, "intents": intents, "properties": properties, **more})

    async def close_code(self) -> int | None:
        """The code that the server closes with."""
        while (await self.ws.receive(timeout=LIMIT)).type not in {
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        }:
            pass
        return self.ws.close_code


@asynccontextmanager
async def socket(server: LoopbackDiscord, query: str = "?v=10&encoding=json") -> AsyncIterator[Socket]:
    """A connection to the gateway."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{server.gateway_url}/{query}") as websocket,
    ):
        yield Socket(websocket)


@asynccontextmanager
async def rest(server: LoopbackDiscord, token: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    """REST without a library around it: paths begin with `/api/v10`."""
    headers = {"Authorization": f"Bot {token or server.token}"}
    async with aiohttp.ClientSession(server.world.origin, headers=headers) as session:
        yield session
