"""When people see somebody typing, how fast messages follow each other, and who does not wait for that."""

import asyncio
from pathlib import Path

import pytest

from tests.end_to_end.bot import PERSONA, Script, scene
from tests.servers.scripted_openai import Tell, Until, chunk, finish, stream, usage
from tests.waiting import within

HUMAN = PERSONA.replace("pace: off", "pace: human")


async def test_typing_is_shown_while_a_message_is_written_and_at_no_other_time(tmp_path: Path) -> None:
    reacted, writing, done, end = (asyncio.Event() for _ in range(4))
    reply: Script = [
        *("[NOTE: hm]\n[REACT: 🥞]\n", Until(reacted)),
        *("[SEND: he", Until(writing), "llo]\n", Until(done)),
        *("[NOTE: so]", Until(end)),
    ]
    async with scene(tmp_path, reply) as here, here.bot() as service:
        asked = await here.ask()
        await here.discord.wait_for(lambda: asked.reactions)
        await here.discord.idle()
        assert here.room.typings == []

        reacted.set()
        await here.discord.wait_for(lambda: here.room.typings)
        assert here.posts() == []
        writing.set()
        await here.said("hello")
        done.set()
        await here.discord.idle()
        assert len(here.room.typings) == 1
        end.set()
        await here.answered(service, 1)
        assert len(here.room.typings) == 1


async def test_a_place_where_typing_is_refused_gets_its_answer(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: one]\n[SEND: two]") as here, here.bot():
        here.discord.fail("POST", "/typing$", 500)
        await here.ask()
        await here.said("one", "two")


async def test_a_slow_sign_of_typing_holds_no_message_up(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: one]\n[SEND: two]") as here, here.bot():
        here.discord.slow("POST", "/typing$", 30.0)
        await here.ask()
        await here.said("one", "two")


LONG = "a message of many letters"


@pytest.fixture
def _slow_typist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ever ends typing the long message, where a pace is kept; others take no time."""

    def seconds(text: str, pace: str) -> float:
        return 1_000.0 if text == LONG and pace != "off" else 0.0

    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", seconds)


@pytest.mark.usefixtures("_slow_typist")
async def test_a_human_pace_holds_messages_and_not_the_stream_and_ends_where_the_bot_leaves(
    tmp_path: Path,
) -> None:
    read = asyncio.Event()
    # Two megabytes, more than a connection holds: they are gone only when the bot reads while it waits.
    flood = [chunk({"reasoning_content": "z" * 8_000})] * 250
    reply = stream(f"[SEND: {LONG}]\n[SEND: and another]", *flood, Tell(read), finish(), usage(10, 5))
    async with scene(tmp_path, reply, "[SEND: ok]", personas={"pixi": HUMAN}) as here:
        async with here.bot():
            await here.ask()
            async with within("the bot has read all"):
                await read.wait()
            await here.discord.wait_for(lambda: here.room.typings)
            assert here.posts() == []
        assert here.posts() == [LONG, "and another"]  # both closed before

        async with here.bot():
            await here.ask("go on")
            await here.said(LONG, "and another", "ok")
            assert here.prompt()[-2]["content"] == f"[SEND: {LONG}]\n[SEND: and another]"


@pytest.mark.usefixtures("_slow_typist")
async def test_a_question_that_comes_while_the_answer_is_typed_is_answered_along(tmp_path: Path) -> None:
    scripts = (f"[SEND: {LONG}]", "[SEND: ok]")
    async with scene(tmp_path, *scripts, personas={"pixi": HUMAN}) as here, here.bot() as service:
        await here.ask("first question")
        await here.discord.wait_for(lambda: here.room.typings)
        await here.ask("second question")

        await here.said("ok")
        await here.answered(service, 2)
        assert "first question" in here.heard()
        assert "second question" in here.heard()


@pytest.mark.usefixtures("_slow_typist")
async def test_what_is_typed_for_a_question_that_is_deleted_is_never_posted(tmp_path: Path) -> None:
    scripts = (f"[SEND: {LONG}]", "[SEND: ok]")
    async with scene(tmp_path, *scripts, personas={"pixi": HUMAN}) as here, here.bot() as service:
        asked = await here.ask("a secret")
        await here.discord.wait_for(lambda: here.room.typings)
        await asked.delete()
        await service.engine.settled()
        await here.ask("anything else?")

        await here.said("ok")
        assert "secret" not in here.whole()


@pytest.mark.usefixtures("_slow_typist")
async def test_the_operator_may_set_one_pace_for_all(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, f"[SEND: {LONG}]\n" * 3, personas={"pixi": HUMAN}) as here,
        here.bot(reply__pace="off"),
    ):
        await here.ask()
        await here.said(LONG, LONG, LONG)


@pytest.mark.usefixtures("_slow_typist")
async def test_while_one_is_being_typed_another_channel_is_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, f"[SEND: {LONG}]", "[SEND: ok]", personas={"pixi": HUMAN}) as here:
        another = here.guild.channel("another")
        async with here.bot():
            await here.ask()
            await here.discord.wait_for(lambda: here.room.typings)
            await here.ask(room=another)
            await here.said("ok", room=another)
            assert here.posts() == []
