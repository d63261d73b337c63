"""When people see somebody typing, how fast messages follow each other, and who does not wait for that."""

import asyncio
import time
from pathlib import Path

from tests.end_to_end.bot import PERSONA, Script, scene
from tests.servers.scripted_openai import Tell, Until, Wait, call, chunk, finish, stream, usage

HUMAN = PERSONA.replace("pace: off", "pace: human")


async def test_typing_is_shown_while_a_message_is_written_and_at_no_other_time(tmp_path: Path) -> None:
    reacted, writing, done, end = (asyncio.Event() for _ in range(4))
    reply: Script = [
        *("[NOTE: hm]\n[REACT: 🥞]\n", Until(reacted)),
        *("[SEND: he", Until(writing), "llo]\n", Until(done)),
        *("[NOTE: so]", Until(end)),
    ]
    async with scene(tmp_path, reply) as here, here.bot() as house:
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
        await here.answered(house, 1)
        assert len(here.room.typings) == 1


OVEN = """\
import asyncio
from pathlib import Path


def setup(addon):
    @addon.tool
    async def oven(context) -> str:
        \"\"\"Look into the oven.\"\"\"
        while not Path(__file__).with_name("baked").exists():
            await asyncio.sleep(0.005)
        return "golden pancakes"
"""


async def test_typing_is_shown_while_a_tool_runs(tmp_path: Path) -> None:
    calls = stream(call("oven", "{}", index=0, call_id="call_1"), finish("tool_calls"), usage(10, 5))
    persona = PERSONA.replace("pace: off", "pace: off\ntools: [oven]")
    (tmp_path / "oven.py").write_text(OVEN, encoding="utf-8")
    async with (
        scene(tmp_path, calls, "[SEND: they are done]", personas={"pixi": persona}) as here,
        here.bot(addons=[str(tmp_path / "oven.py")]),
    ):
        await here.ask("are they done?")
        await here.discord.wait_for(lambda: here.room.typings)
        assert here.posts() == []
        (tmp_path / "baked").touch()
        await here.said("they are done")
        assert "golden pancakes" in here.whole()


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


async def test_a_human_pace_holds_messages_and_not_the_stream(tmp_path: Path) -> None:
    read = asyncio.Event()
    # Two megabytes, more than a connection holds: they are gone only when the bot reads while it waits.
    flood = [chunk({"reasoning_content": "z" * 8_000})] * 250
    reply = stream("[SEND: hi there]\n[SEND: you]\n[NOTE: a]", *flood, Tell(read), finish(), usage(10, 5))
    async with scene(tmp_path, reply, personas={"pixi": HUMAN}) as here, here.bot():
        await here.ask()
        await asyncio.wait_for(read.wait(), 5)
        assert here.posts() == []

        await here.said("hi there", "you")
        first, second = (here.posted(text).at for text in ("hi there", "you"))
        assert second - first > 0.4  # 0.3 s for the beginning, and three letters
        assert len(here.room.typings) >= 2


async def test_the_time_that_a_model_took_to_write_is_not_waited_again(tmp_path: Path) -> None:
    closed = asyncio.Event()
    reply: Script = ["[SEND: twelve chars", Wait(1.3), Tell(closed), "]", Until(asyncio.Event())]
    async with scene(tmp_path, reply, personas={"pixi": HUMAN}) as here, here.bot():
        await here.ask()
        await closed.wait()
        at = time.monotonic()
        await here.said("twelve chars")
        assert here.posted("twelve chars").at - at < 0.8  # somebody who types it needs 1.3 s


async def test_a_question_that_comes_while_the_answer_is_typed_is_answered_along(tmp_path: Path) -> None:
    long = "[SEND: a message of so many letters that nobody types it in less than eight seconds]"
    async with scene(tmp_path, long, "[SEND: ok]", personas={"pixi": HUMAN}) as here, here.bot() as house:
        await here.ask("first question")
        await here.discord.wait_for(lambda: here.room.typings)
        await here.ask("second question")

        await here.said("ok")
        await here.answered(house, 2)
        assert "first question" in here.heard()
        assert "second question" in here.heard()


async def test_what_is_typed_for_a_question_that_is_deleted_is_never_posted(tmp_path: Path) -> None:
    long = "[SEND: a message of so many letters that nobody types it in less than eight seconds]"
    async with scene(tmp_path, long, "[SEND: ok]", personas={"pixi": HUMAN}) as here, here.bot() as house:
        asked = await here.ask("a secret")
        await here.discord.wait_for(lambda: here.room.typings)
        await asked.delete()
        await house.engine.settled()
        await here.ask("anything else?")

        await here.said("ok")
        assert "secret" not in here.whole()


async def test_who_leaves_posts_at_once_what_is_typed_and_no_more(tmp_path: Path) -> None:
    long = "a message of so many letters that nobody types it in less than eight seconds"
    reply = f"[SEND: {long}]\n[SEND: and another]"
    async with scene(tmp_path, reply, "[SEND: ok]", personas={"pixi": HUMAN}) as here:
        async with here.bot():
            await here.ask()
            await here.discord.wait_for(lambda: here.room.typings)
            began = time.monotonic()
        assert time.monotonic() - began < 6.0
        assert here.posts() == [long]

        async with here.bot():
            await here.ask("go on")
            await here.said(long, "ok")
            assert here.prompt()[-2]["content"] == f"[SEND: {long}]"


async def test_the_operator_may_set_one_pace_for_all(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "[SEND: a message of many letters]\n" * 3, personas={"pixi": HUMAN}) as here,
        here.bot(reply__pace="off"),
    ):
        asked = await here.ask()
        await here.said(*["a message of many letters"] * 3)
        assert here.room.messages[-1].at - asked.at < 3.0  # typed, they take seven seconds


async def test_while_one_is_being_typed_another_channel_is_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hi there]", personas={"pixi": HUMAN}) as here:
        rooms = [here.guild.channel(f"room {number}") for number in range(5)]
        async with here.bot():
            began = time.monotonic()
            for room in rooms:
                await here.ask(room=room)
            for room in rooms:
                await here.said("hi there", room=room)
            assert time.monotonic() - began < 3.0  # a second each, side by side
