"""Tools: whatever goes wrong with one, the model is told in words that help it go on."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.core.errors import ToolError
from pixi.core.events import Progressed, ToolAnswered, ToolCalled
from pixi.core.llm import AssistantLine, Finished, Line, ToolCall, ToolLine
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from pixi.toolbox.tools import within_bytes
from tests.engine.scene import Scene, scene
from tests.held_clock import HeldClock

NAMES = ("add", "nap", "crash", "flood", "shout", "picky", "nothing", "odd", "late")
HANDY = Persona("Pixi", "x", tools=NAMES)
ROOMY = Traits(context_tokens=200_000)


def handy(addon: Addon) -> None:
    @addon.tool
    async def add(context: Context, a: int, b: int = 1) -> int:
        """add two numbers"""
        return a + b

    @addon.tool(timeout=5)
    async def nap(context: Context) -> None:
        """sleep"""
        await asyncio.sleep(60)

    @addon.tool
    async def crash(context: Context) -> None:
        """crash"""
        raise RuntimeError("password=hunter2")

    @addon.tool
    async def late(context: Context) -> None:
        """ask somebody who does not answer"""
        raise TimeoutError

    @addon.tool
    async def flood(context: Context) -> str:
        """say much"""
        return "🌊" * 1_300_000  # 5 MB

    @addon.tool
    async def shout(context: Context, text: str) -> dict[str, Any]:
        """say it"""
        await context.send(text.upper())
        return {"said": text}

    @addon.tool
    async def picky(context: Context) -> None:
        """refuse"""
        raise ToolError("Not on Sundays. Try Monday.")

    @addon.tool
    async def nothing(context: Context) -> None:
        """do nothing"""

    @addon.tool
    async def odd(context: Context) -> object:
        """give something that JSON does not know"""
        return {"set": {1}, "when": datetime(2026, 1, 31), "other": object()}


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def answers(*calls: ToolCall, limits: Limits | None = None) -> tuple[list[ToolLine], Scene]:
    """What the model was told."""
    model = ScriptedModel(list[Step](calls), "[SEND: ok]", traits=ROOMY)
    async with scene(model, persona=HANDY, addons=[handy], limits=limits) as here:
        await here.talk("go")
        assert "ok" in here.channel.sent
        assert here.channel.ended[0].finish == "stop"
        return [line for line in here.history() if isinstance(line, ToolLine)], here


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (call("add", '{"a": 2, "b": 3}'), "5"),
        (call("add", '{"a": "2"}'), "3"),
        (call("nothing", ""), "Done."),
        (call("odd"), '{"set": [1], "when": "2026-01-31T00:00:00", "other": "<object>"}'),
        (call("picky"), "Not on Sundays. Try Monday."),
        (
            call("fly"),
            "There is no tool 'fly'. Tools: add, nap, crash, flood, shout, picky, nothing, odd, late.",
        ),
        (call("add", "{a: 2}"), "The arguments of add are not JSON"),
        (call("add", "[1, 2]"), "The arguments of add must be one JSON object, not list."),
        (call("add", "[" * 100_000), "The arguments of add are nested too deeply."),
        (
            call("add", "{}"),
            "Wrong arguments for add: a is missing: a whole number. It takes a (a whole number), b",
        ),
        (
            call("add", '{"a": 1, "c": 2}'),
            "Wrong arguments for add: there is no argument c. It takes a (a whole number), b",
        ),
        (
            call("add", '{"a": "two"}'),
            'Wrong arguments for add: a must be a whole number, not "two". It takes a (a whole number)',
        ),
        (call("nap"), "nap took longer than 5 seconds and was stopped."),
        (call("crash"), "tool 'crash' failed with RuntimeError."),
        (call("late"), "tool 'late' failed with TimeoutError."),
    ],
)
async def test_what_the_model_is_told(asked: ToolCall, told: str) -> None:
    (line,), here = await answers(asked)
    assert line.text.startswith(told)
    called, answered = here.channel.events[:2]
    assert isinstance(called, ToolCalled)
    assert isinstance(answered, ToolAnswered)
    assert answered.result == line.text
    assert answered.ok == (asked.name in ("add", "nothing", "odd") and "argument" not in told)


async def test_no_secret_of_an_exception_reaches_model_or_log(caplog: pytest.LogCaptureFixture) -> None:
    (line,), here = await answers(call("crash"))
    assert "hunter2" not in line.text
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(here.channel.events)


async def test_a_flood_is_cut_and_said_to_be() -> None:
    (line,), _ = await answers(call("flood"))
    assert len(line.text.encode()) <= 32_768
    assert line.text.endswith("[cut here; the whole has 1300000 characters]")


async def test_a_result_leaves_room_in_a_small_context() -> None:
    model = ScriptedModel([call("flood")], "[SEND: ok]", traits=Traits(context_tokens=4_096))
    async with scene(model, persona=HANDY, addons=[handy]) as here:
        await here.talk("go")
        assert sum(len(line.text.encode()) for line in here.model.requests[-1].lines) < 2 * 4_096


@pytest.mark.parametrize(
    ("text", "limit"), [("🥞" * 100, 99), ("a" * 100, 100), ("x\ud800y", 50), ("é" * 60, 60)]
)
def test_clipped_is_within_its_bytes(text: str, limit: int) -> None:
    assert len(within_bytes(text, limit).encode()) <= limit


async def test_calls_run_side_by_side_and_are_answered_in_order(clock: HeldClock) -> None:
    began = clock.time()
    told, _ = await answers(
        call("nap", call_id="1"), call("nap", call_id="2"), call("add", '{"a": 1}', "3"), call("nap", "", "4")
    )
    assert clock.time() - began == 5
    assert [line.call_id for line in told] == ["1", "2", "3", "4"]
    assert told[2].text == "2"


async def test_a_tool_acts_as_commands_do() -> None:
    told, here = await answers(call("shout", '{"text": "hey"}'))
    assert told[0].text == '{"said": "hey"}'
    assert here.channel.sent == ["HEY", "ok"]


async def test_the_text_form_is_run_and_answered() -> None:
    good = '<tool-call tool="add">{"a": 40, "b": 2}</tool-call>'
    reply = f'Sure! {good}\n<tool-call tool="add">nonsense</tool-call>'
    for piece in (1, 3, 0):
        model = ScriptedModel(reply, "[SEND: ok]", piece=piece)
        async with scene(model, persona=HANDY, addons=[handy]) as here:
            await here.talk("go")
            told = [line.text for line in here.history() if isinstance(line, ToolLine)]
            assert told[0] == "42"
            assert told[1].startswith("The arguments of add are not JSON")
            assert here.channel.sent == ["ok"]


async def test_an_endless_loop_ends_in_an_answer() -> None:
    def more(request: Any) -> list[Step]:
        if not request.tools:
            return ["[SEND: enough]"]
        return [call("add", f'{{"a": {len(request.lines)}}}'), Finished("stop")]

    model = ScriptedModel(*([more] * 20))
    async with scene(model, persona=HANDY, addons=[handy], limits=Limits(tool_steps=4)) as here:
        await here.talk("go")
        assert len(here.model.requests) == 5
        assert here.channel.sent == ["enough"]
        assert here.channel.ended[0].steps == 5


@pytest.mark.parametrize(("own", "rounds"), [(2, 2), (0, 0), (9, 4)])
async def test_a_persona_may_have_fewer_rounds_than_the_limits_allow(own: int, rounds: int) -> None:
    def more(request: Any) -> list[Step]:
        return [call("add", f'{{"a": {len(request.lines)}}}')] if request.tools else ["[SEND: enough]"]

    persona = replace(HANDY, tool_steps=own)
    model = ScriptedModel(*([more] * 9))
    async with scene(model, persona=persona, addons=[handy], limits=Limits(tool_steps=4)) as here:
        await here.talk("go")
        assert len(here.model.requests) == rounds + 1
        assert here.channel.sent == ["enough"]


async def test_a_flood_of_calls_is_answered_but_not_carried_out() -> None:
    calls = [call("add", f'{{"a": {number}}}', f"c{number}") for number in range(50)]
    model = ScriptedModel([*calls, Finished("stop")], "[SEND: ok]")
    async with scene(model, persona=HANDY, addons=[handy], limits=Limits(tool_calls=3)) as here:
        await here.talk("go")
        answered = [event for event in here.channel.events if isinstance(event, ToolAnswered)]
        assert [event.id for event in answered if event.ok] == ["c0", "c1", "c2"]
        assert len(answered) == 50
        assert here.channel.sent == ["ok"]


async def test_every_request_of_a_turn_is_the_last_one_plus_a_tail() -> None:
    model = ScriptedModel(
        ["[SEND: let me see]", call("add", '{"a": 1}'), call("picky", "", "c2")],
        [call("crash", "", "c3"), "[NOTE: hm]"],
        "[SEND: done]",
        "[SEND: and?]",
    )
    async with scene(model, persona=HANDY, addons=[handy]) as here:
        await here.talk("go", "more")
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            assert after.lines[: len(before.lines)] == before.lines
        assert_answered(here.history())


def assert_answered(lines: tuple[Line, ...]) -> None:
    for number, line in enumerate(lines):
        if isinstance(line, AssistantLine):
            after = lines[number + 1 : number + 1 + len(line.calls)]
            assert [answer.call_id for answer in after if isinstance(answer, ToolLine)] == [
                asked.id for asked in line.calls
            ]


async def test_a_stop_while_tools_run_leaves_each_call_an_answer() -> None:
    model = ScriptedModel([call("slow"), call("add", '{"a": 1}', "c2")], "[SEND: ok]")
    running = asyncio.Event()

    def slow_one(addon: Addon) -> None:
        @addon.tool
        async def slow(context: Context) -> None:
            """be slow"""
            running.set()
            await asyncio.sleep(60)

    persona = Persona("Pixi", "x", tools=("slow", "add"))
    async with scene(model, persona=persona, addons=[handy, slow_one]) as here:
        message = await here.say("go")
        await running.wait()
        await here.engine.stop(message.conversation)
        await here.talk("more")
        told = [line.text for line in here.history() if isinstance(line, ToolLine)]
        assert told == ["This was stopped before it was done.", "2"]
        assert_answered(here.history())


async def test_a_tool_that_says_too_much_ends_the_turn() -> None:
    calls = [call("shout", f'{{"text": "hey {number}"}}', str(number)) for number in range(4)]
    model = ScriptedModel(list[Step](calls), "[SEND: ok]", "[SEND: next]")
    async with scene(model, persona=HANDY, addons=[handy], limits=Limits(messages=2)) as here:
        await here.talk("go")
        assert here.channel.sent == ["HEY 0", "HEY 1"]
        assert here.channel.ended[0].finish == "limit"
        assert len(model.requests) == 1


def looking(seconds: float) -> tuple[Callable[[Addon], None], list[float]]:
    """A tool that reads until a second before it would be stopped, and tells how far it is."""
    had: list[float] = []

    def setup(addon: Addon) -> None:
        @addon.tool(timeout=None, varies=True)
        async def look(context: Context) -> str:
            """look it up"""
            had.append(context.seconds_left)
            context.progress("reading hunter2.pdf")
            await asyncio.sleep(min(context.seconds_left - 1, seconds))
            context.progress("")
            return f"with {context.seconds_left:g} s to spare"

    return setup, had


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        (Limits(), [120, 40]),  # of 180 s, and of the 60 that are left of them; a third or a minute to answer
        (Limits(tool_seconds=20), [20, 20]),
        (Limits(tool_seconds=900), [120, 40]),
        (Limits(seconds=600), [540, 40]),
    ],
)
async def test_a_tool_without_a_limit_of_its_own_has_what_the_turn_has_left(
    limits: Limits, allowed: list[float]
) -> None:
    setup, had = looking(seconds=limits.seconds)
    model = ScriptedModel(
        [ToolCall("1", "look", "{}")], [1.0, ToolCall("2", "look", "{}")], "[SEND: nothing there]"
    )
    persona = Persona("Pixi", "x", tools=("look",))
    async with scene(model, persona=persona, addons=[setup], limits=limits) as here:
        await here.talk("look")
        assert here.channel.sent == ["nothing there"]
        results = [line.text for line in here.history() if isinstance(line, ToolLine)]
    assert had == allowed
    assert results == ["with 1 s to spare"] * 2


async def test_how_far_a_tool_is_is_shown_while_it_runs_without_secrets() -> None:
    setup, _ = looking(seconds=10)
    model = ScriptedModel([ToolCall("1", "look", "{}")], "[SEND: done]")
    persona = Persona("Pixi", "x", tools=("look",))
    async with scene(model, persona=persona, addons=[setup]) as here:
        here.engine.tools.mask.learn(["hunter2"])
        await here.talk("look")
        shown = [event for event in here.channel.events if isinstance(event, Progressed)]
        kinds = here.kinds()
    assert "hunter2" not in str(shown)
    assert shown[0].text.startswith("reading ")
    assert kinds.index("ToolCalled") < kinds.index("Progressed") < kinds.index("ToolAnswered")
