"""Whole turns through the engine, with a model behind each provider's own API."""

import asyncio
from typing import Any

import pytest

from pixi import Engine, Persona
from pixi.models.anthropic.door import AnthropicMessages
from pixi.models.gemini.door import Gemini
from pixi.models.model import Traits
from pixi.models.packaged.model import PackagedModel
from pixi.testing import RecordingChannel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.engine.scene import until
from tests.servers import scripted_anthropic as claude
from tests.servers import scripted_gemini as google
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAI

pytest.importorskip("anthropic")
pytest.importorskip("google.genai")

PERSONA = Persona("Pixi", "You are Pixi.", tools=("add",))


def setup(addon: Addon) -> None:
    @addon.tool
    async def add(context: Context, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


def rounds(door: type[PackagedModel[Any, Any]]) -> tuple[Reply, Reply, Reply]:
    """A call; what is said of its result; and a later reply."""
    if door is Gemini:
        return (
            google.reply(
                google.thought("hm"),
                google.said("[NOTE: numbers]"),
                google.call("add", {"a": 40, "b": 2}, signature=google.SIGNATURE),
            ),
            google.reply(google.said("[SEND: it is ", "42][REACT: 🥞]")),
            google.reply(google.said("[SEND: always]")),
        )
    return (
        claude.message(
            claude.thought("hm"),
            claude.text("[NOTE: numbers]"),
            claude.call("toolu_1", "add", '{"a": 40', ', "b": 2}'),
            stop="tool_use",
        ),
        claude.message(claude.text("[SEND: it is ", "42][REACT: 🥞]")),
        claude.message(claude.text("[SEND: always]")),
    )


def hanging(door: type[PackagedModel[Any, Any]]) -> Reply:
    if door is Gemini:
        return google.reply(google.said("[SEND: hi]"), Hang())
    return claude.message(claude.text("[SEND: hi]"), Hang())


@pytest.mark.parametrize("door", [AnthropicMessages, Gemini])
async def test_commands_and_tools(door: type[PackagedModel[Any, Any]]) -> None:
    channel = RecordingChannel()
    async with ScriptedOpenAI(*rounds(door)) as server:
        model = door("scripted", base_url=server.base_url, traits=Traits(context_tokens=100_000))
        try:
            async with Engine(model=model, persona=PERSONA, addons=[setup]) as engine:
                for text in ("40 + 2?", "sure?"):
                    await engine.receive(channel.message(text), channel)
                    await engine.settled()
        finally:
            await model.close()
    assert channel.sent == ["it is 42", "always"]
    assert [emoji for _, emoji in channel.reactions] == ["🥞"]
    assert len(server.requests) == 3
    told = [seen.body.decode() for seen in server.requests]
    assert "42" not in told[0]
    signature = google.SIGNATURE if door is Gemini else "EqQBCgIYAhIM"
    # The round after it hands back the call as it was signed, and what was said before it.
    assert signature not in told[0]
    assert signature in told[1]
    assert all("[NOTE: numbers]" in body for body in told[1:])
    assert "it is 42" in told[2]


@pytest.mark.parametrize("door", [AnthropicMessages, Gemini])
async def test_an_engine_that_closes_in_the_middle_of_a_reply(door: type[PackagedModel[Any, Any]]) -> None:
    channel = RecordingChannel()
    async with ScriptedOpenAI(hanging(door)) as server:
        model = door("scripted", base_url=server.base_url)
        try:
            async with Engine(model=model, persona=PERSONA, addons=[setup]) as engine:
                await engine.receive(channel.message("hi"), channel)
                await until(lambda: bool(channel.sent))
            await asyncio.wait_for(server.requests[0].gone.wait(), 5)
        finally:
            await model.close()
    assert channel.sent == ["hi"]
