"""What becomes of turns on Discord when people, models and connections do not take turns."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from pixi.store.kept import ChannelConfig
from tests.end_to_end.bot import EDDA, PERSONA, Script, leaves, scene
from tests.servers.scripted_openai import Hang, Reset, Until, error, finish, stream
from tests.waiting import until

# More than one message.


async def test_two_quick_messages_get_one_reply(tmp_path: Path) -> None:
    async with scene(tmp_path, [Hang()], "[SEND: to both]") as here, here.bot() as service:
        await here.ask("first question")
        await until(lambda: here.asked)
        await here.ask("second question")

        await here.said("to both")
        await here.answered(service, 2)
        await leaves(here.asked[0])
        assert "first question" in here.heard()
        assert "second question" in here.heard()


async def test_gathered_messages_cost_one_request(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: to both]") as here, here.bot(reply__gather_seconds=0.2) as service:
        await here.ask("first question")
        await here.ask("second question")

        await here.said("to both")
        await here.answered(service, 1)
        assert here.heard().index("first question") < here.heard().index("second question")


async def test_a_message_after_something_was_seen_is_answered_next(tmp_path: Path) -> None:
    gate = asyncio.Event()
    begun: Script = ["[SEND: one]\n[SEND: tw", Until(gate), "o]\n[SEND: three]", Hang()]
    async with scene(tmp_path, begun, "[SEND: four]") as here, here.bot() as service:
        await here.ask("a long story")
        await here.said("one")
        # The second message is being typed: people see it coming.
        await here.discord.wait_for(
            lambda: any(each.at > here.posted("one").at for each in here.room.typings)
        )
        await here.ask("stop, what about this?")
        await here.discord.idle()
        gate.set()

        await here.said("one", "two", "four")
        await here.answered(service, 2)
        await leaves(here.asked[0])
        assert here.prompt()[-2]["content"] == "[SEND: one]\n[SEND: two]"  # as delivered
        assert "three" not in here.whole()
        assert "what about this" in here.heard()


async def test_a_question_that_is_deleted_while_it_waits_is_not_answered(tmp_path: Path) -> None:
    gate = asyncio.Event()
    begun: Script = ["[SEND: one]\n[SEND: tw", Until(gate), "o]"]
    async with scene(tmp_path, begun, "[SEND: three]") as here, here.bot() as service:
        await here.ask("a long story")
        await here.said("one")
        await here.discord.wait_for(
            lambda: any(each.at > here.posted("one").at for each in here.room.typings)
        )
        await (await here.ask("a secret")).delete()
        await here.discord.idle()
        gate.set()
        await here.said("one", "two")
        await here.answered(service, 1)

        await here.ask("and now?")
        await here.said("one", "two", "three")
        assert "secret" not in here.whole()


async def test_of_two_questions_the_one_that_is_deleted_is_not_answered(tmp_path: Path) -> None:
    async with scene(tmp_path, [Hang()], [Hang()], "[SEND: ok]") as here, here.bot() as service:
        await here.ask("first question")
        await until(lambda: here.asked)
        second = await here.ask("second question")
        await until(lambda: len(here.asked) == 2)
        await second.delete()

        await here.said("ok")
        await here.answered(service, 3)
        assert "first question" in here.heard()
        assert "second question" not in here.whole()


async def test_who_was_chosen_during_a_reply_speaks_from_the_next_one_on(tmp_path: Path) -> None:
    gate = asyncio.Event()
    begun: Script = ["[SEND: one]\n", Until(gate), "[SEND: two]"]
    personas = {"pixi": PERSONA, "edda": EDDA}
    async with scene(tmp_path, begun, "[SEND: Edda here]", personas=personas) as here, here.bot() as service:
        await here.ask()
        await here.said("one")
        await service.set_place(here.address(persona=""), ChannelConfig(personas=("edda",)))
        gate.set()
        await here.said("one", "two")

        await here.ask("who are you?")
        await here.said("one", "two", "Edda here")
        assert "You are Edda." in here.whole()
        assert "[SEND: one]" not in here.whole()  # each has a talk of its own


async def test_two_channels_of_a_server_are_answered_side_by_side(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with scene(tmp_path, [Until(gate), "[SEND: to general]"], "[SEND: to other]") as here:
        other = here.guild.channel("other")
        async with here.bot():
            await here.ask("the general question")
            await until(lambda: here.asked)
            await here.ask("the other question", room=other)

            await here.said("to other", room=other)
            assert here.posts() == []
            assert "general question" not in here.whole()
            gate.set()
            await here.said("to general")


async def test_a_question_is_answered_where_it_was_asked_and_remembered_there(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: sure]") as here:
        other = here.guild.channel("other")
        async with here.bot():
            await here.ask("I like crêpes")
            await here.said("sure")
            await here.ask("what do I like?", room=other)
            await here.said("sure", room=other)
            assert "crêpes" not in here.whole()

            await here.ask("what do I like?")
            await here.said("sure", "sure")
            assert "crêpes" in here.whole()


# What breaks.


async def test_a_stream_that_breaks_after_a_message_says_it_once_and_nothing_else(tmp_path: Path) -> None:
    broken = stream("[SEND: one]\n", Reset(), end=False, done=False)
    async with scene(tmp_path, broken, "[SEND: two]") as here, here.bot() as service:
        await here.ask()
        await here.said("one")
        await here.answered(service, 1)

        await here.ask("go on")
        await here.said("one", "two")
        assert here.prompt()[-2]["content"] == "[SEND: one]"


async def test_a_dead_model_is_told_of_in_character_and_the_operator_learns_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dead = error(401, "Incorrect API key provided: sk-canary")
    async with (
        scene(tmp_path, dead, "[SEND: hello]") as here,
        here.bot(model__api_key="sk-canary") as service,
    ):
        await here.ask()
        await here.said("oops, my head")
        await here.answered(service, 1)

        await here.ask("again?")
        await here.said("oops, my head", "hello")

    lines = [record.getMessage() for record in caplog.records if record.name == "pixi.discord"]
    assert len([line for line in lines if "#general of 'Pancake House'" in line and "key" in line]) == 1
    assert "canary" not in caplog.text


async def test_what_cannot_be_put_on_record_is_not_said_and_the_operator_learns_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.store.sqlite.schema.LOCK_SECONDS", 0.1)
    gate = asyncio.Event()
    begun: Script = ["[SEND: one]\n", Until(gate), "[SEND: two]"]
    async with scene(tmp_path, begun, "[SEND: three]") as here, here.bot() as service:
        await here.ask()
        await here.said("one")
        other = sqlite3.connect(tmp_path / "pixi.db")
        try:
            await until(lambda: locked(other))
            gate.set()
            await until(lambda: any("pixi.db" in line for line in caplog.messages))
        finally:
            other.close()
        await service.engine.settled()
        await here.ask("are you well?")

        await here.said("one", "three")
        assert here.prompt()[-2]["content"] == "[SEND: one]"


def locked(database: sqlite3.Connection) -> bool:
    """Take the database for oneself, as soon as nobody writes."""
    try:
        database.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        return False
    return True


async def test_a_server_that_is_busy_is_asked_again_and_people_notice_nothing(tmp_path: Path) -> None:
    busy = error(429, "slow down", retry_after="0")
    async with scene(tmp_path, busy, "[SEND: hello]") as here, here.bot():
        await here.ask()
        await here.said("hello")
        assert len(here.asked) == 2


# What models write.


async def test_silence_is_one_request_and_no_message(tmp_path: Path) -> None:
    replies = ("", "[NOTE: not for me]", "[SEND]", "[ SEND ]", "<think>hm</think>")
    async with scene(tmp_path, *replies) as here, here.bot() as service:
        for number in range(len(replies)):
            asked = await here.ask()
            await here.answered(service, number + 1)
            assert here.posts() == []
            assert here.room.typings == []
            assert asked.reactions == {}


async def test_a_message_that_the_token_limit_cut_is_posted(tmp_path: Path) -> None:
    cut = stream("[SEND: one]\n[SEND: and then we", finish("length"))
    async with scene(tmp_path, cut) as here, here.bot():
        await here.ask()
        await here.said("one", "and then we")


async def test_nobody_is_pinged_by_what_a_model_writes(tmp_path: Path) -> None:
    async with scene(tmp_path, "") as here:
        ana, role = here.discord.person("Ana"), here.guild.role("mods", mentionable=True)
        texts = ["@everyone", "@here", f"<@{ana.id}>", f"<@&{role.id}>"]
        here.scripts[:] = ["".join(f"[SEND: {text} hey]" for text in texts)]
        async with here.bot():
            await here.ask()
            await here.said(*(f"{text} hey".replace("@", "@\u200b") for text in texts))

        assert [each.pinged for each in here.room.messages[1:]] == [frozenset()] * 4


async def test_words_stay_whole_on_their_way_in_and_out(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: !pizza, pizza pi!]") as here, here.bot() as service:
        await here.room.say(here.mo, "I love pixiv and !pixie")
        await here.room.say(here.mo, "!pixi, do you want !pizza?")

        await here.said("!pizza, pizza pi!")
        await here.answered(service, 1)
        assert "> !pixi, do you want !pizza?" in here.heard()


# What operators and people do in between.


async def test_a_reset_during_a_reply_leaves_nothing(tmp_path: Path) -> None:
    begun: Script = ["[SEND: one]\n", Hang()]
    async with scene(tmp_path, begun, "[SEND: fresh]") as here, here.bot() as service:
        await here.ask("remember crêpes")
        await here.said("one")

        await service.engine.reset(here.address())
        await leaves(here.asked[0])
        await here.ask("who are you?")

        await here.said("one", "fresh")
        assert "crêpes" not in here.whole()
        assert "one" not in [line["content"] for line in here.prompt()]
        assert not [line for line in here.prompt() if line["role"] == "assistant"]


async def test_a_stop_ends_the_reply_and_what_was_said_stands(tmp_path: Path) -> None:
    begun: Script = ["[SEND: one]\n[SEND: tw", Hang()]
    async with scene(tmp_path, begun, "[SEND: yes?]") as here, here.bot() as service:
        await here.ask()
        await here.said("one")

        assert await service.engine.stop(here.address())
        await leaves(here.asked[0])
        await here.ask("hello?")

        await here.said("one", "yes?")
        assert here.prompt()[-2]["content"] == "[SEND: one]"


# The gateway.


async def test_an_event_that_comes_twice_is_answered_once(tmp_path: Path) -> None:
    async with scene(tmp_path, "[SEND: hello]") as here, here.bot() as service:
        await here.ask()
        here.discord.replay()  # while it is being answered
        await here.said("hello")
        here.discord.replay(2)  # and afterwards: the question, and what was said to it

        await here.ask("another")
        await here.said("hello", "hello")
        await here.answered(service, 2)


# Bots.


async def test_two_bots_that_answer_each_other_stop_until_a_human_speaks(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "[SEND: and you?]") as here,
        here.bot(discord__bots=True, discord__bot_turns=3) as service,
    ):
        robot = here.discord.person("Robot", bot=True)
        for number in range(1, 4):
            await here.ask(f"beep {number}", by=robot)
            await here.said(*["and you?"] * number)
        await here.ask("beep 4", by=robot)
        await here.ask("what is going on?")
        await here.said(*["and you?"] * 4)
        assert "beep 4" in here.heard()  # overheard

        await here.ask("beep 5", by=robot)
        await here.said(*["and you?"] * 5)
        await here.answered(service, 5)
