"""Talks on Discord, over real sockets from the message to the reply."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.end_to_end.bot import Script, scene
from tests.servers.scripted_openai import Until


async def test_who_mentions_the_bot_gets_several_messages_and_a_reaction(tmp_path: Path) -> None:
    async with scene(tmp_path, "[NOTE: aw][REACT: 🥞]\n[SEND: hey!]\n[SEND: pancakes?]") as here, here.bot():
        asked = await here.room.say(here.mo, f"{here.discord.bot.mention} hi")

        await here.said("hey!", "pancakes?")
        assert list(asked.reactions) == ["🥞"]
        assert "hi" in here.heard()
        assert f"id {here.mo.id}" in here.heard()


@pytest.mark.parametrize("kind", ["text", "voice", "news"])
async def test_every_kind_of_channel_where_people_write_is_answered_in(tmp_path: Path, kind: str) -> None:
    async with scene(tmp_path, "[SEND: hey!]") as here:
        room = here.guild.channel("there", kind)
        async with here.bot():
            await here.ask(room=room)
            await here.said("hey!", room=room)


async def test_a_channel_that_is_made_while_the_bot_runs_is_answered_in(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hey!]") as here, here.bot():
        room = here.guild.channel("new")
        await here.ask(room=room)
        await here.said("hey!", room=room)

        room = here.discord.guild("New").channel()
        await here.ask(room=room)
        await here.said("hey!", room=room)


async def test_a_reply_goes_on_while_the_gateway_is_gone(tmp_path: Path) -> None:
    gate = asyncio.Event()
    reply: Script = ["[SEND: one]", Until(gate), "[SEND: two]"]
    async with scene(tmp_path, reply) as here, here.bot():
        await here.ask()
        await here.said("one")
        here.discord.gateway.settings.closed = True
        here.discord.disconnect()
        await here.discord.wait_for(lambda: not here.discord.gateway.connections)
        gate.set()
        await here.said("one", "two")


async def test_each_turn_is_one_line_for_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pixi.turns")
    async with (
        scene(tmp_path, "[REACT: 🥞]\n[SEND: hey!]\n[SEND: pancakes?]") as here,
        here.bot(model__prices={"prompt": 1.0, "completion": 10.0}) as service,
    ):
        await here.ask("canary")
        await here.said("hey!", "pancakes?")
        await here.answered(service, 1)

        (line,) = (record.getMessage() for record in caplog.records if record.name == "pixi.turns")
        for word in (str(here.mo.id), here.address(), "Pixi", "scripted", "1 step", "100 + 20", "$0.00030"):
            assert word in line
        assert "1 react, 2 send" in line
        assert "first visible after" in line
        assert "canary" not in line


async def test_no_log_holds_a_secret_while_debugging_either(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)  # as with --debug, which leaves discord.py at this level
    caplog.set_level(logging.DEBUG, "pixi")
    async with scene(tmp_path, "[SEND: hey!]") as here:
        async with here.bot(model__api_key="sk-canary-of-the-model", discord__faces="webhook"):
            await here.ask()
            await here.said("hey!")
            here.discord.abort()
            await here.ask("again")
            await here.said("hey!", "hey!")
        secrets = [
            here.discord.token,
            "sk-canary",
            *(hook.token for hook in here.discord.world.webhooks.values()),
        ]
        assert len(secrets) == 3
        for record in caplog.records:
            assert not any(secret in record.getMessage() for secret in secrets), record.name
