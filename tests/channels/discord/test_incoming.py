"""Hearing through all its parts, on the Discord in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pixi.channels.discord.bot import Bot
from pixi.channels.discord.incoming import dispatch
from pixi.channels.discord.outgoing.channel import NOTICE, DiscordChannels
from pixi.channels.discord.outgoing.delivery import PostingContext
from pixi.core.channel import Channel
from pixi.core.errors import StoreError
from pixi.core.message import Message
from pixi.testing.discord import FakeChannel, LoopbackDiscord
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.incoming import PERSONAS, incoming
from tests.channels.discord.rest_discord import BOT
from tests.waiting import until


@asynccontextmanager
async def running(discord: LoopbackDiscord, backend: RecordingBackend) -> AsyncIterator[list[str]]:
    """A bot that is connected and told everything; at the end it is cancelled, as by SIGTERM."""
    told: list[str] = []
    run = Bot(backend, token=discord.token, api_url=discord.api_url, tell=told.append).run()
    task = asyncio.create_task(run)
    try:
        await until(lambda: task.done() or ("resume", ()) in backend.asked, "the bot is ready")
        assert not task.done(), task.exception()
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def discord() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as made:
        yield made


async def heard(backend: RecordingBackend, count: int) -> list[str]:
    """The texts of what was received, once there are so many."""
    await until(lambda: len(backend.received) >= count, f"{count} messages")
    return [message.text for message, _ in backend.received]


def backend() -> RecordingBackend:
    return RecordingBackend(personas=PERSONAS)


def at(discord: LoopbackDiscord, channel: FakeChannel, persona: str = "pixi") -> str:
    return f"discord:{discord.bot.id}:{channel.id}:{persona}"


class FullHouse(RecordingBackend):
    """A service whose disk is full for a while."""

    left = 2  # messages that it does not take

    async def receive(self, message: Message, channel: Channel) -> None:
        if self.left:
            self.left -= 1
            raise StoreError("The disk is full.")
        await super().receive(message, channel)


async def test_what_the_store_did_not_take_is_tried_again_and_people_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(PostingContext, "may_excuse", lambda *_: True)
    async with LoopbackDiscord() as discord:
        general, mo = discord.guild("Pancake house").channel("general"), discord.person("mo")
        here = FullHouse(personas=PERSONAS)
        async with running(discord, here):
            await general.say(mo, "Pixi, one?")
            assert await heard(here, 1) == ["Pixi, one?"]
            await discord.wait_for(lambda: NOTICE in general.texts)

        assert here.left == 0
        assert general.texts.count(NOTICE) == 1


async def test_what_is_missed_while_a_guild_is_down_is_caught_up_with(discord: LoopbackDiscord) -> None:
    guild = discord.guild()
    general = guild.channel("general")
    mo = discord.person("mo")
    here = backend()
    async with running(discord, here):
        await general.say(mo, "Pixi, one")
        await heard(here, 1)
        guild.vanish()
        guild.appear()
        await general.say(mo, "Pixi, two")

        assert await heard(here, 2) == ["Pixi, one", "Pixi, two"]


async def test_two_shards_hear_their_guilds(discord: LoopbackDiscord) -> None:
    discord.gateway.settings.shards = 2
    first = discord.guild("First", shard=0, of=2).channel("general")
    second = discord.guild("Second", shard=1, of=2).channel("general")
    mo = discord.person("mo")
    here = backend()
    async with running(discord, here) as told:
        await first.say(mo, "Pixi, one")
        await second.say(mo, "Pixi, two")
        assert sorted(await heard(here, 2)) == ["Pixi, one", "Pixi, two"]
        discord.lose_events(shard=1)
        await second.say(mo, "Pixi, three")
        assert (await heard(here, 3))[2:] == ["Pixi, three"]

    assert told == [f"Connected as {discord.bot.name}, in 2 servers."]


async def test_a_webhook_of_somebody_else_is_a_bot(discord: LoopbackDiscord) -> None:
    general = discord.guild().channel("general")
    hook, robot = general.webhook("Captain"), discord.person("robot", bot=True)
    mo = discord.person("mo")
    here = backend()
    async with running(discord, here):
        await hook.say("Pixi, from a webhook")
        await general.say(robot, "Pixi, from a robot")
        await general.say(mo, "Pixi, from me")
        assert await heard(here, 1) == ["Pixi, from me"]
        here.obey(bots=True)
        await hook.say("Pixi, from a webhook")
        await general.say(robot, "Pixi, from a robot")
        assert (await heard(here, 3))[1:] == ["Pixi, from a webhook", "Pixi, from a robot"]


async def test_a_flood_loses_nothing_and_keeps_its_order(discord: LoopbackDiscord) -> None:
    guild = discord.guild()
    rooms = [guild.channel(f"room-{number}") for number in range(10)]
    mo = discord.person("mo")
    here = backend()
    async with running(discord, here):
        for number in range(30):
            for room in rooms:
                await room.say(mo, f"Pixi, {number}")
        await heard(here, 300)

    for room in rooms:
        texts = [message.text for message, _ in here.received if message.conversation == at(discord, room)]
        assert texts == [f"Pixi, {number}" for number in range(30)]
    assert {at(discord, room, "") for room in rooms} <= here.marks.keys()


async def test_what_discord_tells_once_the_bot_leaves_begins_nothing() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("resumed")

    async def ready() -> None:
        dispatcher.beside(work())

    async with incoming() as here:
        channels = DiscordChannels(here.client, here.backend, here.recent)
        dispatcher = dispatch.Dispatcher(here.client, here.backend, channels, here.recent, ready)
        here.backend.marks = {f"discord:{BOT}:77:": dispatcher._since}  # of a channel that is not announced
        await dispatcher.listen()
        await dispatcher.stop(0.1)
        await dispatcher.on_ready()
        await dispatcher.on_shard_ready(0)
        await asyncio.sleep(0)
        assert (begun, here.rest.asked) == ([], [])
        await channels.close()
