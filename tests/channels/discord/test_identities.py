"""Personas with faces: a webhook of their own, or the bot's name and picture in a server."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import discord
import pytest

from pixi.channels.discord.incoming.message import IncomingMessage, MessageTranslator
from pixi.channels.discord.outgoing import identities
from pixi.channels.discord.outgoing.identities import Webhooks, webhook_marked
from pixi.channels.discord.places import address_of_chat
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.persona import Persona
from pixi.settings.rules import Rules
from tests.channels.discord.rest_discord import ANA, APPLICATION, BOT, DM, GENERAL, GUILD, MO, THREAD, Fault
from tests.channels.discord.scene import Scene, scene_with

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Scene]:
    """Two personas that have faces."""
    picture = tmp_path / "pixi.png"
    picture.write_bytes(PNG)
    async with scene_with(monkeypatch) as scene:
        scene.backend.obey(faces="webhook")
        scene.backend.personas = {
            "pixi": Persona("Pixi", "", avatar=str(picture)),
            "dan": Persona("Discord Dan", "", avatar="https://example.org/dan.png"),
        }
        yield scene


def _shown(scene: Scene, channel: int = GENERAL) -> list[tuple[str, str]]:
    posted = [each for each in scene.rest.messages.get(channel, ()) if each["author"].get("bot")]
    return [(each["author"]["username"], each["content"]) for each in posted]


def _message(scene: Scene, index: int = -1) -> IncomingMessage:
    """A posted message as it is heard."""
    channel = scene.client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    data = {each: what for each, what in scene.rest.messages[GENERAL][index].items() if each[0] != "_"}
    message = discord.Message(state=channel._state, channel=channel, data=data)  # type: ignore[arg-type]
    assert scene.client.user is not None
    return MessageTranslator(scene.client.user, Rules).read(message)


# Webhooks.


async def test_each_persona_speaks_under_its_own_name_and_picture(scene: Scene) -> None:
    await scene.channel(persona="pixi").send("hi", nonce="1")
    await scene.channel(persona="dan").send("ho", nonce="2")
    await scene.channel(persona="pixi").send("again", nonce="3")
    assert _shown(scene) == [("Pixi", "hi"), ("Díscord Dan", "ho"), ("Pixi", "again")]
    assert [each["_picture"] for each in scene.rest.messages[GENERAL]] == [
        None,
        "https://example.org/dan.png",
        None,
    ]
    made = scene.rest.requests("POST", f"/channels/{GENERAL}/webhooks")
    assert [each.body["name"] for each in made] == [webhook_marked("pixi", PNG), "dan"]
    assert made[0].body["avatar"].startswith("data:image/png;base64,")


async def test_a_webhook_is_found_again_and_never_taken_from_others(scene: Scene) -> None:
    scene.rest.webhook(GENERAL, "pixi", by=ANA)
    mine = scene.rest.webhook(GENERAL, "pixi")
    await scene.channel().send("hi", nonce="1")
    assert not scene.rest.requests("POST", f"/channels/{GENERAL}/webhooks")
    assert scene.rest.messages[GENERAL][0]["webhook_id"] == mine["id"]


async def test_a_picture_that_changed_is_shown_by_the_webhook_that_is_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.channel().send("hi", nonce="1")
    picture = Path(scene.backend.personas["pixi"].avatar)
    picture.write_bytes(PNG + b"another")
    await scene.channel().send("not yet", nonce="2")
    assert not [each for each in scene.rest.asked if each.method == "PATCH"]
    monkeypatch.setattr(identities, "_LOOK_AGAIN", 0.0)
    await scene.channel().send("ho", nonce="3")
    async with scene.restarted() as later:
        await later.channel().send("same", nonce="4")
        picture.unlink()
        await later.channel().send("kept", nonce="5")
    (changed,) = [each for each in scene.rest.asked if each.method == "PATCH"]
    assert changed.body["name"] == webhook_marked("pixi", PNG + b"another")
    assert changed.body["avatar"].startswith("data:image/png;base64,")
    assert len(scene.rest.webhooks) == 1
    assert [text for _, text in _shown(scene)] == ["hi", "not yet", "ho", "same", "kept"]


async def test_a_webhook_that_is_changed_keeps_its_token_where_the_answer_has_none(scene: Scene) -> None:
    scene.rest.tells_tokens = False
    older = scene.rest.webhook(GENERAL, webhook_marked("pixi", b"an older one"))
    await scene.channel().send("hi", nonce="1")
    assert scene.rest.requests("PATCH", f"/webhooks/{older['id']}")
    assert scene.rest.messages[GENERAL][0].get("webhook_id") == older["id"]


async def test_a_webhook_that_is_lost_while_it_is_looked_at_stays_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhooks, channel = Webhooks(scene.client, scene.backend), scene.client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    first = await webhooks.identity(channel, "pixi")
    assert first is not None

    async def lose(persona: Persona) -> None:
        webhooks.lost(first)

    monkeypatch.setattr(identities, "_LOOK_AGAIN", 0.0)
    monkeypatch.setattr(identities, "picture_file", lose)
    await webhooks.identity(channel, "pixi")
    assert not webhooks._found


async def test_another_picture_after_a_start_is_shown_and_no_second_webhook_is_made(scene: Scene) -> None:
    scene.rest.webhook(GENERAL, webhook_marked("pixi", b"an older one"))
    await scene.channel().send("hi", nonce="1")
    assert [each["name"] for each in scene.rest.webhooks.values()] == [webhook_marked("pixi", PNG)]


async def test_in_a_thread_the_parent_s_webhook_speaks(scene: Scene) -> None:
    await scene.channel(THREAD).send("hi", nonce="1")
    assert _shown(scene, THREAD) == [("Pixi", "hi")]
    assert len(scene.rest.requests("POST", f"/channels/{GENERAL}/webhooks")) == 1


async def test_a_webhook_pings_nobody_but_the_person_answered(scene: Scene) -> None:
    asked = scene.hears(MO, "hi")
    await scene.channel().send("@Mo <@12> @everyone <@&55>", nonce="1", answers=asked)
    assert scene.rest.pinged == [{"11"}]


async def test_a_webhook_points_by_a_line_where_there_is_room_for_it(scene: Scene) -> None:
    asked = scene.hears(MO, "hi")
    scene.hears(ANA, "something else")
    channel = scene.channel()
    await channel.send("yes", nonce="1", answers=asked)
    scene.hears(ANA, "something else again")
    await channel.send("x" * 2_000, nonce="2", answers=asked)
    link = f"{address_of_chat()}/channels/{GUILD}/{GENERAL}/{asked}"
    assert scene.rest.said() == [f"-# ↩ {link}\nyes", "x" * 2_000]


async def test_a_webhook_that_was_deleted_is_made_again(scene: Scene) -> None:
    await scene.channel().send("one", nonce="1")
    scene.rest.webhooks.clear()
    await scene.channel().send("two", nonce="2")
    assert _shown(scene) == [("Pixi", "one"), ("Pixi", "two")]


async def test_where_webhooks_are_deleted_at_once_the_bot_speaks(scene: Scene) -> None:
    scene.rest.faults.append(Fault("POST", "/t0ken", status=404, code=10015, times=2))
    await scene.channel().send("hi", nonce="1")
    assert _shown(scene) == [("Bot", "hi")]


@pytest.mark.parametrize(("status", "code"), [(403, 50013), (400, 30007), (404, 0), (0, 0)])
async def test_where_no_webhook_can_be_had_the_bot_speaks_and_the_log_tells_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, status: int, code: int
) -> None:
    scene.rest.faults.append(Fault("POST", f"{GENERAL}/webhooks", status=status, code=code, times=9))
    with caplog.at_level(logging.WARNING, "pixi.discord"):
        for number in range(3):
            await scene.channel().send("hi", nonce=str(number))
    assert _shown(scene) == [("Bot", "hi")] * 3
    assert len([line for line in caplog.messages if "no webhook in #general of 'The Island'" in line]) == 1
    assert len(scene.rest.requests("POST", f"{GENERAL}/webhooks")) == 1


async def test_without_the_permission_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = discord.Permissions.all() ^ discord.Permissions(manage_webhooks=True, administrator=True)
    async with scene_with(monkeypatch, permissions=allowed.value) as scene:
        scene.backend.obey(faces="webhook")
        await scene.channel().send("hi", nonce="1")
        assert _shown(scene) == [("Bot", "hi")]
        assert not [each for each in scene.rest.asked if each.path.endswith("/webhooks")]
    assert "the bot lacks Manage Webhooks" in caplog.text


async def test_where_there_are_too_many_webhooks_another_of_ours_speaks(scene: Scene) -> None:
    scene.rest.webhook(GENERAL, "dan")
    scene.rest.faults.append(Fault("POST", f"{GENERAL}/webhooks", status=400, code=30007))
    await scene.channel().send("hi", nonce="1")
    assert _shown(scene) == [("Pixi", "hi")]
    assert scene.channels.persona_behind(_message(scene)) == "pixi"


async def test_in_a_dm_the_bot_speaks(scene: Scene) -> None:
    channel = await scene.channels.open(f"discord:{BOT}:{DM}:pixi")
    assert channel is not None
    await channel.send("hi", nonce="1")
    assert _shown(scene, DM) == [("Bot", "hi")]


async def test_a_message_that_is_refused_is_not_posted_by_the_bot_instead(scene: Scene) -> None:
    scene.rest.faults.append(Fault("POST", "/t0ken", status=400, code=200000))
    with pytest.raises(ChannelError, match="moderation"):
        await scene.channel().send("hi", nonce="1")
    assert _shown(scene) == []


@pytest.mark.parametrize("after", [False, True])
async def test_a_broken_connection_loses_nothing_and_says_nothing_twice(scene: Scene, after: bool) -> None:
    scene.rest.faults.append(Fault("POST", "/t0ken", after=after))
    await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert _shown(scene) == [("Pixi", "hi")]


@pytest.mark.parametrize("status", [500, 502, 504])
@pytest.mark.parametrize("after", [False, True])
async def test_a_server_that_breaks_loses_nothing_and_says_nothing_twice(
    scene: Scene, after: bool, status: int
) -> None:
    scene.rest.faults.append(Fault("POST", "/t0ken", status=status, after=after))
    posted = await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert _shown(scene) == [("Pixi", "hi")]
    assert posted == scene.rest.messages[GENERAL][-1]["id"]


async def test_a_webhook_waits_where_the_server_says_so(scene: Scene) -> None:
    slow = Fault("POST", "/t0ken", status=429, headers={"Retry-After": "0.05"})
    scene.rest.faults.append(slow)
    await scene.channel().send("hi", nonce="1")
    assert _shown(scene) == [("Pixi", "hi")]


async def test_without_a_nonce_nothing_is_posted_again_unless_the_history_says_so(scene: Scene) -> None:
    scene.rest.faults += [
        Fault("POST", "/t0ken", after=True),
        Fault("GET", "/messages", status=403, code=50013, times=2),
    ]
    with pytest.raises(ChannelLost):
        await scene.channel().send("hi", nonce="1", answers=scene.hears(MO, "hi"))
    assert _shown(scene) == [("Pixi", "hi")]
    scene.rest.faults.append(Fault("POST", "/t0ken", times=9, after=True))
    with pytest.raises(ChannelLost):
        await scene.channel().send("ho", nonce="2")  # of nothing is it known that it stands before
    assert _shown(scene) == [("Pixi", "hi"), ("Pixi", "ho")], "it is not said again, as the bot neither"


async def test_what_a_persona_posted_before_a_crash_is_its_own_alone(scene: Scene) -> None:
    asked = scene.hears(MO, "hi")
    scene.hears(ANA, "ho")
    posted = await scene.channel(persona="pixi").send("@Mo ok", nonce="1", answers=asked)
    async with scene.restarted() as later:
        assert await later.channel(persona="dan").sent_before("@Mo ok", nonce="1", after=asked) is None
        assert await later.channel(persona="pixi").sent_before("@Mo ok", nonce="1", after=asked) == posted


async def test_the_persona_behind_a_webhook_is_known_even_after_a_start(scene: Scene) -> None:
    await scene.channel(persona="dan").send("hi", nonce="1")
    message = _message(scene)
    assert message.application == APPLICATION
    assert scene.channels.persona_behind(message) == "dan"
    async with scene.restarted() as later:
        assert later.channels.persona_behind(message) == "dan"


async def test_nobody_passes_for_a_persona(scene: Scene) -> None:
    scene.hears(MO, "hi", name="Pixi")
    assert scene.channels.persona_behind(_message(scene)) == ""
    theirs = scene.rest.messages[GENERAL][-1]
    theirs |= {"webhook_id": "4444", "author": {**theirs["author"], "username": "Pixi", "bot": True}}
    assert scene.channels.persona_behind(_message(scene)) == ""
    theirs["application_id"] = "4445"
    assert scene.channels.persona_behind(_message(scene)) == ""
    theirs |= {"webhook_id": str(APPLICATION), "application_id": str(APPLICATION)}  # an answer to a command
    assert scene.channels.persona_behind(_message(scene)) == ""


# The bot's own profile.


async def test_the_bot_wears_a_persona_s_name_and_picture(scene: Scene) -> None:
    scene.backend.obey(faces="profile")
    guild = scene.client.get_guild(GUILD)
    assert guild is not None
    await scene.channels.show_as(guild, "pixi")
    await scene.channels.show_as(guild, "pixi")
    changes = scene.rest.requests("PATCH", "/members/@me")
    assert [each.body["nick"] for each in changes] == ["Pixi"]
    assert changes[0].body["avatar"].startswith("data:image/png;base64,")
    await scene.channels.show_as(guild, "dan")
    assert scene.rest.requests("PATCH", "/members/@me")[1].body["nick"] == "Discord Dan"


async def test_what_is_worn_is_not_put_on_again_at_a_start(scene: Scene) -> None:
    scene.backend.obey(faces="profile")
    guild = scene.client.get_guild(GUILD)
    assert guild is not None
    guild.me.nick, guild.me._avatar = "Pixi", "abc"
    await scene.channels.show_as(guild, "pixi")
    assert not scene.rest.requests("PATCH", "/members/@me")
    await scene.channels.show_as(guild, "dan")
    assert [each.body["nick"] for each in scene.rest.requests("PATCH", "/members/@me")] == ["Discord Dan"]


@pytest.mark.parametrize("status", [400, 403, 0])
async def test_where_a_face_cannot_be_worn_one_line_says_so(
    scene: Scene, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    scene.backend.obey(faces="profile")
    scene.rest.faults.append(Fault("PATCH", "/members/@me", status=status, times=9))
    guild = scene.client.get_guild(GUILD)
    assert guild is not None
    with caplog.at_level(logging.WARNING, "pixi.discord"):
        await scene.channels.show_as(guild, "pixi")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the bot does not show as Pixi in The Island: ")


@pytest.mark.parametrize("faces", ["off", "webhook"])
async def test_other_rules_leave_the_bot_s_profile_alone(scene: Scene, faces: str) -> None:
    scene.backend.obey(faces=faces)
    guild = scene.client.get_guild(GUILD)
    assert guild is not None
    await scene.channels.show_as(guild, "pixi")
    assert not scene.rest.requests("PATCH", "/members/@me")
