"""A persona speaks, reacts and types on Discord: discord.py over real sockets, with what can go wrong."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import discord
import pytest

from pixi.channels.discord import requests
from pixi.channels.discord.outgoing import delivery
from pixi.channels.discord.outgoing.channel import NOTICE
from pixi.channels.discord.requests import RetryTimer
from pixi.core.errors import ChannelError, ChannelForgot, ChannelLost
from pixi.core.events import Failed, Performed, TurnEnded
from pixi.core.persona import Persona
from tests.channels.discord.rest_discord import ANA, BOT, DM, GENERAL, MO, THREAD, Fault
from tests.channels.discord.scene import Scene, scene_with
from tests.held_clock import HeldClock
from tests.waiting import until


@pytest.fixture
async def muted(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """A server that does not let the bot write."""
    allowed = discord.Permissions.all() ^ discord.Permissions(send_messages=True, administrator=True)
    async with scene_with(monkeypatch, permissions=allowed.value) as scene:
        yield scene


# Messages.


async def test_a_message_is_posted_with_its_nonce_and_gives_its_id(scene: Scene) -> None:
    posted = await scene.channel().send("hi there", nonce="1-1-abc")
    assert scene.rest.said() == ["hi there"]
    assert posted == scene.rest.messages[GENERAL][0]["id"]
    assert scene.rest.requests("POST", "/messages")[0].body["nonce"] == "1-1-abc"


async def test_the_same_nonce_posts_once(scene: Scene) -> None:
    first = await scene.channel().send("hi", nonce="n")
    assert await scene.channel().send("hi", nonce="n") == first
    assert scene.rest.said() == ["hi"]


async def test_a_long_text_is_posted_in_parts_that_discord_takes(scene: Scene) -> None:
    channel, text = scene.channel(), "Some words that go on. " * 200
    for number, part in enumerate(channel.parts(text)):
        await channel.send(part, nonce=f"1-{number}")
    assert " ".join(scene.rest.said()) == text.strip()
    assert len(scene.rest.said()) == 3


async def test_the_server_s_own_emoji_are_put_in_by_name(scene: Scene) -> None:
    assert scene.channel().parts("hi :PixiWave: and :tada:") == ("hi <:PixiWave:77> and :tada:",)


async def test_what_a_persona_writes_pings_nobody(scene: Scene) -> None:
    asked = scene.hears(MO, "hi")
    texts = ["@everyone look", "@here", "<@12> hi", "<@&55> hi", "@Ana", "<@!12>"]
    for text in texts:
        await scene.channel().send(text, nonce=text, answers=asked)
    assert scene.rest.said() == texts
    assert scene.rest.pinged == [set()] * len(texts)


async def test_the_person_answered_is_pinged_where_they_are_named(scene: Scene) -> None:
    asked = scene.hears(MO, "hi")
    channel = scene.channel()
    await channel.send("@Mo hi @everyone", nonce="1", answers=asked)
    await channel.send("<@11> again", nonce="2", answers=asked)
    await channel.send("Mo!", nonce="3", answers=asked)
    assert scene.rest.said() == ["<@11> hi @everyone", "<@11> again", "Mo!"]
    assert scene.rest.pinged == [{"11"}, {"11"}, set()]


async def test_a_mention_that_would_make_a_message_too_long_stays_text(scene: Scene) -> None:
    asked, text = scene.hears(MO, "hi"), "@Mo " + "x" * 1_996
    await scene.channel().send(text, nonce="1", answers=asked)
    assert scene.rest.said() == [text]


@pytest.mark.parametrize(
    ("pings", "pinged"),
    [((), set()), (("users",), {"12"}), (("roles",), {"role"}), (("everyone",), {"@everyone"})],
)
async def test_the_operator_may_allow_more_pings(
    scene: Scene, pings: tuple[str, ...], pinged: set[str]
) -> None:
    scene.backend.obey(pings=pings)
    await scene.channel().send("@everyone <@12> <@&55>", nonce="1")
    assert scene.rest.pinged == [pinged]


async def test_a_reply_points_at_the_message_answered_where_others_spoke_since(scene: Scene) -> None:
    asked = scene.hears(MO, "a question")
    scene.hears(ANA, "something else")
    channel = scene.channel()
    await channel.send("the answer", nonce="1", answers=asked)
    await channel.send("more of it", nonce="2", answers=asked)
    scene.hears(ANA, "again")
    await channel.send("and more", nonce="3", answers=asked)
    pointed = [each.body.get("message_reference") for each in scene.rest.requests("POST", "/messages")]
    assert [each and each["message_id"] for each in pointed] == [int(asked), None, int(asked)]
    assert scene.rest.pinged == [set(), set(), set()]


async def test_it_points_at_nothing_where_nobody_spoke_since(scene: Scene) -> None:
    await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert "message_reference" not in scene.rest.requests("POST", "/messages")[0].body


async def test_it_points_where_the_persona_wants_it_to(scene: Scene) -> None:
    earlier = scene.hears(ANA, "earlier")
    await scene.channel().send("yes", nonce="1", answers=scene.hears(MO, "hi"), reply_to=earlier)
    assert scene.rest.requests("POST", "/messages")[0].body["message_reference"]["message_id"] == int(earlier)


@pytest.mark.parametrize(("status", "code"), [(400, 50035), (400, 10008), (403, 160002), (404, 10008)])
async def test_where_it_cannot_point_it_is_posted_all_the_same(scene: Scene, status: int, code: int) -> None:
    scene.rest.faults.append(Fault("POST", "/messages", status=status, code=code))
    await scene.channel().send("yes", nonce="1", reply_to="4000")
    assert scene.rest.said() == ["yes"]
    assert "message_reference" not in scene.rest.requests("POST", "/messages")[1].body


# Faults.

REFUSALS = (
    (403, 50013, "the bot lacks a permission there"),
    (403, 50001, "the bot cannot see the channel"),
    (404, 10003, "the channel is gone"),
    (400, 50035, "it does not take it in this form"),
    (400, 40005, "it is too large"),
    (413, 0, "it is too large"),
    (400, 200000, "the server's moderation rules forbid it"),
    (403, 50007, "the person takes no direct messages from the bot"),
    (403, 0, "the bot is not allowed to"),
    (418, 0, "no"),
)


@pytest.mark.parametrize("after", [False, True])
async def test_a_connection_that_breaks_loses_nothing_and_says_nothing_twice(
    scene: Scene, after: bool
) -> None:
    scene.rest.faults.append(Fault("POST", "/messages", after=after))
    posted = await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert scene.rest.said() == ["hi"]
    assert posted == scene.rest.messages[GENERAL][-1]["id"]


async def test_a_connection_that_stays_broken_leaves_it_open_whether_it_was_posted(scene: Scene) -> None:
    scene.backend.obey(patience_seconds=0)
    scene.rest.faults.append(Fault("POST", "/messages", times=99))
    with pytest.raises(ChannelLost):
        await scene.channel().send("hi", nonce="1")
    assert [each.method for each in scene.rest.asked[-2:]] == ["POST", "GET"], (
        "it looks, and leaves it at that"
    )


@pytest.mark.parametrize(("faces", "posts"), [("off", 7), ("webhook", 1)])
async def test_an_outage_within_the_patience_is_waited_out(scene: Scene, faces: str, posts: int) -> None:
    """A webhook, which knows no nonces, posts again only once the history was read."""
    scene.backend.obey(faces=faces)
    asked, channel = scene.hears(MO, "hi"), scene.channel()
    await channel.send("one", nonce="1", answers=asked)
    scene.rest.faults += [
        Fault("POST", "", times=posts),
        Fault("GET", "", times=7),
        Fault("PUT", "", times=7),
    ]
    posted = await channel.send("two", nonce="2", answers=asked)
    assert scene.rest.said() == ["one", "two"]
    assert posted == scene.rest.messages[GENERAL][-1]["id"]
    assert len({each["author"]["id"] for each in scene.rest.messages[GENERAL][1:]}) == 1, "in one voice"
    await channel.react(asked, "🥞", nonce="3")
    assert scene.rest.reactions == [(GENERAL, int(asked), "🥞")]


async def test_pauses_grow_until_the_patience_is_over(
    clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_FIRST_PAUSE", 0.5)
    patience, began, at = RetryTimer(30), clock.time(), []
    while await patience.pause():
        at.append(clock.time() - began)
    assert at == [0.5, 1.5, 3.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30]


async def test_messages_come_in_the_order_in_which_they_were_given(scene: Scene) -> None:
    """An excuse and a question to a person, which are no acts of a turn, stand in the same row."""
    scene.rest.faults.append(Fault("POST", "/messages", times=3))
    asked, channel = scene.hears(MO, "hi"), scene.channel()
    channel.excuse()
    await asyncio.sleep(0)
    await channel.send("two", nonce="2", answers=asked)
    assert scene.rest.said() == [NOTICE, "two"]


async def test_after_a_limit_that_nobody_waits_for_nothing_more_of_the_reply_is_posted(scene: Scene) -> None:
    scene.rest.faults.append(Fault("POST", "/messages", status=429, headers={"Retry-After": "3600"}))
    channel = scene.channel()
    for number in range(3):
        with pytest.raises(ChannelError, match="too much was asked of it at once"):
            await channel.send("hi", nonce=str(number))
    assert scene.rest.said() == []


async def test_a_wait_that_the_server_asks_for_is_waited(scene: Scene) -> None:
    by_discord = {"Via": "1.1 google", "Retry-After": "0.05"}
    scene.rest.faults += [
        Fault("POST", "/messages", status=429, headers=by_discord),
        Fault("POST", "/messages", status=429, headers={"Retry-After": "0.05"}),
        Fault("POST", "/messages", status=429, headers={}),
    ]
    await scene.channel().send("hi", nonce="1")
    assert scene.rest.said() == ["hi"]


async def test_a_refusal_is_one_plain_line(scene: Scene) -> None:
    channel = scene.channel()
    for number, (status, code, line) in enumerate(REFUSALS, 1):
        scene.rest.faults.append(Fault("POST", "/messages", status=status, code=code))
        with pytest.raises(ChannelError) as caught:
            await channel.send("hi", nonce="1")
        assert str(caught.value) == f"Discord refused the message: {line}."
        assert not isinstance(caught.value, ChannelLost)
        assert len(scene.rest.requests("POST", "/messages")) == number
        channel.show(TurnEnded("stop", 1))  # in the next turn it is tried again


async def test_a_closed_channel_is_told_of_once_and_not_tried_again_in_the_turn(
    muted: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    muted.rest.faults.append(Fault("POST", "/messages", status=403, code=50013, times=99))
    channel = muted.channel()
    with caplog.at_level(logging.WARNING, "pixi.discord"):
        for number in range(3):
            with pytest.raises(ChannelError, match="lacks a permission"):
                await channel.send("hi", nonce=str(number))
        assert len(muted.rest.requests("POST", "/messages")) == 1
        channel.show(TurnEnded("stop", 1))
        with pytest.raises(ChannelError):
            await channel.send("hi", nonce="n")
    assert len(muted.rest.requests("POST", "/messages")) == 2
    assert caplog.messages == [
        "#general of 'The Island' (200): Discord refused the message: "
        "the bot lacks a permission there. It lacks Send Messages."
    ]


async def test_a_bot_that_was_silenced_for_a_time_is_told_of(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    target = scene.channel().target
    assert isinstance(target, discord.TextChannel)
    target.guild.me.timed_out_until = discord.utils.utcnow() + timedelta(minutes=5)
    scene.rest.faults.append(Fault("POST", "/messages", status=403, code=50013))
    with pytest.raises(ChannelError):
        await scene.channel().send("hi", nonce="1")
    assert caplog.messages[-1].endswith("the bot lacks a permission there. It is timed out.")


async def test_no_token_is_ever_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.backend.obey(faces="webhook")
    scene.rest.faults.append(Fault("POST", "/t0ken", times=99))
    with caplog.at_level(logging.DEBUG, "pixi"):
        await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert scene.rest.said() == ["hi"], "the bot says what the webhook could not"
    assert "t0ken" not in caplog.text
    scene.rest.faults.append(Fault("GET", "/messages", times=99))
    scene.backend.obey(patience_seconds=0)
    scene.channels._context.webhooks._not_before.clear()
    with caplog.at_level(logging.DEBUG, "pixi"), pytest.raises(ChannelLost) as caught:
        await scene.channel().send("ho", nonce="2")
    assert scene.rest.said() == ["hi"], "nobody knows whether the webhook posted it"
    assert "t0ken" not in caplog.text + str(caught.value)


# After a crash.


@pytest.mark.parametrize("tells_nonces", [True, False])
async def test_what_an_earlier_process_posted_is_found_and_counts_once(
    scene: Scene, tells_nonces: bool
) -> None:
    scene.rest.tells_nonces = tells_nonces
    asked = scene.hears(MO, "hi")
    first = await scene.channel().send("@Mo ok", nonce="1", answers=asked)
    second = await scene.channel().send("@Mo ok", nonce="2", answers=asked)
    scene.hears(ANA, "@Mo ok")
    async with scene.restarted() as later:
        channel = later.channel()
        assert await channel.sent_before("@Mo ok", nonce="1", after=asked) == first
        assert await channel.sent_before("@Mo ok", nonce="2", after=asked) == second
        assert await channel.sent_before("@Mo ok", nonce="3", after=asked) is None
        assert await channel.sent_before("other", nonce="4", after=asked) is None


async def test_what_was_posted_before_the_message_answered_is_another(scene: Scene) -> None:
    scene.rest.tells_nonces = False
    await scene.channel().send("ok", nonce="1")
    asked = scene.hears(MO, "hi")
    async with scene.restarted() as later:
        assert await later.channel().sent_before("ok", nonce="2", after=asked) is None


async def test_an_equal_message_of_the_same_turn_is_not_taken_for_it(scene: Scene) -> None:
    scene.rest.tells_nonces = False
    asked = scene.hears(MO, "hi")
    first = await scene.channel().send("ok", nonce="1", answers=asked)
    assert first is not None
    async with scene.restarted() as later:
        assert await later.channel().sent_before("ok", nonce="2", after=first) is None
        assert await later.channel().sent_before("ok", nonce="1", after=asked) == first


@pytest.mark.parametrize("status", [403, 404])
async def test_where_the_history_is_closed_the_nonce_is_trusted_as_long_as_discord_knows_it(
    scene: Scene, status: int
) -> None:
    lately, earlier = (
        str(discord.utils.time_snowflake(discord.utils.utcnow() - timedelta(seconds=age))) for age in (5, 600)
    )
    scene.rest.faults.append(Fault("GET", "/messages", status=status, times=9))
    assert await scene.channel().sent_before("hi", nonce="1", after=lately) is None
    with pytest.raises(ChannelForgot, match="cannot be read"):
        await scene.channel().sent_before("hi", nonce="1", after=earlier)


async def test_a_history_that_cannot_be_reached_may_tell_later(scene: Scene) -> None:
    scene.rest.faults.append(Fault("GET", "/messages", times=2))  # a GET is sent twice at once
    asked, channel = scene.hears(MO, "hi"), scene.channel()
    with pytest.raises(ChannelLost, match="cannot be read") as caught:
        await channel.sent_before("hi", nonce="1", after=asked)
    assert not isinstance(caught.value, ChannelForgot)
    assert await channel.sent_before("hi", nonce="1", after=asked) is None


async def test_what_the_nonce_does_not_guard_any_more_is_posted_only_once_the_history_was_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "NONCE_SECONDS", 0.0)
    scene.rest.faults += [Fault("POST", "/messages", after=True), Fault("GET", "/messages", times=3)]
    posted = await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert posted == scene.rest.messages[GENERAL][-1]["id"]
    assert len(scene.rest.requests("POST", "/messages")) == 1


# Reactions and typing.


@pytest.mark.parametrize(
    ("written", "put"), [("🥞", "🥞"), (":pancakes:", "🥞"), ("pixiwave", "PixiWave:77"), ("❤", "❤️")]
)
async def test_a_reaction_is_put_on_the_message(scene: Scene, written: str, put: str) -> None:
    asked = scene.hears(MO, "hi")
    await scene.channel().react(asked, written, nonce="1")
    assert scene.rest.reactions == [(GENERAL, int(asked), put)]


async def test_an_emoji_that_there_is_not_is_named_and_nothing_is_asked(scene: Scene) -> None:
    with pytest.raises(ChannelError, match=r"There is no emoji 'asdfgh'\."):
        await scene.channel().react(scene.hears(MO, "hi"), "asdfgh", nonce="1")
    assert not [each for each in scene.rest.asked if each.method == "PUT"]


@pytest.mark.parametrize(
    ("status", "code", "line"),
    [
        (404, 10008, "the message is gone"),
        (400, 10014, "it does not know the emoji"),
        (403, 90001, "the person has blocked the bot"),
        (403, 30010, "the message has as many reactions as it may have"),
    ],
)
async def test_a_reaction_that_is_refused_is_one_plain_line(
    scene: Scene, status: int, code: int, line: str
) -> None:
    scene.rest.faults.append(Fault("PUT", "/@me", status=status, code=code))
    with pytest.raises(ChannelError, match=f"Discord refused the reaction: {line}."):
        await scene.channel().react("1", "🥞", nonce="1")


async def test_a_reaction_is_tried_again_where_the_connection_breaks(scene: Scene) -> None:
    scene.rest.faults.append(Fault("PUT", "/@me", times=1))
    await scene.channel().react("1", "🥞", nonce="1")
    assert scene.rest.reactions == [(GENERAL, 1, "🥞")]


async def test_typing_is_one_request_and_its_failure_a_channel_error(scene: Scene) -> None:
    await scene.channel().typing()
    assert len(scene.rest.requests("POST", "/typing")) == 1
    scene.rest.faults.append(Fault("POST", "/typing", status=403, code=50013))
    with pytest.raises(ChannelError):
        await scene.channel().typing()


# Notices.


async def _until_quiet(scene: Scene) -> None:
    for _ in range(200):
        await asyncio.sleep(0.005)
        if scene.rest.said():
            return


async def test_a_turn_that_broke_unseen_is_told_of_once(scene: Scene) -> None:
    channel = scene.channel()
    for _ in range(2):
        channel.show(Failed("The model's key is wrong."))
        channel.show(TurnEnded("error", 1))
    await _until_quiet(scene)
    await asyncio.sleep(0.05)
    assert scene.rest.said() == [NOTICE]


async def test_nothing_is_told_where_something_was_seen_or_all_went_well(scene: Scene) -> None:
    channel = scene.channel()
    for act in (channel.send("hi", nonce="1"), channel.react("1", "🥞", nonce="2")):
        await act
        channel.show(Failed("The stream broke."))
        channel.show(TurnEnded("error", 1))
    channel.show(Performed("wave", ""))
    channel.show(Failed("The stream broke."))
    channel.show(TurnEnded("error", 1))
    channel.show(TurnEnded("stop", 1))
    channel.show(TurnEnded("cancelled", 1))
    await asyncio.sleep(0.05)
    assert scene.rest.said() == ["hi"]


async def test_a_persona_that_has_words_for_it_says_those_once_a_minute(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.backend.personas = {"pixi": Persona("Pixi", "", when_broken=("hm",))}
    for _ in range(2):
        scene.channel().excuse()
        await _until_quiet(scene)
        gc.collect()  # who speaks there is forgotten meanwhile; when it last did so is not
    await asyncio.sleep(0.05)
    assert scene.rest.said() == ["hm"]
    monkeypatch.setattr(delivery, "_BETWEEN_EXCUSES_SECONDS", 0.0)
    scene.channel().excuse()
    await until(lambda: scene.rest.said() == ["hm", "hm"], "it says so again")


async def test_what_was_posted_was_seen_though_it_could_not_be_recorded(scene: Scene) -> None:
    channel = scene.channel()
    await channel.send("hi", nonce="1")
    channel.show(Failed("The disk is full."))
    channel.show(TurnEnded("error", 1))
    await asyncio.sleep(0.05)
    assert scene.rest.said() == ["hi"]


# Channels.


async def test_a_channel_is_one_object_while_it_is_held_and_nothing_after(scene: Scene) -> None:
    channel = scene.channel()
    assert scene.channel() is channel
    assert scene.channel(THREAD) is not channel
    assert (channel.growing, channel.paced) == (False, True)
    del channel
    gc.collect()
    assert len(scene.channels._alive) == 0


async def test_a_channel_opens_by_its_address(scene: Scene) -> None:
    channel = await scene.channels.open(f"discord:{BOT}:{THREAD}:pixi")
    assert channel is not None
    await channel.send("hi", nonce="1")
    assert scene.rest.said(THREAD) == ["hi"]
    direct = await scene.channels.open(f"discord:{BOT}:{DM}:")
    assert direct is not None
    assert isinstance(direct.target, discord.DMChannel)
    await direct.send("hi", nonce="1")
    assert scene.rest.said(DM) == ["hi"]


@pytest.mark.parametrize(
    "address", [f"discord:{BOT}:999:pixi", f"discord:1:{GENERAL}:pixi", "terminal:a:b", ""]
)
async def test_what_is_gone_or_not_ours_does_not_open(scene: Scene, address: str) -> None:
    assert await scene.channels.open(address) is None


@pytest.mark.parametrize("status", [0, 503, 400])
async def test_a_channel_that_discord_does_not_tell_about_can_be_spoken_in(scene: Scene, status: int) -> None:
    scene.rest.faults.append(Fault("GET", f"/channels/{DM}", status=status))
    channel = await scene.channels.open(f"discord:{BOT}:{DM}:pixi")
    assert channel is not None
    await channel.send("hi :PixiWave:", nonce="1")
    assert scene.rest.said(DM) == ["hi :PixiWave:"]
