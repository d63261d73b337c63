"""Commands and tools that hang, even ones that will not be told to end, hold nothing up for long."""

import asyncio

import pytest

from pixi.core.events import Failed
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.begun import begun
from tests.engine.scene import Scene, scene
from tests.held_clock import HeldClock
from tests.waiting import until


class Stubborn:
    """Work that ends when it is let go, and at no other time."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = self.told = 0

    async def __call__(self) -> None:
        self.begun += 1
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.told += 1


async def let_go(*works: Stubborn) -> None:
    for work in works:
        work.go.set()
    await asyncio.sleep(0.01)


def failed(here: Scene) -> list[str]:
    return [event.text for event in here.channel.events if isinstance(event, Failed)]


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_command_that_hangs_is_stopped_and_the_turn_goes_on(stubborn: bool) -> None:
    work = Stubborn()
    limits = Limits(tool_seconds=20)
    async with scene(ScriptedModel("[HANG]\n[SEND: a]"), limits=limits) as here:

        @here.engine.command
        async def hang(context: Context) -> None:
            """hang"""
            await (work() if stubborn else asyncio.Event().wait())

        await here.talk("hello")
        assert failed(here) == ["command 'hang' took longer than 20 seconds."]
        assert here.channel.sent == ["a"]
        await let_go(work)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_tool_that_hangs_is_answered_for(stubborn: bool) -> None:
    work = Stubborn()

    def setup(addon: Addon) -> None:
        @addon.tool
        async def hang(context: Context) -> str:
            """hang"""
            await (work() if stubborn else asyncio.Event().wait())
            return "never"

    model = ScriptedModel([ToolCall("1", "hang", "{}")], "[SEND: a]")
    persona = Persona("Pixi", "x", tools=("hang",))
    limits = Limits(tool_seconds=20)
    async with scene(model, persona=persona, addons=[setup], limits=limits) as here:
        await here.talk("hello")
        result = here.history()[-1]
        assert isinstance(result, ToolLine)
        assert result.text == "hang took longer than 20 seconds and was stopped."
        assert here.channel.sent == ["a"]
        await let_go(work)


async def test_what_is_left_of_a_tool_can_do_nothing_once_the_turn_is_over() -> None:
    work, ended = Stubborn(), asyncio.Event()

    def setup(addon: Addon) -> None:
        @addon.tool
        async def hang(context: Context) -> None:
            """hang"""
            try:
                await work()
                await context.typing()
                await context.send("late")
            finally:
                ended.set()

    model = ScriptedModel([ToolCall("1", "hang", "{}")], "[SEND: a]")
    persona = Persona("Pixi", "x", tools=("hang",))
    async with scene(model, persona=persona, addons=[setup], limits=Limits(tool_seconds=20)) as here:
        await here.talk("hello")
        asked = here.channel.typed
        work.go.set()
        await ended.wait()
        assert here.channel.sent == ["a"]
        assert here.channel.typed == asked


@pytest.mark.parametrize(
    ("how", "seconds"), [("stop", 3), ("close", 3), ("wind down", 3), ("deadline", 20.5)]
)
async def test_work_that_will_not_end_does_not_hold_up_the_end(
    how: str, seconds: float, clock: HeldClock, caplog: pytest.LogCaptureFixture
) -> None:
    tool, command = Stubborn(), Stubborn()

    def setup(addon: Addon) -> None:
        @addon.tool
        async def hang(context: Context) -> str:
            """hang"""
            await tool()
            return "never"

        @addon.command
        async def cling(context: Context) -> None:
            """cling"""
            await command()

    model = ScriptedModel(["[CLING]", ToolCall("1", "hang", "{}")])
    persona = Persona("Pixi", "x", tools=("hang",), commands=("cling", "send"))
    async with scene(model, persona=persona, addons=[setup], limits=Limits(seconds=10)) as here:
        await here.say("hello")
        await until(lambda: tool.begun == command.begun == 1)
        began = clock.time()
        match how:
            case "stop":
                await here.engine.stop(here.channel.conversation)
            case "close":
                await here.engine.close()
            case "wind down":
                await here.engine.drain(1)
            case _:
                await here.engine.settled()
        assert clock.time() - began <= seconds
        assert here.engine.talking == 0
        assert tool.told >= 1
        assert command.told >= 1
        assert "left to itself" in caplog.text
        await let_go(tool, command)


async def test_an_act_of_the_last_process_that_hangs_does_not_hold_up_the_end(
    store: SqliteStore, clock: HeldClock
) -> None:
    class Hanging(RecordingChannel):
        async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
            self.typed = -1
            await asyncio.Event().wait()
            return None

    channel = Hanging()
    said = channel.message("hello")
    await store.receive(said)
    turn = await begun(store, said.conversation, 0, "Pixi", (said.id,))
    await store.intend(turn, 1, "send", "a")
    async with scene(ScriptedModel(), store=store, channel=channel) as here:
        await here.say("well?")
        await until(lambda: channel.typed == -1)
        began = clock.time()
        await here.engine.close()
        assert clock.time() - began == 4
    saved = await store.load(said.conversation)
    assert [effect.outcome for effect in saved.unfinished[0].effects] == [None]
    assert [message.text for message in saved.waiting] == ["well?"]
