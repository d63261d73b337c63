"""The same call again in a turn: answered from the first; and where there is nothing else, no more tools."""

import io
from typing import Any

import pytest
from PIL import Image as Pillow

from pixi.core.errors import ToolError
from pixi.core.llm import Finished, Request, ToolCall, ToolLine
from pixi.core.message import Image
from pixi.core.persona import Persona
from pixi.core.spending import Limits
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.testing.fakes import Step
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.scene import Scene, scene

NAMES = ("look", "write", "roll", "fail", "paint")
HANDY = Persona("Pixi", "x", tools=NAMES)


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall("", name, arguments)


async def played(*rounds: list[ToolCall], vision: bool = False) -> tuple[Scene, list[str], list[str]]:
    """What was carried out, and what the model was told, where it asks for these round after round."""
    done: list[str] = []

    def tools(addon: Addon) -> None:
        @addon.tool
        async def look(context: Context, at: str = "", deep: bool = False) -> str:
            """look"""
            done.append(f"look {at}")
            return f"{at} {len(done)}"

        @addon.tool(writes=True)
        async def write(context: Context) -> str:
            """write"""
            done.append("write")
            return "written"

        @addon.tool(varies=True)
        async def roll(context: Context) -> int:
            """roll"""
            done.append("roll")
            return len(done)

        @addon.tool
        async def fail(context: Context) -> None:
            """fail"""
            done.append("fail")
            raise ToolError("Not on Sundays.")

        @addon.tool
        async def paint(context: Context) -> Image:
            """paint"""
            done.append("paint")
            file = io.BytesIO()
            Pillow.new("RGB", (2, 2)).save(file, "PNG")
            return Image("image/png", file.getvalue())

    def step(calls: list[ToolCall]) -> Any:
        return lambda request: [*calls, Finished("stop")] if request.tools else ["[SEND: ok]"]

    model = ScriptedModel(
        *map(step, rounds), "[SEND: ok]", traits=Traits(context_tokens=200_000, vision=vision)
    )
    async with scene(model, persona=HANDY, addons=[tools], limits=Limits(tool_steps=12)) as here:
        await here.talk("go")
        assert here.channel.sent == ["ok"]
        told = [line.text for line in here.history() if isinstance(line, ToolLine)]
        return (
            here,
            done,
            [text.splitlines()[-1] if text.startswith("(You asked") else f"new {text}" for text in told],
        )


async def test_it_is_answered_from_the_first_and_told_so() -> None:
    here, done, told = await played(
        [call("look", '{"at": "cat", "deep": true}')],
        [call("look", '{ "deep": true,\n "at": "cat" }'), call("look", '{"at": "dog"}')],
    )
    assert done == ["look cat", "look dog"]
    assert told == ["new cat 1", "cat 1", "new dog 2"]
    assert here.model.requests[2].tools  # there was something new in the last round


async def test_a_round_of_nothing_else_ends_the_tools() -> None:
    here, done, told = await played(*[[call("look", '{"at": "cat"}'), call("look", '{"at": "dog"}')]] * 9)
    assert done == ["look cat", "look dog"]
    assert told == ["new cat 1", "new dog 2", "cat 1", "dog 2"]
    assert [bool(request.tools) for request in here.model.requests] == [True, True, False]


async def test_the_same_twice_at_once_is_carried_out_once() -> None:
    here, done, told = await played(
        [call("look", '{"at": "cat"}'), call("look", '{"at":"cat"}'), call("fail"), call("fail")]
    )
    assert done == ["look cat", "fail"]
    assert told == ["new cat 1", "cat 1", "new Not on Sundays.", "Not on Sundays."]
    assert len(here.model.requests) == 2


async def test_what_writes_or_varies_is_always_carried_out() -> None:
    look, write, roll = call("look", '{"at": "cat"}'), call("write"), call("roll")
    here, done, told = await played([look, write, roll, roll], [look, write], [write, look])
    assert done == ["look cat", "write", "roll", "roll", "look cat", "write", "write", "look cat"]
    assert all(text.startswith("new") for text in told)
    assert here.model.requests[3].tools


async def test_what_failed_is_tried_once_more() -> None:
    here, done, told = await played(*[[call("fail")]] * 9)
    assert done == ["fail", "fail"]
    assert told == ["new Not on Sundays.", "new Not on Sundays.", "Not on Sundays."]
    assert len(here.model.requests) == 4


@pytest.mark.parametrize("vision", [True, False])
async def test_a_picture_is_shown_once(vision: bool) -> None:
    here, done, _ = await played([call("paint")], [call("paint"), call("look")], vision=vision)
    assert done == ["paint", "look "]
    first, again, _ = (line for line in here.history() if isinstance(line, ToolLine))
    assert bool(first.images) == vision
    assert not again.images
    assert ("Its pictures stand where" in again.text) == vision


async def test_another_turn_asks_anew() -> None:
    asked = call("look", '{"at": "cat"}')
    count = [0]

    def tools(addon: Addon) -> None:
        @addon.tool
        async def look(context: Context, at: str) -> int:
            """look"""
            count[0] += 1
            return count[0]

    def ask(request: Request) -> list[Step]:
        return [asked, Finished("stop")]

    model = ScriptedModel(ask, "[SEND: a]", ask, "[SEND: b]")
    async with scene(model, persona=Persona("Pixi", "x", tools=("look",)), addons=[tools]) as here:
        await here.talk("go", "again")
        assert [line.text for line in here.history() if isinstance(line, ToolLine)] == ["1", "2"]
