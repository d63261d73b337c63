"""Slash commands of a whole bot: what they tell and change, with a store and a model behind them."""

import asyncio
import json
from pathlib import Path

from pixi.testing.discord import Interaction, Permission
from tests.end_to_end.bot import EDDA, PERSONA, Scene, scene
from tests.servers.scripted_openai import Hang, Until

BOTH = {"pixi": PERSONA, "edda": EDDA}


async def registered(here: Scene) -> None:
    await here.discord.wait_for(lambda: len(here.discord.commands) == 11)


def box(begun: Interaction) -> str:
    """What the box of an answer shows, as text."""
    assert begun.original is not None
    return json.dumps(begun.original.embeds, ensure_ascii=False)


async def test_what_is_behind_a_message_is_told_where_it_stands(tmp_path: Path) -> None:
    async with scene(tmp_path, "[NOTE: keep it short]\n[SEND: a cloud]") as here, here.bot() as service:
        await registered(here)
        await here.ask("what is fog?")
        await here.said("a cloud")
        await here.answered(service, 1)

        begun = await here.discord.message_menu(here.mo, here.posted("a cloud"), "Why?")
        await begun.answered()
        assert begun.ephemeral
        for part in ("> keep it short", "messages: 1", "scripted", "100 read", f"<@{here.mo.id}>"):
            assert part in box(begun)

        other = here.guild.channel("other")
        link = f"https://discord.com/channels/{here.guild.id}/{here.room.id}/{here.posted('a cloud').id}"
        begun = await here.discord.slash(here.mo, other, "why", {"message": link})
        assert await begun.answered() == "That message is in another channel. Ask there."


async def test_thoughts_are_told_where_they_were_thought(tmp_path: Path) -> None:
    async with scene(tmp_path, "[NOTE: hm]\n[SEND: hello]") as here, here.bot() as service:
        await registered(here)
        await here.ask()
        await here.answered(service, 1)
        begun = await here.discord.slash(here.mo, here.room, "notes")
        await begun.answered()
        assert "> hm" in box(begun)

        begun = await here.discord.slash(here.mo, here.guild.channel("other"), "notes")
        assert await begun.answered() == "There are no thoughts yet about what was said here."


async def test_a_conversation_that_was_reset_is_forgotten(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: sure]") as here, here.bot() as service:
        await registered(here)
        await here.ask("I like crêpes")
        await here.answered(service, 1)
        boss = here.discord.person("Boss", permissions=Permission.MANAGE_MESSAGES)
        begun = await here.discord.slash(boss, here.room, "reset")
        await begun.answered()
        message = here.posted("sure")

        begun = await here.discord.message_menu(here.mo, message, "Why?")
        assert await begun.answered() == "That message is not one of mine, or it was forgotten."
        await here.ask("what do I like?")
        await here.answered(service, 2)
        assert [line["role"] for line in here.prompt()].count("user") == 1


async def test_who_was_chosen_answers_and_stays_after_a_restart(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]", personas=BOTH) as here:
        boss = here.discord.person("Boss", permissions=Permission.MANAGE_GUILD)
        async with here.bot() as service:
            await registered(here)
            begun = await here.discord.slash(boss, here.room, "persona", {"name": "edda"})
            assert await begun.answered() == "**Edda** speaks here from now on."
            await here.ask()
            await here.answered(service, 1)
            assert "You are Edda." in here.whole()
        async with here.bot() as service:
            await here.ask()
            await here.answered(service, 2)
            assert "You are Edda." in here.whole()
        assert len(here.discord.asked("PUT", r"/commands$")) == 1


async def test_a_channel_that_became_home_is_answered_without_a_call(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here, here.bot():
        await registered(here)
        boss = here.discord.person("Boss", permissions=Permission.MANAGE_GUILD)
        begun = await here.discord.slash(boss, here.room, "persona", {"home": True})
        told = await begun.answered()
        await here.room.say(here.mo, "good morning")
        await here.said(told, "hello")


async def test_a_reply_can_be_stopped(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with scene(tmp_path, ["[SEND: one]\n", Until(gate), Hang()]) as here, here.bot() as service:
        await registered(here)
        await here.ask()
        await here.said("one")
        begun = await here.discord.slash(here.mo, here.room, "stop")
        assert await begun.answered() == "Stopped."
        await service.engine.settled()
        assert here.posts() == ["one"]
        begun = await here.discord.slash(here.mo, here.room, "stop")
        assert await begun.answered() == "Nothing is being written here."
        gate.set()


async def test_a_person_is_given_what_is_kept_and_then_forgotten(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: noted]") as here, here.bot() as service:
        await registered(here)
        await here.ask("my cat is called Waffle")
        await here.answered(service, 1)
        begun = await here.discord.slash(here.mo, here.room, "export me")
        await begun.answered()
        assert begun.original is not None
        (file,) = begun.original.attachments
        assert "Waffle" in file.data.decode()
        assert begun.ephemeral

        begun = await here.discord.slash(here.mo, here.room, "forget me")
        await begun.answered()
        asked = begun.original
        assert asked is not None
        await here.discord.press(here.mo, asked, asked.components[0]["components"][0]["custom_id"])
        await here.discord.wait_for(lambda: "1" in asked.content)
        assert asked.content == "You are forgotten. Conversations that changed: 1"

        await here.ask("what is my cat called?", by=here.discord.person("Lia"))
        await here.answered(service, 2)
        assert "Waffle" not in here.whole()
        begun = await here.discord.slash(here.mo, here.room, "export me")
        await begun.answered()
        assert begun.original is not None
        assert "Waffle" not in begun.original.attachments[0].data.decode()


async def test_status_counts_what_was_written(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here, here.bot(discord__admins=[here.mo.id]) as service:
        await registered(here)
        await here.ask()
        await here.answered(service, 1)
        begun = await here.discord.slash(here.mo, here.room, "status")
        await begun.answered()
        assert "turns: 1" in box(begun)
        assert "100 read" in box(begun)
