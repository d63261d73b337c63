"""The whole bot on a server that only speaks like Discord, and leaves out what Discord never does."""

import asyncio
from pathlib import Path

import discord.utils
import pytest

from pixi.channels.discord import requests
from tests.end_to_end.bot import EDDA, PERSONA, Script, scene
from tests.servers.scripted_openai import Until
from tests.waiting import until


class ZstdStream:
    """What discord.py chooses where zstd is installed: one stream, which never begins again."""

    COMPRESSION_TYPE = "zstd-stream"

    def decompress(self, data: bytes, /) -> str:
        """A stream that was begun twice."""
        raise ValueError("the frame ended")


@pytest.fixture(autouse=True)
def _zstd_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord.utils, "_ActiveDecompressionContext", ZstdStream)


@pytest.fixture
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_FIRST_PAUSE", 0.0)


async def test_a_talk_with_replies_edits_reactions_and_what_was_missed(tmp_path: Path) -> None:
    gate = asyncio.Event()
    scripts: tuple[Script, ...] = (
        "[SEND: one]",
        [Until(gate), "[SEND: never]"],
        "[SEND: two]",
        "[SEND: three]",
    )
    async with scene(tmp_path, *scripts, lean=True) as here:
        async with here.bot():
            cat = await here.room.say(here.mo, "a picture of a cat")
            await cat.react(here.mo, "👍")
            await here.room.say(here.mo, f"{here.at} what is that?", reply_to=cat)
            await here.said("one")
            assert "a picture of a cat" in here.heard()

            asked = await here.ask("pancakes")
            await until(lambda: len(here.asked) == 2, "the question is asked")
            await asked.edit(f"{here.at} waffles")
            await here.said("one", "two")
            assert "waffles" in here.heard()
            assert "pancakes" not in here.heard()
        missed = await here.ask("are you back?")
        await missed.react(here.mo, "👍")
        async with here.bot():
            await here.said("one", "two", "three")


async def test_nobody_is_pinged_but_who_is_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: x]", lean=True) as here, here.bot():
        ana = here.discord.person("Ana")
        role = here.guild.role("cooks", mentionable=True)
        here.scripts[:] = [f"[SEND: @everyone @here {ana.mention} {role.mention} `@everyone` @Mo]"]
        await here.ask()
        await here.discord.wait_for(here.posts)
        (said,) = (each for each in here.room.messages if each.author is here.discord.bot)
        assert said.pinged == {here.mo.id}
        assert said.content.replace("\u200b", "").startswith(f"@everyone @here {ana.mention} {role.mention}")


@pytest.mark.usefixtures("_no_waits")
async def test_a_webhook_that_posts_nothing_gives_way_to_the_bot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    personas = {"pixi": PERSONA, "edda": EDDA}
    async with (
        scene(tmp_path, "[SEND: one]\n[SEND: two]", personas=personas, lean=True) as here,
        here.bot(discord__faces="webhook"),
    ):
        await here.ask()
        await here.said("one", "two")
        assert all(each.webhook is None for each in here.room.messages)
        told = [record for record in caplog.records if "no webhook in" in record.getMessage()]
        assert len(told) == 1


async def test_slash_commands_are_registered_as_far_as_they_are_taken(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: one]", lean=True) as here, here.bot():
        await here.discord.wait_for(lambda: here.discord.commands)
        commands = {command.name: command.body for command in here.discord.commands}
        assert {"reset", "persona", "why", "help"} <= set(commands)
        assert int(commands["reset"]["default_member_permissions"]) == 1 << 13
        assert [choice["value"] for choice in commands["persona"]["options"][1]["choices"]]
