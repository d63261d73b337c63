"""docs/tools.md keeps its word: each example is an addon that loads, and its tools do as the page says."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi import Engine, Persona
from pixi.addons.loading import from_file, load_addons
from pixi.core.events import ToolAnswered
from pixi.core.llm import ToolCall
from pixi.core.message import Card, Rights
from pixi.personas.files import load_persona
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.context import Context
from tests.pages import ROOT, blocks, read_page, section

GUIDE = read_page(ROOT / "docs" / "tools.md")
FILES = {
    match[1]: block.text
    for block in blocks(GUIDE, "python")
    if (match := re.match(r"# (\w+\.py)\n", block.text))
}


@asynccontextmanager
async def kitchen(
    folder: Path, name: str, *calls: Sequence[object]
) -> AsyncIterator[tuple[Engine, ScriptedModel]]:
    """An engine with the addon of that name, whose model makes each of the calls in a turn of its own."""
    (folder / name).write_text(FILES[name], encoding="utf-8")
    model = ScriptedModel()
    for number, (tool, arguments) in enumerate(calls):
        model.add([ToolCall(f"{number}", str(tool), json.dumps(arguments))], "[SEND: so.]")
    persona = Persona("Pixi", "You are Pixi.", tools=tuple({str(tool) for tool, _ in calls}))
    engine = Engine(model=model, persona=persona)
    assert load_addons([from_file(folder / name)], engine.commands, engine.tools) == []
    async with engine:
        yield engine, model


async def answers(engine: Engine, channel: RecordingChannel, *messages: str) -> list[tuple[bool, str]]:
    """What the tools answered to the model, a message after the other."""
    for message in messages:
        await engine.receive(channel.message(message), channel)
        await engine.settled()
    return [(event.ok, event.result) for event in channel.events if isinstance(event, ToolAnswered)]


def test_there_is_an_example_of_each() -> None:
    assert list(FILES) == ["kitchen.py", "menu.py", "stock.py", "larder.py"]


async def test_typed_arguments(tmp_path: Path) -> None:
    calls = [("convert", {"degrees": 375}), ("convert", {"degrees": "hot"}), ("convert", {"degrees": -500})]
    async with kitchen(tmp_path, "kitchen.py", *calls) as (engine, model):
        found = await answers(engine, RecordingChannel(), "a", "b", "c")
        (schema,) = model.requests[0].tools
    assert found[0] == (True, "190.6")
    assert [ok for ok, _ in found] == [True, False, False]
    assert all("degrees" in text for _, text in found[1:])
    assert schema.description == "Convert the temperature of an oven or a pan."
    properties = schema.parameters["properties"]
    assert [properties[name]["description"] for name in ("degrees", "to")] == [
        "in the other scale.",
        "the scale that is wanted.",
    ]


async def test_a_card_is_shown(tmp_path: Path) -> None:
    channel = RecordingChannel()
    async with kitchen(tmp_path, "menu.py", ("menu", {})) as (engine, _):
        ((ok, told),) = await answers(engine, channel, "what is there?")
    (card,) = channel.cards
    assert isinstance(card, Card)
    assert (ok, card.title, len(card.fields)) == (True, "Today", 2)
    assert "lemon and sugar" in told


async def test_an_error_helps_the_model_on(tmp_path: Path) -> None:
    calls = [("stock", {"thing": "flour"}), ("stock", {"thing": "raisins"})]
    async with kitchen(tmp_path, "stock.py", *calls) as (engine, _):
        found = await answers(engine, RecordingChannel(), "a", "b")
    assert found == [(True, "3"), (False, "The larder knows flour, eggs, not 'raisins'.")]


async def test_the_guards_hold(tmp_path: Path) -> None:
    calls = [("order", {"thing": "eggs", "count": 12})] * 6
    channel = RecordingChannel()
    async with kitchen(tmp_path, "larder.py", *calls) as (engine, _):
        (refused,) = await answers(engine, channel, "eggs please")
        channel.powers["1"] = Rights(manager=True)
        channel.verdicts = ["yes", "no"]
        found = await answers(engine, channel, "eggs!", "we are closed", "eggs?", "eggs?!", "eggs!!")
        (tool,) = [each for each in engine.tools if each.name == "order"]
    assert refused[0] is False
    assert "Only managers" in refused[1]
    assert found[1] == (True, "12 eggs will come tomorrow.")
    assert [ok for ok, _ in found[2:]] == [False, False, False, False]
    assert "cannot be used here just now" in found[2][1]
    assert "said no" in found[3][1]
    assert "too often" in found[4][1]
    assert len(channel.questions) == 2
    assert "eggs" in channel.questions[0].arguments
    assert (tool.timeout, tool.result_bytes, tool.writes) == (10, 2000, True)


def test_the_table_names_what_the_context_has() -> None:
    told = re.findall(r"`(?:await )?context\.(\w+)", section(GUIDE, "The context"))
    public = {name for name in vars(Context) if not name.startswith("_")}
    assert set(told) == public


def test_the_front_matter_is_taken(tmp_path: Path) -> None:
    (block,) = blocks(GUIDE, "markdown")
    path = tmp_path / "mathilde.md"
    path.write_text(f"{block.text}\nYou are Mathilde.\n", encoding="utf-8")
    loaded = load_persona(path)
    assert (loaded.persona.tools, loaded.persona.databases) == (("convert",), ("pancakes",))


def test_the_example_of_a_test_prints_what_it_says() -> None:
    example = blocks(section(GUIDE, "Try a tool"), "python")[0].text
    (told,) = re.findall(r"print\(.*?\)  # (.*)$", example, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=example.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == f"{told}\n"


@pytest.mark.parametrize("name", re.findall(r"`(tool_\w+)`", section(GUIDE, "Guards")))
def test_the_limits_are_settings(name: str) -> None:
    from pixi.core.spending import Limits

    assert hasattr(Limits(), name)
