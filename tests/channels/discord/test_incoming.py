"""Hearing through all its parts, on the Discord in this process."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from PIL import Image

from pixi.channels.discord.bot import Bot
from pixi.channels.discord.gateway import client
from pixi.channels.discord.gateway.client import Shards
from pixi.channels.discord.incoming import dispatch
from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.channels.discord.outgoing.context import PostingContext
from pixi.core.channel import Channel
from pixi.core.errors import StoreError
from pixi.core.message import Author, Message
from pixi.store.kept import ChannelConfig
from pixi.testing.discord import FakeChannel, LoopbackDiscord, Permission
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.incoming import PERSONAS
from tests.waiting import until

FIRST_SECOND = 1_420_070_400
"""The beginning of 2015, from which Discord's ids count milliseconds above their 22 lowest bits."""


@asynccontextmanager
async def running(
    discord: LoopbackDiscord, backend: RecordingBackend, *, shards: Shards | None = None, sessions: int = 1
) -> AsyncIterator[list[str]]:
    """A bot that is connected and told everything; at the end it is cancelled, as by SIGTERM."""
    told: list[str] = []
    before = len(backend.asked)
    run = Bot(backend, token=discord.token, api_url=discord.api_url, shards=shards, tell=told.append).run()
    task = asyncio.create_task(run)
    try:
        await until(lambda: task.done() or ("resume", ()) in backend.asked[before:], "the bot is ready")
        assert not task.done(), task.exception()
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def heard(backend: RecordingBackend, count: int) -> list[str]:
    """The texts of what was received, once there are so many."""
    await until(lambda: len(backend.received) >= count, f"{count} messages")
    return [message.text for message, _ in backend.received]


def backend(**rules: object) -> RecordingBackend:
    made = RecordingBackend(personas=PERSONAS)
    made.obey(**rules)
    return made


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


async def test_people_address_the_persona_in_every_way_there_is() -> None:
    async with LoopbackDiscord() as discord:
        guild = discord.guild("Pancake house")
        general, forum = guild.channel("general"), guild.forum("questions")
        mo = discord.person("mo", display="Mo")
        here = backend()
        async with running(discord, here):
            await general.say(mo, f"{discord.bot.mention} one")
            await heard(here, 1)
            await general.say(mo, "pixi, two")
            assert guild.bot_role is not None
            await general.say(mo, f"{guild.bot_role.mention} three")
            thread = guild.thread(general, "About syrup", owner=mo)
            await heard(here, 3)
            await thread.say(mo, "Pixi, four")
            await heard(here, 4)
            post = await forum.post(mo, "Which pan?", "Pixi, five")
            await heard(here, 5)
            await discord.dm(mo).say(mo, "six")
            assert await heard(here, 6) == [
                "one",
                "pixi, two",
                "three",
                "Pixi, four",
                "[thread: Which pan?]\nPixi, five",
                "six",
            ]

        places = [general, general, general, thread, post, discord.dm(mo)]
        assert [message.conversation for message, _ in here.received] == [
            at(discord, each) for each in places
        ]
        assert {message.author for message, _ in here.received} == {Author(str(mo.id), "Mo")}
        for message, _ in here.received:
            assert message.sent_at == ((int(message.id) >> 22) + FIRST_SECOND * 1000) / 1000


async def test_a_reply_brings_what_it_answers_and_its_picture() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (3_000, 20), "red").save(picture, "PNG")
    async with LoopbackDiscord() as discord:
        general = discord.guild().channel("general")
        mo, ana = discord.person("mo"), discord.person("ana")
        here = backend()
        here.seeing = True
        async with running(discord, here):
            shown = await general.say(ana, "look", attachments=[("pan.png", "image/png", picture.getvalue())])
            await general.say(mo, "Pixi, what is that?", reply_to=shown)
            assert (await heard(here, 1))[-1] == "Pixi, what is that?"

        message, _ = here.received[-1]
        assert [(each.author, each.text) for each in message.quoted] == [
            (Author(str(ana.id), "ana"), 'look\n[picture "pan.png"]')
        ]
        assert len(message.images) == 1


async def test_edits_boxes_and_deletions_are_told_apart() -> None:
    async with LoopbackDiscord() as discord:
        general = discord.guild().channel("general")
        mo = discord.person("mo")
        here = backend()
        async with running(discord, here):
            asked = await general.say(mo, "Pixi, pancakes? https://example.org")
            await heard(here, 1)
            await general.touch(asked, [{"type": "link", "title": "Example"}])
            await asked.edit("Pixi, waffles?")
            await asked.delete()
            await until(lambda: here.asked[-1][0] == "withdraw", "the deletion")

        changes = [each for each in here.asked if each[0] in ("edit", "withdraw")]
        assert changes == [
            ("edit", (at(discord, general), str(asked.id), "Pixi, waffles?")),
            ("withdraw", (at(discord, general), str(asked.id))),
        ]


async def test_events_that_come_twice_are_heard_once() -> None:
    async with LoopbackDiscord() as discord:
        general = discord.guild().channel("general")
        mo = discord.person("mo")
        here = backend()
        async with running(discord, here):
            await general.say(mo, "Pixi, one")
            await heard(here, 1)
            discord.replay(3)
            discord.disconnect()
            await general.say(mo, "Pixi, two")
            await heard(here, 2)
            await discord.ready()
            discord.replay(3)
            await general.say(mo, "Pixi, three")

            assert await heard(here, 3) == ["Pixi, one", "Pixi, two", "Pixi, three"]
        assert discord.gateway.resumes == 1


async def test_what_is_missed_without_a_session_is_caught_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BETWEEN_SESSIONS", 0.01)
    async with LoopbackDiscord() as discord:
        guild = discord.guild()
        general, quiet = guild.channel("general"), guild.channel("quiet")
        mo = discord.person("mo")
        here = backend()
        async with running(discord, here):
            await general.say(mo, "Pixi, one")
            await discord.dm(mo).say(mo, "Pixi, two")
            await heard(here, 2)
            async with discord.away(lose=True):
                await general.say(mo, "Pixi, three")
                await discord.dm(mo).say(mo, "four")
                await quiet.say(mo, "Pixi, five")
                await general.say(mo, "six")
                await general.say(mo, "Pixi, seven")
            texts = await heard(here, 7)

        assert sorted(texts[2:]) == ["Pixi, five", "Pixi, seven", "Pixi, three", "four", "six"]
        in_general = [
            message.text for message, _ in here.received if message.conversation == at(discord, general)
        ]
        assert in_general == ["Pixi, one", "Pixi, three", "six", "Pixi, seven"]


async def test_what_is_missed_while_a_guild_is_down_is_caught_up_with() -> None:
    async with LoopbackDiscord() as discord:
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


async def test_two_shards_hear_their_guilds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BETWEEN_SESSIONS", 0.01)
    async with LoopbackDiscord() as discord:
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


async def test_a_process_can_run_one_shard_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LoopbackDiscord() as discord:
        first = discord.guild("First", shard=0, of=2).channel("general")
        second = discord.guild("Second", shard=1, of=2).channel("general")
        mo = discord.person("mo")
        here = backend()
        async with running(discord, here, shards=Shards.parse("1/2")):
            await first.say(mo, "Pixi, one")
            await second.say(mo, "Pixi, two")

            assert await heard(here, 1) == ["Pixi, two"]


async def test_a_channel_whose_history_is_closed_is_heard_all_the_same() -> None:
    async with LoopbackDiscord() as discord:
        guild = discord.guild()
        general = guild.channel("general", deny_bot=Permission.READ_MESSAGE_HISTORY)
        mo = discord.person("mo")
        here = backend()
        await general.say(mo, "before")
        async with running(discord, here):
            await general.say(mo, "Pixi, hello")

            assert await heard(here, 1) == ["Pixi, hello"]


async def test_a_channel_that_vanishes_and_a_guild_that_is_left_break_nothing() -> None:
    async with LoopbackDiscord() as discord:
        guild, other = discord.guild("One"), discord.guild("Two")
        general, gone = other.channel("general"), guild.channel("gone")
        mo = discord.person("mo")
        here = backend()
        async with running(discord, here):
            asked = await gone.say(mo, "Pixi, one")
            await heard(here, 1)
            gone.vanish()
            await asked.delete()
            guild.leave(discord.bot)
            await general.say(mo, "Pixi, two")

            assert await heard(here, 2) == ["Pixi, one", "Pixi, two"]


async def test_a_webhook_of_somebody_else_is_a_bot() -> None:
    async with LoopbackDiscord() as discord:
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


async def test_two_personas_that_always_answer_each_other_come_to_an_end() -> None:
    class Chatty(RecordingBackend):
        async def receive(self, message: Message, channel: Channel) -> None:
            await super().receive(message, channel)
            if message.addressed:
                other = "Edda" if message.conversation.endswith("pixi") else "Pixi"
                await channel.send(f"And what do you say, {other}?", nonce=f"n{len(self.received)}")

    async with LoopbackDiscord() as discord:
        general = discord.guild().channel("general")
        mo = discord.person("mo")
        here = Chatty(personas=PERSONAS)
        here.obey(faces="webhook", bot_turns=4)
        here.places[at(discord, general, "")] = ChannelConfig(personas=("pixi", "edda"))
        async with running(discord, here):
            await general.say(mo, "Pixi, begin!")
            await heard(here, 5)
            await discord.idle(quiet=0.3)
            rounds = [message.author.name for message, _ in here.received if message.addressed]
            assert rounds == ["mo", "Pixi", "Edda", "Pixi", "Edda"]
            await general.say(mo, "Edda, go on!")
            await discord.idle(quiet=0.3)

        assert len([message for message, _ in here.received if message.addressed]) == 10
        assert len(general.texts) == 10


async def test_a_flood_loses_nothing_and_keeps_its_order() -> None:
    async with LoopbackDiscord() as discord:
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
            texts = [
                message.text for message, _ in here.received if message.conversation == at(discord, room)
            ]
            assert texts == [f"Pixi, {number}" for number in range(30)]
        assert {at(discord, room, "") for room in rooms} <= here.marks.keys()


async def test_going_leaves_the_gateway_and_says_so() -> None:
    async with LoopbackDiscord() as discord:
        discord.guild().channel("general")
        async with running(discord, backend()):
            assert discord.gateway.connections
        await discord.wait_for(lambda: not discord.gateway.connections)

        assert not discord.world.hub.live()
