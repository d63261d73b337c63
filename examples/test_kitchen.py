"""The test of an addon: a model with a script calls its tool and its command. No network, no key."""

import asyncio

from kitchen import setup

from pixi import Engine, Persona
from pixi.testing import RecordingChannel, ScriptedModel, ToolCall


async def talk(*replies):
    """Let a model with a script answer one message; return the channel, which remembers what happened."""
    persona = Persona("Pixi", "You are Pixi.", tools=("weigh",))
    channel = RecordingChannel()
    async with Engine(model=ScriptedModel(*replies), persona=persona, addons=[setup]) as engine:
        await engine.receive(channel.message("two cups of flour?"), channel)
        await engine.settled()
    return channel


def test_cups_become_grams():
    call = ToolCall("1", "weigh", '{"cups": 2, "of": "flour"}')
    channel = asyncio.run(talk([call], "[SEND: 250 grams!] [CHEER: the cook]"))
    assert [answer.result for answer in channel.tool_answers] == ["250 g"]
    assert channel.sent == ["250 grams!", "👏 the cook 👏"]


def test_the_model_is_told_what_the_scales_know():
    call = ToolCall("1", "weigh", '{"cups": 2, "of": "joy"}')
    channel = asyncio.run(talk([call], "[SEND: no idea]"))
    (answer,) = channel.tool_answers
    assert not answer.ok
    assert answer.result == "The scales know flour, sugar, butter, not 'joy'."
