"""docs/embedding.md and examples/ keep their word: what stands there runs, and the page prints the files."""

import asyncio
import inspect
import re
import sys
import time
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import pixi
from pixi import Card, Channel, Persona
from pixi.core.llm import ToolCall, ToolLine
from pixi.core.message import Picture
from pixi.testing import ScriptedModel
from tests.engine.scene import scene
from tests.pages import ROOT, blocks, read_page, section
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream
from tests.waiting import until, within

EXAMPLES = ROOT / "examples"
PAGE = read_page(ROOT / "docs" / "embedding.md")
HELLO = stream("[NOTE: a guest] [REACT: 👋] [SEND: hello] [SEND: come in]", finish())


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A folder without settings to run an example in, and a store in memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIXI_STORE__URL", ":memory:")
    yield "example"
    sys.modules.pop("example", None)


def imported(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("example")
async def test_an_engine_in_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    async with ScriptedOpenAI(HELLO) as server:
        settings = {"model": {"name": "scripted", "base_url": server.base_url}}
        await imported("in_a_program").main(settings)
    assert capsys.readouterr().out == "hello\ncome in\n"


@pytest.mark.usefixtures("example")
async def test_a_channel_of_ones_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedOpenAI(HELLO) as server, within("a talk over TCP"):
        monkeypatch.setenv("PIXI_MODEL__NAME", "scripted")
        monkeypatch.setenv("PIXI_MODEL__BASE_URL", server.base_url)
        serving = asyncio.ensure_future(imported("line_server").main(port=0))
        told = await until(lambda: capsys.readouterr().out, "the address")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(told.split()[-1]))
        writer.write(b"hi\n")
        assert [await reader.readline() for _ in range(2)] == [b"hello\n", b"come in\n"]
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])


@pytest.mark.usefixtures("example")
async def test_the_program_of_the_readme(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = blocks(section(read_page(ROOT / "README.md"), "In your own program"), "python")
    message = pixi.Message("1", "readme:mo", pixi.Author("readme:mo", "Mo"), "hi", sent_at=time.time())
    async with ScriptedOpenAI(HELLO) as server:
        monkeypatch.setenv("PIXI_MODEL__NAME", "scripted")
        monkeypatch.setenv("PIXI_MODEL__BASE_URL", server.base_url)
        await eval(
            compile(program.text, "README.md", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT), {"message": message}
        )
    assert capsys.readouterr().out == "hello\ncome in\n"


@pytest.mark.parametrize("name", ["in_a_program", "line_server", "kitchen", "test_kitchen"])
def test_the_page_prints_the_file(name: str) -> None:
    printed = [block.text for block in blocks(PAGE, "python")]
    assert f"# {name}.py\n{(EXAMPLES / f'{name}.py').read_text(encoding='utf-8')}" in printed


def test_there_are_no_other_examples() -> None:
    printed = set(re.findall(r"^```python\n# (\w+\.py)$", PAGE, re.MULTILINE))
    assert {path.name for path in EXAMPLES.glob("*.py")} <= printed


def test_the_table_names_what_a_channel_may_have() -> None:
    told = re.findall(r"^\| `(\w+)", section(PAGE, "What a channel may have"), re.MULTILINE)
    public = [name for name in vars(Channel) if not name.startswith("_")]
    assert sorted(told) == sorted(public)


class Typed(Channel):
    """With one method, as typed code writes it."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def send(self, text: str, **_: object) -> None:
        self.said.append(text)


def test_a_channel_needs_send() -> None:
    assert inspect.isabstract(Channel)
    assert Channel.__abstractmethods__ == {"send"}


async def test_one_method_is_enough_for_all_that_a_persona_can_do() -> None:
    def setup(addon: pixi.Addon) -> None:
        @addon.tool
        async def show(context: pixi.Context) -> str:
            """Show a card, a picture and a sticker."""
            await context.card(Card("Menu", text="thin ones"))
            await context.picture(Picture("a cat", link="https://cats.example/1"))
            with pytest.raises(pixi.ChannelError, match="no stickers"):
                await context.sticker("wave")
            return "shown"

        @addon.tool(writes=True, approval=True)
        async def order(context: pixi.Context) -> str:
            """Order."""
            pytest.fail("nobody was asked")

    channel, persona = Typed(), Persona("P", "p", tools=("show", "order"))
    calls = [ToolCall("1", "show", "{}"), ToolCall("2", "order", "{}")]
    model = ScriptedModel(calls, "[REACT: 👋] [SEND: so] [NOTE: x]")
    async with scene(model, persona=persona, addons=[setup]) as here:
        await here.engine.receive(here.channel.message("hi"), channel)
        await here.engine.settled()
        shown, ordered = (line.text for line in here.history() if isinstance(line, ToolLine))
    assert channel.said == ["Menu\nthin ones", "[picture: a cat · https://cats.example/1]", "so"]
    assert shown == "shown"
    assert "no answer came, so it was not done" in ordered


async def test_a_program_brings_its_own_tools() -> None:
    kitchen = imported("kitchen")
    settings = {
        "model": {"name": "scripted", "base_url": "http://127.0.0.1:9/v1"},
        "store": {"url": ":memory:"},
    }
    twice = [kitchen.setup, kitchen.setup]
    async with pixi.open_engine(settings, Persona("P", "p"), addons=twice) as engine:
        assert engine.persona.tools == ("weigh",)
    with pytest.raises(pixi.ConfigError, match=r"addon test_embedding_guide\.py: ZeroDivisionError"):
        async with pixi.open_engine(settings, Persona("P", "p"), addons=[lambda _: 1 / 0]):
            pytest.fail("it is open")


async def test_settings_of_a_program_are_checked_as_a_file_is(tmp_path: Path) -> None:
    with pytest.raises(pixi.ConfigError) as caught:
        async with pixi.open_engine({"model": {"nam": "x", "temperature": 9}}):
            pytest.fail("it is open")
    assert [str(fault) for fault in caught.value.faults] == [
        "the given settings: [model] has no key 'nam'; did you mean 'name'?",
        "the given settings: model.temperature is 9; it must be a number from 0 to 5.",
    ]
    (tmp_path / "mine.toml").write_text("[model]\nnam = 'x'\n", encoding="utf-8")
    with pytest.raises(pixi.ConfigError, match=r"mine\.toml, line 2"):
        async with pixi.open_engine(str(tmp_path / "mine.toml")):
            pytest.fail("it is open")
