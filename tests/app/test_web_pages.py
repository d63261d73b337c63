"""The tool that reads pages comes and goes with the settings, while a bot runs."""

from pathlib import Path

import pytest

from pixi.app import tool_integrations
from pixi.app.reload import SettingsReloader
from tests.app.scene import hello, persona_file, reading, service_in, settings_file
from tests.servers.scripted_openai import ScriptedOpenAI

READ = "[web_pages]\nread = true\n"


async def test_it_goes_by_new_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    persona_file(tmp_path, "pixi")
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            tools, reloading = service.engine.tools, SettingsReloader(service, reading(tmp_path), tmp_path)
            assert tools.get("read_page") is None

            settings_file(tmp_path, server, READ)
            await reloading.reload()
            first = tools.get("read_page")
            assert first is not None
            assert first.personas == ("*",)

            settings_file(tmp_path, server, f"{READ}robots = false\n")
            await reloading.reload()
            assert tools.get("read_page") is first  # pages are fetched otherwise; the tool is the same

            settings_file(tmp_path, server, f'{READ}characters = 900\npersonas = ["pixi"]\n')
            await reloading.reload()
            again = tools.get("read_page")
            assert again is not None
            assert again is not first
            assert again.personas == ("pixi",)

            monkeypatch.setattr(tool_integrations, "find_spec", lambda name: None)
            caplog.clear()
            settings_file(tmp_path, server, READ)
            await reloading.reload()
            assert 'needs `pip install "pixi-persona[web]"`' in caplog.text
            assert tools.get("read_page") is again

            settings_file(tmp_path, server)
            await reloading.reload()
            assert tools.get("read_page") is None


async def test_it_goes_with_settings_that_had_a_fault_once_those_before_are_back(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi")
    wikis = '[wiki."a-b"]\nurl = "http://a.example"\n[wiki.a_b]\nurl = "http://b.example"\n'
    async with ScriptedOpenAI(choose=hello) as server:
        settings_file(tmp_path, server)
        async with service_in(tmp_path) as service:
            tools, reloading = service.engine.tools, SettingsReloader(service, reading(tmp_path), tmp_path)
            settings_file(tmp_path, server, f"{READ}{wikis}")
            assert "their tools would both be called" in await reloading.reload()
            assert tools.get("read_page") is not None
            settings_file(tmp_path, server, f'{READ}[persona]\ndefault = "nobody"\n')
            assert "nobody" in await reloading.reload()
            settings_file(tmp_path, server)
            assert await reloading.reload() == ""
            assert tools.get("read_page") is None
