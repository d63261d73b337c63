"""Whoever looks on at an engine is told all that happens in its turns."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from pixi.core.errors import ModelError
from pixi.core.language import Thought
from pixi.core.llm import Finished, Prices, Text, ToolCall, Usage
from pixi.core.persona import Persona
from pixi.models.model import Traits
from pixi.testing import ScriptedModel
from pixi.toolbox.addon import Addon
from tests.engine.scene import scene, until

Form = dict[str, Any]


def raw(told: Iterable[Form], step: int = 1) -> str:
    """The text of a request, put together by its offsets."""
    text = ""
    for form in told:
        if form["event"] == "text" and form["step"] == step:
            assert form["offset"] == len(text)
            text += form["text"]
    return text


def named(told: Iterable[Form], *names: str) -> list[Form]:
    return [form for form in told if form["event"] in names]


def cut_out(told: Iterable[Form], step: int = 1) -> list[str]:
    """The commands as they stand in the text of a request, from where they open to where they close."""
    told = [form for form in told if form["step"] == step]
    text = raw(told, step)
    opens = {form["number"]: form["offset"] for form in named(told, "open")}
    return [text[opens[form["number"]] : form["offset"]] for form in named(told, "close")]


async def watched(reply: list[str]) -> list[Form]:
    """What is told of the turn that gives a reply, which comes in these pieces."""
    told: list[Form] = []
    async with scene(ScriptedModel(reply, piece=0)) as here:
        here.engine.settings.observers.append(told.append)
        await here.talk("hi")
    return told


async def test_a_turn_is_told_from_its_beginning_to_what_it_came_to() -> None:
    told = await watched(["[NOTE: somebody says hi]\n[SE", "ND: hey ", "you]\n[REACT: 🥞]"])
    start, asked, *middle, end = told
    assert [form["event"] for form in (start, asked, end)] == ["turn_start", "asked", "turn_end"]
    assert {form["event"] for form in middle} == {"text", "open", "close", "effect", "answered"}
    assert start["answers"] == [{"id": "test:channel:1", "author": "Mo", "text": "hi"}]
    assert (start["persona"], start["model"], start["waited"] >= 0) == ("Pixi", "scripted", True)
    assert raw(told) == "[NOTE: somebody says hi]\n[SEND: hey you]\n[REACT: 🥞]"
    assert cut_out(told) == ["[NOTE: somebody says hi]", "[SEND: hey you]", "[REACT: 🥞]"]
    effects = {form["act"]: form for form in named(told, "effect")}
    assert [effects[kind]["number"] for kind in ("note", "send", "react")] == [0, 1, 2]
    assert [effects[kind]["text"] for kind in ("note", "send", "react")] == [
        *("somebody says hi", "hey you", "🥞")
    ]
    assert all(form["outcome"] == "done" and form["ms"] >= 0 for form in effects.values())
    assert (end["finish"], end["reason"], end["steps"]) == ("stop", "answered", 1)
    assert end["effects"] == {"send": 1, "react": 1}
    (answered,) = named(told, "answered")
    assert 0 <= answered["first"] <= answered["seconds"]
    assert {form["turn"] for form in told} == {1}


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("see [1] and [2] [SEND: a [b] c]", ["[SEND: a [b] c]"]),
        ("[SAY: one][reply: two]", ["[SAY: one]", "[reply: two]"]),
        ("【SEND：你好】\n[SEND: b]", ["【SEND：你好】", "[SEND: b]"]),
        ("**[SEND: a]** [ send : b ]", ["[SEND: a]", "[ send : b ]"]),
        ("[SEND: cut off in the mid", ["[SEND: cut off in the mid"]),
        ("no command at all", ["no command at all"]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1_000])
async def test_commands_are_cut_out_of_the_raw_text_where_they_stand(
    text: str, commands: list[str], size: int
) -> None:
    told = await watched([text[at : at + size] for at in range(0, len(text), size)])
    assert raw(told) == text
    assert cut_out(told) == commands


async def test_what_people_see_is_the_same_whether_somebody_looks_on_or_not() -> None:
    reply = "[NOTE: x]\n[SEND: a [b] ] c]\n[SEND: d]e[REACT: 🥞]]"
    seen = []
    for observers in ([list[Form]().append], []):
        async with scene(ScriptedModel(reply, "[SEND: bye]", piece=7), growing=True) as here:
            here.engine.settings.observers.extend(observers)
            await here.talk("hi", "bye")
            seen.append((here.channel.sent, here.channel.reactions, here.history()))
    assert seen[0] == seen[1]


async def test_tools_thoughts_and_each_request_are_told() -> None:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def weather(context: object, place: str) -> str:
            """Tell the weather."""
            return f"sun in {place}"

    told: list[Form] = []
    model = ScriptedModel(
        [
            Thought("they want the weather"),
            Text("[SEND: let me see]"),
            ToolCall("c1", "weather", '{"place": "Rome"}'),
            Finished("stop", Usage(100, 60, 9)),
        ],
        [Text("[SEND: sun]"), Finished("stop", Usage(140, 100, 5))],
        traits=Traits(tools=True, prices=Prices(1.0, 2.0, 0.5)),
    )
    persona = Persona("Pixi", "You are Pixi.", tools=("weather",))
    async with scene(model, persona=persona, addons=[setup]) as here:
        here.engine.settings.observers.append(told.append)
        await here.talk("how is it in Rome?")
    assert [form["text"] for form in named(told, "thought")] == ["they want the weather"]
    assert [form["tools"] for form in named(told, "asked")] == [["weather"], ["weather"]]
    (call,), (result,) = named(told, "tool_call"), named(told, "tool_result")
    assert (call["name"], call["arguments"]) == ("weather", {"place": "Rome"})
    assert (result["ok"], result["result"], result["ms"] >= 0) == (True, "sun in Rome", True)
    usages = [form["usage"] for form in named(told, "answered")]
    assert [usage["cached_tokens"] for usage in usages] == [60, 100]
    assert cut_out(told, 1) == ["[SEND: let me see]"]
    assert cut_out(told, 2) == ["[SEND: sun]"]
    assert [form["number"] for form in named(told, "effect")] == [0, 1]
    end = told[-1]
    assert end["usage"]["prompt_tokens"] == 240
    assert end["cost"] == pytest.approx((40 + 40 + 160 * 0.5 + 14 * 2.0) / 1e6)


async def test_what_a_model_that_breaks_off_wrote_is_told_and_that_it_was_thrown_away() -> None:
    told: list[Form] = []
    model = ScriptedModel(["[NOTE: hm", ModelError("gone")], "[SEND: hi]")
    async with scene(model) as here:
        here.engine.settings.observers.append(told.append)
        await here.talk("hi")
    assert [form["why"] for form in named(told, "thrown_away")] == ["broken"]
    assert [form["failed"] for form in named(told, "answered")] == [True, False]
    assert raw(told, 1) == "[NOTE: hm"
    assert raw(told, 2) == "[SEND: hi]"


async def test_an_end_before_its_time_is_told() -> None:
    told: list[Form] = []
    model = ScriptedModel(["[SEND: one]", asyncio.Event()])
    async with scene(model) as here:
        here.engine.settings.observers.append(told.append)
        await here.say("hi")
        await until(lambda: here.channel.sent == ["one"])
        await here.engine.stop(here.channel.conversation)
    assert [form["state"] for form in named(told, "state")] == ["stopping"]
    assert (told[-1]["finish"], told[-1]["reason"]) == ("cancelled", "stopped")


async def test_whoever_looks_on_is_told_where_words_are_forgotten() -> None:
    told: list[Form] = []
    async with scene(ScriptedModel("[SEND: one]")) as here:
        here.engine.settings.observers.append(told.append)
        await here.talk("hi")
        await here.engine.reset(here.channel.conversation)
    assert told[-1] == {"event": "forgotten", "conversation": here.channel.conversation}


async def test_one_that_breaks_while_it_looks_on_breaks_nothing_else() -> None:
    def broken(form: Form) -> None:
        raise ValueError(form["event"])

    async with scene(ScriptedModel("[SEND: one]")) as here:
        told: list[Form] = []
        here.engine.settings.observers += [broken, told.append]
        await here.talk("hi")
        assert here.channel.sent == ["one"]
        assert told[-1]["event"] == "turn_end"
