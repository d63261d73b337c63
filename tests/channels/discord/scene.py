"""A server with a bot in it, in which personas can speak."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import discord
import pytest

from pixi.channels.discord.outgoing.channel import DiscordChannel
from pixi.channels.discord.outgoing.channels import DiscordChannels
from pixi.core.message import Author
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.rest_discord import CHANNEL, RestDiscord, bot_of


@dataclass(frozen=True)
class Heard:
    author: Author


@dataclass
class RecentMessages:
    """What was heard, for the asking."""

    latest: int = 0
    heard: dict[int, Heard] = field(default_factory=dict)

    def latest_by_others(self, channel_id: int) -> int:
        return self.latest

    def find(self, channel_id: int, message_id: int) -> Heard | None:
        return self.heard.get(message_id)


@dataclass
class Scene:
    """A server with a bot in it."""

    rest: RestDiscord
    client: discord.Client
    backend: RecordingBackend
    recent: RecentMessages
    speakers: DiscordChannels

    def hears(self, author: int, text: str, *, name: str = "Mo", channel: int = CHANNEL) -> str:
        """Somebody writes a message, and the bot hears it; gives its id."""
        message = self.rest.write(author, text, channel)
        self.recent.heard[message] = Heard(Author(str(author), name))
        self.recent.latest = message
        return str(message)

    def channel(self, channel_id: int = CHANNEL, persona: str = "pixi") -> DiscordChannel:
        target = self.client.get_channel(channel_id)
        assert isinstance(target, discord.TextChannel | discord.Thread)
        return self.speakers.channel(target, persona)

    @asynccontextmanager
    async def restarted(self) -> AsyncIterator["Scene"]:
        """The same server, and a process that remembers nothing."""
        speakers = DiscordChannels(self.client, self.backend, recent := RecentMessages())
        yield Scene(self.rest, self.client, self.backend, recent, speakers)
        await speakers.close()


@asynccontextmanager
async def scene_with(
    monkeypatch: pytest.MonkeyPatch, *, permissions: int = discord.Permissions.all().value
) -> AsyncIterator[Scene]:
    """A scene in which the bot has these permissions."""
    rest, backend, recent = RestDiscord(), RecordingBackend(), RecentMessages()
    async with bot_of(rest, monkeypatch, permissions=permissions) as client:
        speakers = DiscordChannels(client, backend, recent)
        yield Scene(rest, client, backend, recent, speakers)
        await speakers.close()
