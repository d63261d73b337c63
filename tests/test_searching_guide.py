"""docs/wikis.md and the search part of docs/web.md keep their word: settings, tools, books."""

import asyncio
import shlex
import time
from pathlib import Path

import pytest

from pixi.addons.web import EngineSearch, web_search_tool
from pixi.addons.wiki import tool_names
from pixi.cli import frame
from pixi.core.llm import Usage
from pixi.core.spending import UsageEntry, day_of, way_of_searching
from pixi.settings import load
from pixi.settings.sections import WebSearchSettings
from pixi.store.sqlite import SqliteStore
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox
from pixi.web.search_engines import DuckDuckGo
from tests.pages import ROOT, blocks, code, read_page, section

WIKIS = read_page(ROOT / "docs" / "wikis.md")
SEARCH = section(read_page(ROOT / "docs" / "web.md"), "Search")


def test_the_settings_of_wikis_are_taken(tmp_path: Path) -> None:
    (block,) = blocks(WIKIS, "toml")
    (tmp_path / "pixi.toml").write_text(block.text, encoding="utf-8")
    settings = load(environ={}, folder=tmp_path)
    assert {name: each.url for name, each in settings.wiki.items()} == {
        "wikipedia": "",
        "minecraft": "https://minecraft.wiki",
    }
    assert settings.wiki["minecraft"].personas == ("pixi",)


def test_the_settings_of_the_search_are_taken(tmp_path: Path) -> None:
    (block,) = blocks(SEARCH, "toml")
    (tmp_path / "pixi.toml").write_text(block.text, encoding="utf-8")
    settings = load(environ={}, folder=tmp_path).web_search
    assert settings.engine == "duckduckgo"
    assert settings.results == WebSearchSettings().results


def test_the_tools_are_called_as_told() -> None:
    named = {line.partition("(")[0] for line in code(WIKIS) if line.endswith(")")}
    assert set(tool_names("minecraft")) <= named
    toolbox = Toolbox()
    setup = web_search_tool(
        EngineSearch(DuckDuckGo()), toolbox.mask, results=5, price=None, personas=None, reads_pages=False
    )
    setup(Addon(CommandRegistry(), toolbox))
    (tool,) = toolbox
    assert f"{tool.name}({', '.join(tool.schema.parameters['properties'])})" in set(code(SEARCH))


def test_the_books_show_each_way_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    day = day_of(time.time())
    used = UsageEntry(
        day, "11", model="gpt-5-mini", messages=31, usage=Usage(214_000, 130_540, 5_120), cost=0.0468
    )
    native = UsageEntry(day, "11", model=way_of_searching("native"), usage=Usage(searches=12), cost=0.12)
    own = UsageEntry(day, "11", model=way_of_searching("duckduckgo"), usage=Usage(searches=3))

    async def enter() -> None:
        store = await SqliteStore.open(tmp_path / "pixi.db")
        await store.spend([used, native, own])
        await store.close()

    asyncio.run(enter())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shown = next(block.text for block in blocks(SEARCH) if block.text.startswith("$ "))
    command, _, told = shown.partition("\n")
    assert frame.run(shlex.split(command.removeprefix("$ pixi-persona "))) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed[: len(told.splitlines())] == told.splitlines()
