"""The bot whole, on a Discord in this process: what is said there, seen as people see it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.core.errors import ChannelError
from pixi.core.events import Failed, TurnEnded
from pixi.core.persona import Persona
from pixi.testing import discord as loopback
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.room import Room, room_of
from tests.waiting import until

PERSONAS = Path(__file__).parents[3] / "personas"


@pytest.fixture
async def faces() -> AsyncIterator[Room]:
    """Two personas that speak by webhooks."""
    backend = RecordingBackend()
    backend.obey(faces="webhook")
    backend.personas = {
        "pixi": Persona("Pixi", "", avatar=str(PERSONAS / "pixi.png")),
        "dan": Persona("Discord Dan", "", avatar="https://example.org/dan.png"),
    }
    async with room_of(backend) as room:
        yield room


async def test_everyone_is_never_pinged_and_the_person_answered_is(room: Room) -> None:
    channel, asked = await room.asked()
    for number, text in enumerate(("@everyone!", "@here", f"<@{room.ana.id}>", "@Mo look", "@Ana look")):
        await channel.send(text, nonce=f"1-{number}", answers=asked)
    pinged = [message.pinged for message in room.general.messages[1:]]
    assert pinged == [frozenset(), frozenset(), frozenset(), {room.mo.id}, frozenset()]
    assert room.general.texts[3] == f"{room.mo.mention} look"


async def test_one_nonce_is_one_message(room: Room) -> None:
    channel, asked = await room.asked()
    first = await channel.send("hi", nonce="1-1", answers=asked)
    assert await channel.send("hi", nonce="1-1", answers=asked) == first
    assert room.general.texts == ["hi"]


async def test_a_long_message_comes_in_parts_and_whole(room: Room) -> None:
    channel, asked = await room.asked()
    text = "Pancakes are flat. " * 300
    for number, part in enumerate(channel.parts(text)):
        await channel.send(part, nonce=f"1-{number}", answers=asked)
    assert " ".join(room.general.texts) == text.strip()
    assert [message.reference for message in room.general.messages] == [None] * 4


async def test_the_first_message_points_at_the_one_answered_where_others_spoke_since(room: Room) -> None:
    channel, asked = await room.asked()
    await room.interrupted(channel)
    await channel.send("one", nonce="1", answers=asked)
    await channel.send("two", nonce="2", answers=asked)
    one, two = room.general.messages[-2:]
    assert one.reference is not None
    assert str(one.reference.message_id) == asked
    assert two.reference is None
    assert one.pinged == frozenset()


async def test_it_speaks_on_where_the_message_answered_is_gone(room: Room) -> None:
    channel, asked = await room.asked()
    await room.interrupted(channel)
    await room.general.messages[0].delete()
    await channel.send("still here", nonce="1", answers=asked)
    assert room.general.texts == ["still here"]
    with pytest.raises(ChannelError, match="Discord refused the reaction: the message is gone"):
        await channel.react(asked, "🥞", nonce="2")


async def test_reactions_by_emoji_shortcode_and_the_server_s_own_names(room: Room) -> None:
    room.guild.emoji("PixiWave")
    await room.discord.idle()
    channel, asked = await room.asked()
    for number, emoji in enumerate(("🥞", ":heart:", "pixiwave", "thumbsup", "👋🏽")):
        await channel.react(asked, emoji, nonce=str(number))
    assert set(room.general.messages[0].reactions) == {"🥞", "❤️", ":PixiWave:", "👍", "👋🏽"}
    with pytest.raises(ChannelError, match="There is no emoji 'nothing of the kind'"):
        await channel.react(asked, "nothing of the kind", nonce="9")
    await channel.send(channel.parts("look :PixiWave:")[0], nonce="10")
    assert room.general.texts == [f"look {next(iter(room.guild.emojis.values())).text}"]


async def test_typing_is_shown(room: Room) -> None:
    channel, _ = await room.asked()
    await channel.typing()
    assert [each.user for each in room.general.typings] == [room.discord.bot]


@pytest.mark.parametrize("took_effect", [False, True])
async def test_a_connection_that_breaks_neither_loses_nor_doubles(room: Room, took_effect: bool) -> None:
    channel, asked = await room.asked()
    room.discord.hang_up("POST", "/messages$", took_effect=took_effect)
    await channel.send("hi", nonce="1", answers=asked)
    assert room.general.texts == ["hi"]


async def test_limits_are_waited_out(room: Room) -> None:
    channel, asked = await room.asked()
    room.discord.limit("POST", "/messages$", 2, 0.2)
    await asyncio.gather(
        *(channel.send(str(number), nonce=str(number), answers=asked) for number in range(5))
    )
    assert sorted(room.general.texts) == ["0", "1", "2", "3", "4"]


async def test_without_the_permission_it_says_so_once_and_lives_on(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    may = loopback.Permission
    room.guild.change_role(room.guild.everyone, may.VIEW_CHANNEL | may.READ_MESSAGE_HISTORY)
    room.guild.change_role(room.guild.bot_role, may.VIEW_CHANNEL)
    await room.discord.idle()
    channel, asked = await room.asked()
    for number in range(2):
        with pytest.raises(ChannelError, match="the bot lacks a permission there"):
            await channel.send("hi", nonce=str(number), answers=asked)
    told = [line for line in caplog.messages if "lacks Send Messages" in line]
    assert told == [
        f"#general of 'Pancake house' ({room.general.id}): Discord refused the message: "
        "the bot lacks a permission there. It lacks Send Messages."
    ]
    assert len(room.discord.asked("POST", "/messages$")) == 1


async def test_a_channel_that_is_deleted_under_the_reply_is_gone(room: Room) -> None:
    channel, asked = await room.asked()
    room.general.vanish()
    with pytest.raises(ChannelError, match="the channel is gone"):
        await channel.send("hi", nonce="1", answers=asked)


async def test_in_threads_and_dms_it_speaks_too(room: Room) -> None:
    thread = room.guild.thread(room.general, "syrup", owner=room.mo)
    channel, asked = await room.asked(where=thread)
    await channel.send("in here", nonce="1", answers=asked)
    assert thread.texts == ["in here"]
    direct = room.discord.dm(room.mo)
    channel, asked = await room.asked(where=direct)
    await channel.send("just us", nonce="2", answers=asked)
    assert direct.texts == ["just us"]


@pytest.mark.parametrize("knows", [True, False])
async def test_after_a_crash_what_was_posted_is_found(room: Room, knows: bool) -> None:
    channel, asked = await room.asked()
    posted = await channel.send("@Mo ok", nonce="1", answers=asked)
    if not knows:
        room.general.messages[-1].nonce = None
    channel._posted.clear()  # as a new process has it
    assert await channel.sent_before("@Mo ok", nonce="1", after=asked) == posted
    assert await channel.sent_before("@Mo ok", nonce="2", after=asked) is None


async def test_a_reply_that_broke_unseen_is_told_of(room: Room) -> None:
    channel, _ = await room.asked()
    channel.show(Failed("The model cannot be reached."))
    channel.show(TurnEnded("error", 1))
    await room.discord.wait_for(lambda: room.general.texts)
    assert room.general.texts == [NOTICE]


async def test_a_persona_speaks_by_its_webhook_with_its_picture(faces: Room) -> None:
    channel, asked = await faces.asked()
    await channel.send("@everyone @Mo hi", nonce="1", answers=asked)
    spoken = faces.general.messages[-1]
    assert (spoken.shown, spoken.content) == ("Pixi", f"@\u200beveryone {faces.mo.mention} hi")
    assert spoken.pinged == {faces.mo.id}
    assert spoken.webhook is not None
    assert spoken.webhook.avatar
    assert await channel.sent_before("nothing", nonce="2", after=asked) is None


async def test_who_answers_a_message_of_the_persona_is_known_by_its_id(room: Room) -> None:
    await answers_are_known(room)


async def test_who_answers_a_message_of_its_webhook_is_known_by_its_id(faces: Room) -> None:
    await answers_are_known(faces)


async def answers_are_known(room: Room) -> None:
    channel, asked = await room.asked()
    posted = await channel.send("one", nonce="1", answers=asked)
    spoken = room.general.messages[-1]
    assert str(spoken.id) == posted
    answer = await room.general.say(room.ana, "and then?", reply_to=spoken)
    await until(lambda: len(room.backend.received) == 2)
    heard, _ = room.backend.received[-1]
    assert (heard.id, heard.reply_to, heard.addressed) == (str(answer.id), posted, True)


async def test_in_a_thread_it_speaks_by_the_parent_s_webhook_and_points_by_a_line(faces: Room) -> None:
    thread = faces.guild.thread(faces.general, "syrup", owner=faces.mo)
    channel, asked = await faces.asked(where=thread)
    await channel.send("yes", nonce="1", answers=asked, reply_to=asked)
    link = f"{faces.discord.world.origin}/channels/{faces.guild.id}/{thread.id}/{asked}"
    assert thread.texts == [f"-# ↩ {link}\nyes"]
    assert thread.messages[-1].shown == "Pixi"


async def test_a_webhook_that_somebody_deleted_is_made_again(faces: Room) -> None:
    channel, asked = await faces.asked()
    await channel.send("one", nonce="1", answers=asked)
    for webhook in list(faces.discord.world.webhooks.values()):
        webhook.delete()
    await channel.send("two", nonce="2", answers=asked)
    assert [message.shown for message in faces.general.messages[-2:]] == ["Pixi", "Pixi"]
    assert faces.general.texts == ["one", "two"]


async def test_what_its_own_webhook_says_is_not_answered(faces: Room) -> None:
    channel, asked = await faces.asked()
    await channel.send("I, Pixi, talk to myself: Pixi!", nonce="1", answers=asked)
    await faces.discord.idle()
    assert [message.id for message, _ in faces.backend.received if message.addressed] == [asked]


async def test_the_bot_wears_its_persona_in_each_server() -> None:
    backend = RecordingBackend()
    backend.obey(faces="profile")
    backend.personas = {"pixi": Persona("Miss Pixi", "", avatar=str(PERSONAS / "pixi.png"))}
    async with room_of(backend) as room:
        await room.discord.wait_for(lambda: room.guild.bot_member.nick)
        assert room.guild.bot_member.nick == "Miss Pixi"
        assert room.guild.bot_member.avatar
