"""The tools of a server's history come and go with the setting, whole or not at all."""

from pathlib import Path
from unittest import mock

import pytest

from pixi.addons.server_history import SOURCE
from pixi.app.databases import DatabasePool
from pixi.app.integrations import Integrations
from pixi.app.tool_integrations import apply_history
from pixi.core.errors import ConfigError
from pixi.engine.engine import Engine
from pixi.settings import Settings, load
from pixi.testing import ScriptedModel
from tests.engine.scene import scene

TOOLS = {"search_messages", "search_forum", "read_pins", "read_messages"}


def settings(folder: Path, *, read: bool) -> Settings:
    return load(environ={}, folder=folder, overrides={"discord.read_history": read})


def integrations_of(engine: Engine) -> Integrations:
    library = mock.Mock(spec=DatabasePool)
    return Integrations(engine.addon, engine.tools, engine.settings, library, pytest.fail)


async def test_they_come_and_go(tmp_path: Path) -> None:
    async with scene(ScriptedModel()) as here:
        integrations = integrations_of(here.engine)
        for read in (False, True, True, False, True):
            await apply_history(integrations, settings(tmp_path, read=read))
            assert SOURCE in here.engine.tools.sources, "a persona may name it, also where it is off"
            there = {tool.name for tool in here.engine.tools if tool.source == SOURCE}
            assert there == (TOOLS if read else set())


async def test_where_a_name_is_taken_none_of_them_comes(tmp_path: Path) -> None:
    async with scene(ScriptedModel()) as here:

        @here.engine.addon.tool
        async def read_pins(context: object) -> str:
            """Somebody else's."""
            return "mine"

        with pytest.raises(ConfigError, match="'read_pins': the name is taken"):
            await apply_history(integrations_of(here.engine), settings(tmp_path, read=True))
        assert {tool.name for tool in here.engine.tools} == {"read_pins"}
