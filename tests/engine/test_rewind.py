"""Rewinding a conversation that is alive."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pixi.core.errors import LeaseHeld
from pixi.core.message import Message
from pixi.store.sqlite import SqliteStore
from pixi.testing import ScriptedModel
from tests.engine.scene import scene
from tests.waiting import until


async def test_what_was_taken_out_is_not_shown_to_the_model_any_more() -> None:
    async with scene(ScriptedModel("[SEND: one]", "[SEND: two]", "[SEND: three]")) as here:
        await here.talk("hi", "more")
        (*_, last) = await here.engine.turns(here.channel.conversation, 10)
        await here.engine.rewind(here.channel.conversation, last.id)
        await here.talk("else")
        assert here.replies() == ["[SEND: one]"]
        assert "more" not in str(here.history())


async def test_a_reply_that_is_being_written_is_stopped_and_taken_out() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel("[SEND: one]", ["[SEND: two]", never], "[SEND: three]")) as here:
        await here.talk("hi")
        await here.say("more")
        await until(lambda: here.channel.sent == ["one", "two"])
        await here.engine.rewind(here.channel.conversation, here.channel.begun[-1].turn)
        await here.talk("else")
        assert here.replies() == ["[SEND: one]"]
        assert here.channel.sent == ["one", "two", "three"]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_the_last_messages_are_taken_back_with_their_answer_one_time_after_the_other() -> None:
    async with scene(ScriptedModel("[NOTE: hm][SEND: one]", "[SEND: two]", "[SEND: three]")) as here:
        talk = here.channel.conversation
        assert texts(await here.engine.take_back(talk)) == []
        await here.talk("hi", "more")
        assert texts(await here.engine.last_asked(talk)) == ["more"]
        assert texts(await here.engine.take_back(talk)) == ["more"]
        (first,) = await here.engine.take_back(talk)
        assert first.text == "hi"
        assert texts(await here.engine.take_back(talk)) == []
        await here.talk("else")
        assert len(here.history()) == 1
        kept = str(await here.engine.export(first.author.id))
        for word in ("hi", "hm", "one", "more", "two"):
            assert word in kept
        assert (await here.engine.bill()).today.messages == 3


async def test_what_one_turn_answered_is_taken_back_together() -> None:
    async with scene(ScriptedModel("[SEND: both]"), gather_seconds=0.05) as here:
        await here.say("one")
        await here.say("two")
        await here.engine.settled()
        assert texts(await here.engine.take_back(here.channel.conversation)) == ["one", "two"]


async def test_what_is_being_answered_is_taken_back_and_the_reply_stopped() -> None:
    never = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: one]", never], "[SEND: two]")) as here:
        await here.say("hi")
        await until(lambda: here.channel.sent == ["one"])
        assert texts(await here.engine.last_asked(here.channel.conversation)) == ["hi"]
        assert texts(await here.engine.take_back(here.channel.conversation)) == ["hi"]
        await here.talk("else")
        assert len(here.history()) == 1
        assert here.channel.sent == ["one", "two"]


async def test_what_waits_is_taken_back_before_what_was_answered(store: SqliteStore) -> None:
    """Nobody has answered it: it is withdrawn, and what came before stays."""
    async with scene(ScriptedModel("[SEND: one]", "[SEND: two]"), store=store) as here:
        talk = here.channel.conversation
        await here.talk("hi")
        await store.receive(here.channel.message("late"))  # as by a process that has ended
        assert texts(await here.engine.take_back(talk)) == ["late"]
        assert await here.engine.waiting(talk) == ()
        assert texts(await here.engine.take_back(talk)) == ["hi"]


async def test_a_talk_that_is_answered_elsewhere_is_left_alone(tmp_path: Path) -> None:
    path, never = str(tmp_path / "pixi.db"), asyncio.Event()
    here_store, there_store = await SqliteStore.open(path), await SqliteStore.open(path)
    async with (
        scene(ScriptedModel(["[SEND: one]", never]), store=there_store) as there,
        scene(ScriptedModel(), store=here_store) as here,
    ):
        await there.say("hi")
        await until(lambda: there.channel.sent == ["one"])
        with pytest.raises(LeaseHeld):
            await here.engine.take_back(there.channel.conversation)
        await there.engine.stop(there.channel.conversation)
        (turn,) = await there.engine.turns(there.channel.conversation, 9)
        assert turn.finish == "cancelled"
    await here_store.close()
    await there_store.close()
