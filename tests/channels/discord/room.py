"""A server with the bot whole in it, and two people; a service that writes down what it is asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pixi.channels.discord.bot import Bot
from pixi.channels.discord.outgoing.channel import DiscordChannel
from pixi.testing import discord as loopback
from pixi.testing.discord import LoopbackDiscord
from tests.channels.discord.backend import RecordingBackend
from tests.waiting import until


@dataclass
class Room:
    """A server with the bot in it, and two people."""

    discord: LoopbackDiscord
    backend: RecordingBackend
    guild: loopback.Guild
    general: loopback.FakeChannel
    mo: loopback.User
    ana: loopback.User

    async def asked(
        self, text: str = "hi", *, where: loopback.FakeChannel | None = None
    ) -> tuple[DiscordChannel, str]:
        """Mo asks the bot something; gives where it answers, and the message's id."""
        place = where or self.general
        message = await place.say(self.mo, f"{self.discord.bot.mention} {text}")
        await until(lambda: str(message.id) in [heard.id for heard, _ in self.backend.received])
        channel = self.backend.received[-1][1]
        assert isinstance(channel, DiscordChannel)
        return channel, str(message.id)

    async def settled(self) -> None:
        """The bot has heard of all that was changed: it hears of one thing after the other."""
        await self.asked("so far, so good")

    async def interrupted(self, channel: DiscordChannel) -> None:
        """Ana says something, and the bot hears it."""
        message = await self.general.say(self.ana, "by the way")
        recent = channel._context.recent
        await until(lambda: recent.latest_by_others(self.general.id) == message.id)


@asynccontextmanager
async def room_of(backend: RecordingBackend) -> AsyncIterator[Room]:
    async with LoopbackDiscord() as discord:
        guild = discord.guild("Pancake house")
        general = guild.channel("general")
        mo, ana = discord.person("mo", display="Mo"), discord.person("ana", display="Ana")
        guild.join(mo)
        guild.join(ana)
        bot = Bot(backend, token=discord.token, api_url=discord.api_url, tell=lambda _: None)
        running = asyncio.create_task(bot.run())
        try:
            await discord.ready()
            await discord.idle(0.02)
            yield Room(discord, backend, guild, general, mo, ana)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
