"""Rewinding a conversation that is alive."""

import asyncio

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
