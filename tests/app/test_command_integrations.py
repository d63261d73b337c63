"""Integrations that bring commands: for any model, from the start on, where the settings want them."""

import subprocess
import sys
from pathlib import Path

import pytest

from pixi.app import open_engine
from pixi.app.personas import find_persona
from pixi.core.llm import SystemLine
from pixi.models.model import Traits
from pixi.settings import load
from pixi.testing import RecordingChannel, ScriptedModel
from tests.servers.scripted_gifs import moving
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream


async def test_a_talk_has_the_command_and_its_picture(tmp_path: Path) -> None:
    (tmp_path / "gifs").mkdir()
    (tmp_path / "gifs" / "cat.gif").write_bytes(moving())
    async with ScriptedOpenAI(stream("[GIF: cat]", finish())) as server:
        given = {
            "model.name": "scripted",
            "model.base_url": server.base_url,
            "gifs.engine": "folder",
            "store.url": f"sqlite:///{tmp_path}/pixi.db",
        }
        settings = load(environ={}, folder=tmp_path, overrides=given)
        channel = RecordingChannel()
        async with open_engine(settings, find_persona(settings)) as engine:
            await engine.receive(channel.message("hi"), channel)
            await engine.settled()
        assert [picture.words for picture in channel.pictures] == ["cat"]


async def test_a_model_without_tools_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gifs").mkdir()
    (tmp_path / "gifs" / "cat.gif").write_bytes(moving())
    given = {"gifs.engine": "folder", "web_pages.read": True, "store.url": f"sqlite:///{tmp_path}/pixi.db"}
    settings = load(environ={}, folder=tmp_path, overrides=given)
    model = ScriptedModel("[GIF: cat]\n[SEND: Hi.]", traits=Traits(small=True, tools=False))

    async def opened(*_: object, **__: object) -> ScriptedModel:
        return model

    monkeypatch.setattr("pixi.app.building.open_model", opened)
    channel = RecordingChannel()
    async with open_engine(settings, find_persona(settings)) as engine:
        await engine.receive(channel.message("hi"), channel)
        await engine.settled()
        assert engine.tools.get("read_page") is None
    told = model.requests[0].lines[0]
    assert isinstance(told, SystemLine)
    assert "You can also write [GIF: words]." in told.text
    assert '"[GIF: " line "]"' in (model.requests[0].grammar or "")
    assert [picture.words for picture in channel.pictures] == ["cat"]


def test_pictures_alone_import_nothing_that_reads_and_searches_the_web() -> None:
    code = "import sys, pixi.app.command_integrations; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "pixi.addons.pictures" in imported
    assert not {"pixi.addons.web", "pixi.web.pages", "pixi.web.search_engines", "pixi.web.wiki"} & {*imported}
