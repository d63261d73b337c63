"""A real client of the loopback Discord: discord.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import aiohttp
import discord

from pixi.channels.discord.gateway.patches import patched
from pixi.channels.discord.gateway.preflight import DiscordServer
from pixi.testing.discord import LoopbackDiscord
from tests.waiting import LIMIT, within

Json = dict[str, Any]


def pointed_at(server: LoopbackDiscord) -> AbstractContextManager[None]:
    """Let discord.py talk to the server inside, and to nothing else afterwards than before."""
    return patched(DiscordServer(f"{server.api_url}/v10", server.gateway_url))


class Bot(discord.AutoShardedClient):
    """Keeps what it hears, by the names of discord.py's events."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []
        self._pulse: asyncio.Future[None] | None = None
        intents = discord.Intents(guilds=True, messages=True, message_content=True)
        super().__init__(intents=intents, guild_ready_timeout=0.05)
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
async def connected(server: LoopbackDiscord) -> AsyncIterator[Bot]:
    """A bot that is ready."""
    with pointed_at(server):
        async with Bot() as bot:
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


@asynccontextmanager
async def rest(server: LoopbackDiscord) -> AsyncIterator[aiohttp.ClientSession]:
    """REST without a library around it: paths begin with `/api/v10`."""
    headers = {"Authorization": f"Bot {server.token}"}
    async with aiohttp.ClientSession(server.world.origin, headers=headers) as session:
        yield session
