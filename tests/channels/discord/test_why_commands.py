import io
import json
import logging
import re
import zipfile
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.errors import StoreError
from pixi.core.llm import AssistantLine, ToolCall, ToolLine, Usage, UserLine
from pixi.store.kept import ChannelConfig, Effect, TurnRecord
from pixi.testing.discord import FakeChannel, FakeMessage, Interaction
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.commands import PERSONAS, Stage, embed, fields, shown, stage
from tests.waiting import until


def turn(here: Stage, message: str = "501", note: str = "hm", **changes: Any) -> TurnRecord:
    """A turn of Pixi in the channel, which posted a message."""
    record = TurnRecord(
        id=1,
        conversation=here.address(here.general, "pixi"),
        persona="Pixi",
        model="small",
        began=1_000.0,
        finish="stop",
        steps=2,
        usage=Usage(100, 50, 10),
        cost=0.02,
        people=(str(here.mo.id),),
        lines=(
            UserLine("Mo: what is fog?"),
            AssistantLine(f"[NOTE: {note}]", (ToolCall("c", "search", '{"query": "fog"}'),)),
            ToolLine("c", "search", "a cloud; see https://example.org/fog"),
            AssistantLine("[SEND: a cloud]"),
        ),
        effects=(Effect(1, 1, "send", "a cloud", "done", message),),
    )
    return replace(record, **changes)


def keep(here: Stage, *records: TurnRecord) -> None:
    for record in records:
        here.backend.past.setdefault(record.conversation, []).append(record)
        for effect in record.effects:
            if effect.platform_id:
                here.backend.records[effect.platform_id] = record


async def ours(here: Stage, where: FakeChannel | None = None) -> FakeMessage:
    """A message that the bot posted."""
    channel = here.client.get_partial_messageable((where or here.general).id)
    posted = await channel.send("a cloud")
    found = (where or here.general).find(posted.id)
    assert found is not None
    return found


# Notes.


async def test_notes_are_shown_to_whoever_asks_and_to_nobody_else(here: Stage) -> None:
    keep(here, turn(here, note="look out of the window"))
    begun = await here.use("notes")
    assert begun.ephemeral
    assert embed(begun)["description"] == "<t:1000:R>\n> look out of the window"


async def test_notes_of_all_who_live_here_are_in_the_order_of_their_times(here: Stage) -> None:
    here.backend.places[here.address(here.general)] = ChannelConfig(("pixi", "edda"))
    edda = {"conversation": here.address(here.general, "edda"), "persona": "Edda_Storm"}
    keep(
        here,
        turn(here, note="one"),
        turn(here, note="two", began=2_000.0, **edda),
        turn(here, note="three", began=3_000.0),
    )
    assert embed(await here.use("notes"))["description"] == (
        "<t:1000:R> **Pixi**\n> one\n<t:2000:R> **Edda\\_Storm**\n> two\n<t:3000:R> **Pixi**\n> three"
    )


async def test_notes_of_other_channels_are_not_shown_here(here: Stage) -> None:
    other = here.guild.channel("secret")
    keep(here, turn(here, conversation=here.address(other, "pixi")))
    assert (await here.use("notes")).content == "There are no thoughts yet about what was said here."


async def test_notes_are_shown_to_all_if_an_admin_wants_it(here: Stage) -> None:
    keep(here, turn(here))
    assert not (await here.use("notes", here.boss, public=True)).ephemeral
    begun = await here.use("notes", public=True)
    assert (begun.content, begun.ephemeral) == ("That is for those who manage this server.", True)
    here.backend.obey(admins=(here.mo.id,))
    assert not (await here.use("notes", public=True)).ephemeral


async def test_in_a_direct_message_notes_are_ones_own(here: Stage) -> None:
    dm = here.discord.dm(here.mo)
    keep(here, turn(here, conversation=here.address(dm, "pixi")))
    assert "> hm" in shown(await here.use("notes", where=dm, public=True))


# Why.


async def test_the_menu_of_a_message_tells_what_is_behind_it(here: Stage) -> None:
    message = await ours(here)
    keep(here, turn(here, str(message.id), note="short *answer*"))
    begun = await here.discord.message_menu(here.mo, message, "Why?")
    await begun.answered()
    assert begun.ephemeral
    assert embed(begun)["title"] == "Why Pixi said that"
    assert embed(begun)["description"] == "> short \\*answer\\*"
    told = fields(begun)
    assert "a cloud; see" in told["Tool: search"]
    assert told["Sources"] == "- <https://example.org/fog>"
    assert told["Done"] == "messages: 1"
    assert f"**In answer to** <@{here.mo.id}>" in told["Behind it"]
    assert "**Cost** $0.02" in told["Behind it"]


@pytest.mark.parametrize(
    "form",
    [
        "https://discord.com/channels/{guild}/{channel}/{message}",
        "<https://ptb.discord.com/channels/{guild}/{channel}/{message}/>",
        "http://chat.example.org:8080/channels/{guild}/{channel}/{message}",
        " {message} ",
    ],
)
async def test_a_message_can_be_named_by_link_or_id(here: Stage, form: str) -> None:
    message = await ours(here)
    keep(here, turn(here, str(message.id)))
    link = form.format(guild=here.guild.id, channel=here.general.id, message=message.id)
    assert embed(await here.use("why", message=link))["title"] == "Why Pixi said that"


async def test_a_link_of_a_direct_message_is_understood(here: Stage) -> None:
    dm = here.discord.dm(here.mo)
    keep(here, turn(here, "501", conversation=here.address(dm, "pixi")))
    link = f"https://discord.com/channels/@me/{dm.id}/501"
    assert embed(await here.use("why", where=dm, message=link))["title"] == "Why Pixi said that"


async def test_without_a_message_it_is_the_last_one_that_was_said(here: Stage) -> None:
    silent = turn(here, note="third", began=3_000.0, effects=())
    keep(here, turn(here, note="first"), turn(here, "502", note="second", began=2_000.0), silent)
    assert embed(await here.use("why"))["description"] == "> second"


async def test_where_nothing_was_said_yet_there_is_no_why(here: Stage) -> None:
    keep(here, turn(here, effects=()))
    assert (await here.use("why")).content == "I have said nothing here yet."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "https://discord.com/channels/1/2",
        "1 2",
        "9" * 30,
        "https://evil.example/?" + "x" * 5_000,
    ],
)
async def test_what_is_neither_link_nor_id_is_told(here: Stage, text: str) -> None:
    begun = await here.use("why", message=text)
    assert begun.content == "That is neither the link nor the id of a message."


async def test_a_message_of_somebody_else_has_nothing_behind_it(here: Stage) -> None:
    message = await here.general.say(here.mo, "hi")
    begun = await here.discord.message_menu(here.boss, message, "Why?")
    assert await begun.answered() == "That message is not one of mine, or it was forgotten."


async def test_what_was_said_in_another_channel_is_told_there_alone(here: Stage) -> None:
    secret = here.guild.channel("secret")
    keep(here, turn(here, "777", conversation=here.address(secret, "pixi"), note="the code is 1234"))
    link = f"https://discord.com/channels/{here.guild.id}/{secret.id}/777"
    for message in (link, "777", f"https://discord.com/channels/{here.guild.id}/{here.general.id}/777"):
        begun = await here.use("why", message=message)
        assert begun.content == "That message is in another channel. Ask there."
        assert "1234" not in json.dumps(begun.original.embeds if begun.original else [])


@pytest.mark.parametrize("conversation", ["terminal:pixi:mo", "discord:999:{channel}:pixi"])
async def test_what_another_bot_or_place_said_is_not_told_here(here: Stage, conversation: str) -> None:
    keep(here, turn(here, "777", conversation=conversation.format(channel=here.general.id)))
    assert (await here.use("why", message="777")).content == "That message is in another channel. Ask there."


async def test_what_is_behind_a_message_may_be_seen_by_whoever_may_talk(here: Stage) -> None:
    message = await ours(here)
    keep(here, turn(here, str(message.id)))
    here.backend.obey(blocked_users=(here.mo.id,))
    begun = await here.discord.message_menu(here.mo, message, "Why?")
    assert await begun.answered() == "I cannot be used by you here."


# Being forgotten.


def buttons(begun: Interaction) -> list[dict[str, Any]]:
    assert begun.original is not None
    return [button for row in begun.original.components for button in row["components"]]


async def press(here: Stage, begun: Interaction, label: str) -> str:
    """Press a button; gives what the message says at the end."""
    message = begun.original
    assert message is not None
    button = next(each for each in buttons(begun) if each["label"] == label)
    await here.discord.press(begun.person, message, button["custom_id"])
    await here.discord.wait_for(lambda: not message.components and message.content != "…")
    return message.content


async def test_somebody_is_forgotten_once_they_confirmed(here: Stage) -> None:
    here.backend.changed = 1_234
    begun = await here.use("forget me")
    assert begun.ephemeral
    assert (begun.content or "").startswith("Shall I forget everything")
    assert [button["label"] for button in buttons(begun)] == ["Forget me", "Keep it"]
    assert here.backend.asked == []
    assert (
        await press(here, begun, "Forget me") == "You are forgotten. Conversations that changed: 1\u202f234"
    )
    assert here.backend.asked == [("forget", (str(here.mo.id),))]
    assert here.forgotten == [str(here.mo.id)]


async def test_nobody_is_forgotten_who_thought_better_of_it(here: Stage) -> None:
    begun = await here.use("forget me")
    assert await press(here, begun, "Keep it") == "Nothing was forgotten."
    assert here.backend.asked == []
    assert here.forgotten == []


async def test_whoever_presses_is_forgotten_and_nobody_else(here: Stage) -> None:
    begun = await here.use("forget me")
    message = begun.original
    assert message is not None
    await here.discord.press(here.boss, message, buttons(begun)[0]["custom_id"])
    await until(lambda: here.backend.asked)
    assert here.backend.asked == [("forget", (str(here.boss.id),))]


async def test_the_buttons_speak_the_language_of_whoever_asked(here: Stage) -> None:
    begun = await here.use("forget me", locale="de")
    assert [button["label"] for button in buttons(begun)] == ["Vergiss mich", "Behalten"]


async def test_a_button_from_before_a_restart_still_works() -> None:
    async with stage() as before:
        key = buttons(await before.use("forget me"))[0]["custom_id"]
    async with stage() as after:
        message = await ours(after)
        await after.discord.press(after.mo, message, key)
        await until(lambda: after.backend.asked)
        assert after.backend.asked == [("forget", (str(after.mo.id),))]


class Broken(RecordingBackend):
    """A service whose store cannot be written."""

    async def forget(self, person: str) -> int:
        raise StoreError("/var/pixi.db cannot be written: the disk is full.")


async def test_a_store_that_fails_forgets_nobody_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(Broken(personas=PERSONAS)) as here:
        begun = await here.use("forget me")
        message = begun.original
        assert message is not None
        pressed = await here.discord.press(here.mo, message, buttons(begun)[0]["custom_id"])
        await here.discord.wait_for(lambda: pressed.followups)
        assert (
            pressed.followups[0].content == "My records could not be reached. Please try again in a minute."
        )
        assert pressed.followups[0].ephemeral
        assert here.forgotten == []
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [f"pixi:forget-me of user {here.mo.id}: /var/pixi.db cannot be written: the disk is full."]


@pytest.mark.parametrize("line", ["forget me", "export me"])
async def test_ones_own_words_are_ones_own_even_where_one_is_blocked(here: Stage, line: str) -> None:
    here.backend.obey(blocked_users=(here.mo.id,))
    assert (await here.use(line)).content != "I cannot be used by you here."


# Being given what is kept.


def file(begun: Interaction) -> tuple[str, bytes]:
    assert begun.original is not None
    (attachment,) = begun.original.attachments
    return attachment.upload.name, attachment.data


async def test_somebody_is_given_all_that_is_kept_of_them(here: Stage) -> None:
    here.backend.kept = {"messages": [{"text": "日本 \udc80", "at": 1.5}]}
    begun = await here.use("export me")
    assert (begun.content, begun.ephemeral) == ("This is everything that I keep about you.", True)
    assert here.backend.asked == [("export", (str(here.mo.id),))]
    name, content = file(begun)
    assert name == "pixi.json"
    assert json.loads(content) == here.backend.kept
    assert "日本" in content.decode()


async def test_what_is_too_large_for_a_file_is_compressed(here: Stage) -> None:
    here.discord.world.attachment_limit = 10_000
    here.backend.kept = {"messages": ["fog " * 100] * 100}
    name, content = file(await here.use("export me"))
    assert name == "pixi.json.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert json.loads(archive.read("pixi.json")) == here.backend.kept


async def test_what_is_too_large_even_then_is_told(here: Stage) -> None:
    here.discord.world.attachment_limit = 100
    here.backend.kept = {"messages": ["fog"]} | {str(n): n for n in range(200)}
    begun = await here.use("export me")
    assert re.match("There is too much of it for one file on Discord", begun.content or "")
    assert begun.original is not None
    assert begun.original.attachments == []
