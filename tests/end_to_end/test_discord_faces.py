"""Several personas on Discord: under their own names, with each other, and as the bot itself."""

import asyncio
import logging
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image as Pillow

from pixi.app.service import BotService
from pixi.store.kept import ChannelConfig
from pixi.testing.discord import BOT_MAY, Permission
from tests.end_to_end.bot import EDDA, PERSONA, Scene, Script, scene
from tests.servers.scripted_openai import Seen, Until
from tests.waiting import until

BOTH = {"pixi": PERSONA, "edda": EDDA}


def by_persona(pixi: str, edda: str) -> Script:
    """A model that writes what the persona says whose prompt it was given."""

    def reply(seen: Seen) -> str:
        return edda if "You are Edda." in seen.body.decode() else pixi

    return reply


async def move_in(here: Scene, service: BotService, *personas: str) -> None:
    """Somebody chooses who lives in the room."""
    await service.set_place(here.address(persona=""), ChannelConfig(personas=personas))


def shown(here: Scene) -> list[tuple[str, str]]:
    """What was said in the room besides by people, and under which name."""
    return [(each.shown, each.content) for each in here.room.messages if each.author.bot]


async def test_each_speaks_under_its_own_name(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, by_persona("[SEND: I am Pixi]", "[SEND: I am Edda]"), personas=BOTH) as here,
        here.bot(discord__faces="webhook") as service,
    ):
        await move_in(here, service, "pixi", "edda")
        await here.ask("pixi, edda: who are you?")

        await here.discord.wait_for(lambda: len(shown(here)) == 2)
        assert sorted(shown(here)) == [("Edda", "I am Edda"), ("Pixi", "I am Pixi")]


async def test_one_is_addressed_by_the_other_and_answers(tmp_path: Path) -> None:
    async with (
        scene(
            tmp_path, by_persona("[SEND: Edda, ask him yourself]", "[SEND: I will]"), personas=BOTH
        ) as here,
        here.bot(discord__faces="webhook") as service,
    ):
        await move_in(here, service, "pixi", "edda")
        await here.room.say(here.mo, "pixi, what shall we eat?")

        await here.said("Edda, ask him yourself", "I will")
        assert shown(here) == [("Pixi", "Edda, ask him yourself"), ("Edda", "I will")]
        assert "what shall we eat?" in here.heard()  # overheard
        assert '"Pixi"' in here.heard()
        assert "a bot" in here.heard()


async def test_a_reply_to_one_of_them_is_for_that_one(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, by_persona("[SEND: I am Pixi]", "[SEND: I am Edda]"), personas=BOTH) as here,
        here.bot(discord__faces="webhook") as service,
    ):
        await move_in(here, service, "pixi", "edda")
        await here.room.say(here.mo, "edda?")
        await here.said("I am Edda")
        await here.room.say(here.mo, "really?", reply_to=here.posted("I am Edda"))

        await here.said("I am Edda", "I am Edda")
        await here.ask("and you?")  # the bot itself: the first one
        await here.said("I am Edda", "I am Edda", "I am Pixi")


async def test_their_faces_and_who_said_what_are_known_after_a_restart(tmp_path: Path) -> None:
    script = by_persona("[SEND: I am Pixi]", "[SEND: I am Edda]")
    async with scene(tmp_path, script, personas=BOTH) as here:
        async with here.bot(discord__faces="webhook") as service:
            await move_in(here, service, "pixi", "edda")
            await here.room.say(here.mo, "edda?")
            await here.said("I am Edda")
        async with here.bot(discord__faces="webhook") as service:
            await here.room.say(here.mo, "really?", reply_to=here.posted("I am Edda"))
            await here.said("I am Edda", "I am Edda")
            await here.answered(service, 2)
        assert len(here.discord.world.webhooks) == 1


async def test_a_talk_among_themselves_ends_with_the_budget_and_goes_on_when_a_human_speaks(
    tmp_path: Path,
) -> None:
    async with (
        scene(tmp_path, by_persona("[SEND: Edda, no]", "[SEND: Pixi, yes]"), personas=BOTH) as here,
        here.bot(discord__faces="webhook", discord__bot_turns=4) as service,
    ):
        await move_in(here, service, "pixi", "edda")
        await here.room.say(here.mo, "pixi, begin")
        talk = ["Edda, no", "Pixi, yes"]
        await here.said(*(talk * 3)[:5])  # one for the human, and four of the budget
        await here.answered(service, 5)
        await here.discord.idle()
        await here.said(*(talk * 3)[:5])

        await here.room.say(here.mo, "edda, go on")
        await here.answered(service, 10)
        assert len(here.posts()) == 10


async def test_what_one_says_as_the_bot_is_never_taken_for_another(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, by_persona("[SEND: Edda, no]", "[SEND: Pixi, yes]"), personas=BOTH) as here,
        here.bot(discord__bots=True) as service,
    ):
        await move_in(here, service, "pixi", "edda")
        await here.room.say(here.mo, "pixi, begin")
        await here.said("Edda, no")
        await here.answered(service, 1)

        await here.room.say(here.mo, "what?", reply_to=here.posted("Edda, no"))
        await here.said("Edda, no", "Edda, no")  # the record knows who said it
        await here.answered(service, 2)


async def test_who_was_chosen_for_a_channel_speaks_there_and_nowhere_else(tmp_path: Path) -> None:
    async with scene(tmp_path, by_persona("[SEND: I am Pixi]", "[SEND: I am Edda]"), personas=BOTH) as here:
        other = here.guild.channel("other")
        async with here.bot() as service:
            await move_in(here, service, "edda")
            await here.ask()
            await here.said("I am Edda")
            await here.ask(room=other)
            await here.said("I am Pixi", room=other)

        async with here.bot():  # and after a start
            await here.ask("again")
            await here.said("I am Edda", "I am Edda")


async def test_in_a_thread_the_webhook_of_the_channel_speaks(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]", personas=BOTH) as here:
        thread = here.guild.thread(here.room, "Pans")
        async with here.bot(discord__faces="webhook"):
            await here.ask(room=thread)
            await here.said("hello", room=thread)
            assert thread.messages[-1].shown == "Pixi"
            assert thread.messages[-1].webhook is not None


async def test_nobody_is_pinged_by_a_webhook_and_it_points_by_a_line(tmp_path: Path) -> None:
    gate = asyncio.Event()
    reply: Script = [Until(gate), "[SEND: @everyone hello]"]
    async with scene(tmp_path, reply) as here, here.bot(discord__faces="webhook"):
        asked = await here.ask()
        await until(lambda: here.asked)
        await here.room.say(here.discord.person("Ana"), "by the way")
        await here.discord.idle()
        gate.set()

        await here.discord.wait_for(here.posts)
        (message,) = (each for each in here.room.messages if each.webhook)
        assert message.pinged == frozenset()
        assert message.content.endswith("\n@\u200beveryone hello")
        assert f"/{asked.id}\n" in message.content


async def test_without_the_right_to_webhooks_they_speak_as_the_bot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    may = Permission(BOT_MAY & ~Permission.MANAGE_WEBHOOKS)
    async with (
        scene(tmp_path, "[SEND: hello]", personas=BOTH, bot_may=may) as here,
        here.bot(discord__faces="webhook"),
    ):
        await here.ask()
        await here.said("hello")
        await here.ask("again")
        await here.said("hello", "hello")
        assert all(each.author is here.discord.bot for each in here.room.messages if each.author.bot)

    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "Manage Webhooks" in lines[0]
    assert "#general" in lines[0]


async def test_a_bot_wears_its_persona_in_every_server(tmp_path: Path) -> None:
    picture = BytesIO()
    Pillow.new("RGB", (32, 32), "orange").save(picture, "PNG")
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "edda.png").write_bytes(picture.getvalue())
    edda = EDDA.replace("name: Edda", "name: Edda\navatar: edda.png")
    async with scene(tmp_path, "[SEND: hello]", personas={"edda": edda}) as here:
        guilds = [here.guild, here.discord.guild("Crêperie")]
        async with here.bot(persona__default="edda", discord__faces="profile"):
            await here.discord.wait_for(lambda: all(each.bot_member.avatar for each in guilds))
            assert [each.bot_member.nick for each in guilds] == ["Edda", "Edda"]
            await here.ask()
            await here.said("hello")
            assert here.room.messages[-1].author is here.discord.bot
