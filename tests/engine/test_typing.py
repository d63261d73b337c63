"""Typing is shown while a message is being written or a tool runs, and not when nothing is to come."""

import asyncio

import pytest

from pixi.core.language import Thought
from pixi.core.llm import PromptProgress
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.context import Context
from tests.engine.scene import GAMBLER, ROLL, Dice, scene
from tests.held_clock import HeldClock
from tests.waiting import until


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.engine.turn_actions.AGAIN_SECONDS", 0.01)


async def still(channel: RecordingChannel) -> None:
    """See that nothing is asked for any more."""
    before = channel.typed
    await asyncio.sleep(0.05)
    assert channel.typed == before


async def test_it_is_asked_for_again_while_a_message_is_open_and_not_after() -> None:
    go_on, think = asyncio.Event(), asyncio.Event()
    model = ScriptedModel([think, "[NOTE: hm]", "[SEND: a", go_on, "b]", asyncio.Event()])
    async with scene(model) as here:
        message = await here.say("hello")
        await until(lambda: here.model.streaming == 1)
        await still(here.channel)  # nobody knows yet that there is anything to come
        assert here.channel.typed == 0
        think.set()
        await until(lambda: here.channel.typed >= 3)
        go_on.set()
        await until(lambda: here.channel.sent == ["ab"])
        await still(here.channel)
        await here.engine.stop(message.conversation)


async def test_a_message_that_came_whole_needs_none() -> None:
    async with scene(ScriptedModel("[SEND: a]\n[SEND: b]", piece=0)) as here:
        await here.talk("hello")
        assert here.channel.sent == ["a", "b"]
        assert here.channel.typed == 0


async def test_it_is_shown_while_a_message_waits_for_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.engine.turn_actions.typing_seconds", lambda *_: 0.1)
    async with scene(ScriptedModel("[SEND: a]"), channel=RecordingChannel(paced=True)) as here:
        await here.say("hello")
        await until(lambda: here.channel.typed >= 3)
        assert here.channel.sent == []
        await here.engine.settled()
        assert here.channel.sent == ["a"]
        await still(here.channel)


async def test_it_is_shown_while_a_long_prompt_is_read_and_not_a_short_one(clock: HeldClock) -> None:
    model = ScriptedModel([4.0, "[NOTE: hm]"], [PromptProgress(0, 9), 6.0, Thought("hm"), 60.0, "[NOTE: hm]"])
    async with scene(model) as here:
        await here.talk("hello")
        assert here.channel.typed == 0
        await here.say("hello?")
        await until(lambda: here.channel.typed > 0)
        await here.engine.settled()
        assert here.channel.typed < 200, "not while it thinks, and not afterwards"


async def test_it_is_shown_while_a_tool_runs() -> None:
    dice, think = Dice(held=True), asyncio.Event()
    model = ScriptedModel(["[SEND: wait]", ROLL], [think, "[SEND: six]"])
    async with scene(model, persona=GAMBLER, addons=[dice.setup]) as here:
        await here.say("hello")
        await until(lambda: here.channel.sent == ["wait"])
        shown = here.channel.typed
        await until(lambda: here.channel.typed >= shown + 2)
        dice.may.set()
        await until(lambda: len(here.model.requests) == 2)
        await still(here.channel)
        think.set()
        await here.engine.settled()
        assert here.channel.sent == ["wait", "six"]
        await still(here.channel)


async def test_a_stop_takes_it_away() -> None:
    async with scene(ScriptedModel(["[SEND: a", asyncio.Event()])) as here:
        message = await here.say("hello")
        await until(lambda: here.channel.typed >= 2)
        await here.engine.stop(message.conversation)
        await still(here.channel)


async def test_a_channel_that_refuses_it_is_asked_once_and_a_fault_is_no_ones_business(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Faulty(RecordingChannel):
        asked = 0

        async def typing(self) -> None:
            self.asked += 1
            await super().typing()
            raise ValueError("no")

    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: a", go_on, "]"], "[SEND: b]")) as here:
        faulty = Faulty("test:faulty")
        refusing = Faulty("test:refusing")
        refusing.refuse.add("typing")
        await here.engine.receive(refusing.message("hello"), refusing)
        await until(lambda: refusing.asked == 1)
        await asyncio.sleep(0.03)
        assert refusing.asked == 1
        go_on.set()
        await here.engine.settled()
        await here.engine.receive(faulty.message("hello"), faulty)
        await here.engine.settled()
        assert faulty.sent == ["b"]
        assert caplog.text == ""


async def test_a_command_of_ones_own_shows_it_as_long_as_it_takes() -> None:
    go_on = asyncio.Event()
    async with scene(ScriptedModel(["[DRAW: cat]", asyncio.Event()])) as here:

        @here.engine.command
        async def draw(context: Context, what: str) -> None:
            """draw"""
            await context.typing()
            await go_on.wait()

        message = await here.say("hello")
        await until(lambda: here.channel.typed >= 2)
        go_on.set()
        await until(lambda: "Performed" in here.kinds())
        await still(here.channel)
        await here.engine.stop(message.conversation)
