"""The README keeps its word: each of its examples runs as it stands."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from pixi import Engine, Persona
from pixi.addons.loading import GROUP, from_file, load_addons
from pixi.cli.frame import SUBCOMMANDS, load
from pixi.core.language import CommandEnded, CommandStream
from pixi.personas.files import Loaded, load_persona
from pixi.personas.shelf import list_personas, shipped_folder
from pixi.settings import load as load_settings
from pixi.testing import RecordingChannel, ScriptedModel
from tests.pages import ROOT, blocks, read_page, section
from tests.test_docs import complaint

README = read_page(ROOT / "README.md")

# What the README says of addons without an example.
MORE = """
    @wave.on_open
    async def opened(context):
        await context.send("*lifts a hand*")

    @addon.tool
    async def roll(context, sides: int) -> int:
        'Roll a die.'
        return sides
"""


def block(heading: str, kind: str) -> str:
    """The one block of a kind in a section."""
    (found,) = blocks(section(README, heading), kind)
    return found.text


def test_the_first_example_is_commands() -> None:
    first = blocks(README)[0].text
    stream = CommandStream()
    events = [*stream.feed(first), *stream.close()]
    ended = [event for event in events if isinstance(event, CommandEnded)]
    assert [event.name for event in ended] == ["note", "react", "send", "send"]
    assert all(event.complete for event in ended)


def test_the_python_example_prints_what_it_says() -> None:
    example = block("In Python", "python")
    (told,) = re.findall(r"print\(.*?\)  # (.*)$", example, re.MULTILINE)
    # In a process of its own, with every warning an error: as somebody who copies it would run it.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=example.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == told + "\n"


async def test_the_addon_loads_and_waves(tmp_path: Path) -> None:
    file = tmp_path / "wave.py"
    file.write_text(block("Commands of your own", "python"), encoding="utf-8")
    model = ScriptedModel("[WAVE: both hands]\n[SEND: hey]")
    channel = RecordingChannel()
    async with Engine(model=model, persona=Persona("Pixi", "You are Pixi.")) as engine:
        assert load_addons([from_file(file)], engine.commands, engine.tools) == []
        await engine.receive(channel.message("hi"), channel)
        await engine.settled()
        wave = engine.commands.get("wave")
    assert channel.sent == ["*waves both hands*", "hey"]
    assert wave is not None
    assert "wave at the person" in wave.description
    assert f"[WAVE: how] {wave.description}" in str(model.requests[0].lines[0])


async def test_the_addon_may_say_what_happens_when_it_opens(tmp_path: Path) -> None:
    told = section(README, "Commands of your own")
    assert "`@wave.on_open`" in told
    assert "`@addon.tool`" in told
    assert f"`{GROUP}`" in told
    file = tmp_path / "wave.py"
    file.write_text(block("Commands of your own", "python") + MORE, encoding="utf-8")
    channel = RecordingChannel()
    async with Engine(model=ScriptedModel("[WAVE: x]"), persona=Persona("Pixi", "You are Pixi.")) as engine:
        assert load_addons([from_file(file)], engine.commands, engine.tools) == []
        assert engine.tools.get("roll") is not None
        await engine.receive(channel.message("hi"), channel)
        await engine.settled()
    assert channel.sent == ["*lifts a hand*", "*waves x*"]


def test_the_persona_is_read_without_a_remark(tmp_path: Path) -> None:
    file = tmp_path / "mathilde.md"
    file.write_text(block("Write a persona", "markdown"), encoding="utf-8")
    loaded = load_persona(file)
    assert loaded.remarks == ()
    assert loaded.persona.name == "Mathilde"
    assert [example.said for example in loaded.persona.examples] == ["hello!"]


def test_the_personas_that_come_along_are_named() -> None:
    names = [found.persona.name for found in list_personas([shipped_folder()]) if isinstance(found, Loaded)]
    assert len(names) == 3
    assert all(f"**{name}**" in section(README, "Write a persona") for name in names)


def test_parse_prints_what_it_says() -> None:
    (shown,) = (b.text for b in blocks(section(README, "Write a persona")) if b.text.startswith("$ "))
    command, printed = shown.removeprefix("$ ").split("\n", 1)
    words = command.replace("pixi-persona", f"'{sys.executable}' -m pixi")
    done = subprocess.run(["sh", "-c", words], capture_output=True, check=True, cwd=ROOT, timeout=60)
    assert done.stdout.decode() == printed


def test_the_settings_are_taken(tmp_path: Path) -> None:
    text = block("Settings", "toml")
    (tmp_path / "pixi.toml").write_text(text, encoding="utf-8")
    settings = load_settings(environ={"OPENAI_API_KEY": "canary-1"}, folder=tmp_path)
    raw = tomllib.loads(text)
    assert set(raw) == {"model", "persona", "limits"}
    assert settings.model.name == raw["model"]["name"]
    assert settings.model.base_url == raw["model"]["base_url"]
    assert settings.model.api_key is not None
    assert settings.model.api_key.reveal() == "canary-1"
    assert settings.persona.default == raw["persona"]["default"]
    assert settings.limits.messages == raw["limits"]["messages"]
    assert "canary-1" not in repr(settings)


def test_the_environment_comes_before_the_file_and_flags_before_all(tmp_path: Path) -> None:
    assert "`PIXI_MODEL__NAME`" in section(README, "Settings")
    (tmp_path / "pixi.toml").write_text(block("Settings", "toml"), encoding="utf-8")
    (tmp_path / ".env").write_text("PIXI_MODEL__NAME=dotted\n", encoding="utf-8")
    assert load_settings(environ={}, folder=tmp_path).model.name == "dotted"
    environ = {"PIXI_MODEL__NAME": "environed"}
    assert load_settings(environ=environ, folder=tmp_path).model.name == "environed"
    flags = {"model.name": "flagged"}
    assert load_settings(environ=environ, folder=tmp_path, overrides=flags).model.name == "flagged"


def test_the_table_of_subcommands_is_all_of_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section(README, "As a package"), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(SUBCOMMANDS)
    for name, told in rows:
        for flag in re.findall(r"`(--[a-z-]+)(?: [A-Z]+)?`", told):
            # A flag that wants a value is taken with one, and some commands want words besides.
            tries = ([flag], [flag, "x"], [flag, "1"])
            said = [complaint([name, *words, *rest]) for words in tries for rest in ((), ("name", "why?"))]
            assert "" in said, f"{name} has no {flag}"
        assert load(name).HELP


def test_the_parser_alone_needs_nothing_but_rapidfuzz() -> None:
    told = section(README, "In Python")
    assert "`from pixi import CommandStream`" in told
    assert "no dependency but rapidfuzz" in told
    code = "import sys\nold = {*sys.modules}\nfrom pixi import CommandStream\nprint(*{*sys.modules} - old)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    installed = packages_distributions()
    packages = {package.lower() for name in loaded for package in installed.get(name, ())}
    assert packages - {"pixi-persona"} == {"rapidfuzz"}
    assert "asyncio" not in loaded
