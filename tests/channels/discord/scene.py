"""A server with a bot in it, in which personas can speak."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import discord
import pytest

from pixi.channels.discord.incoming.recent import RecentMessage, RecentMessages
from pixi.channels.discord.outgoing.channel import DiscordChannel, DiscordChannels
from pixi.core.message import Author
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.rest_discord import GENERAL, RestDiscord, bot_of


@dataclass
class Scene:
    """A server with a bot in it."""

    rest: RestDiscord
    client: discord.Client
    backend: RecordingBackend
    recent: RecentMessages
    channels: DiscordChannels

    def hears(self, author: int, text: str, *, name: str = "Mo", channel: int = GENERAL) -> str:
        """Somebody writes a message, and the bot hears it; gives its id."""
        message = self.rest.write(author, text, channel)
        self.recent.add(channel, RecentMessage(message, Author(str(author), name), text))
        return str(message)

    def channel(self, channel_id: int = GENERAL, persona: str = "pixi") -> DiscordChannel:
        target = self.client.get_channel(channel_id)
        assert isinstance(target, discord.TextChannel | discord.Thread)
        return self.channels.channel(target, persona)

    @asynccontextmanager
    async def restarted(self) -> AsyncIterator["Scene"]:
        """The same server, and a process that remembers nothing."""
        channels = DiscordChannels(self.client, self.backend, recent := RecentMessages(lambda: 20))
        yield Scene(self.rest, self.client, self.backend, recent, channels)
        await channels.close()


@asynccontextmanager
async def scene_with(
    monkeypatch: pytest.MonkeyPatch, *, permissions: int = discord.Permissions.all().value
) -> AsyncIterator[Scene]:
    """A scene in which the bot has these permissions."""
    rest, backend, recent = RestDiscord(), RecordingBackend(), RecentMessages(lambda: 20)
    async with bot_of(rest, monkeypatch, permissions=permissions) as client:
        channels = DiscordChannels(client, backend, recent)
        yield Scene(rest, client, backend, recent, channels)
        await channels.close()
