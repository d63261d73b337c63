"""docs/start.md and docs/cli.md keep their word: settings are taken, and every command is in the table."""

import re
import tomllib
from pathlib import Path

from pixi.cli.frame import SUBCOMMANDS, load
from pixi.settings import load as load_settings
from tests.pages import ROOT, blocks, read_page, section
from tests.test_docs import complaint

START, CLI = (read_page(ROOT / "docs" / f"{name}.md") for name in ("start", "cli"))
(SETTINGS,) = blocks(section(START, "Settings"), "toml")


def test_the_settings_are_taken(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(SETTINGS.text, encoding="utf-8")
    settings = load_settings(environ={"OPENAI_API_KEY": "canary-1"}, folder=tmp_path)
    raw = tomllib.loads(SETTINGS.text)
    assert set(raw) == {"model", "persona", "limits"}
    assert settings.model.name == raw["model"]["name"]
    assert settings.model.base_url == raw["model"]["base_url"]
    assert settings.model.api_key is not None
    assert settings.model.api_key.reveal() == "canary-1"
    assert settings.persona.default == raw["persona"]["default"]
    assert settings.limits.messages == raw["limits"]["messages"]
    assert "canary-1" not in repr(settings)


def test_the_environment_comes_before_the_file_and_flags_before_all(tmp_path: Path) -> None:
    assert "`PIXI_MODEL__NAME`" in section(START, "Settings")
    (tmp_path / "pixi.toml").write_text(SETTINGS.text, encoding="utf-8")
    (tmp_path / ".env").write_text("PIXI_MODEL__NAME=dotted\n", encoding="utf-8")
    assert load_settings(environ={}, folder=tmp_path).model.name == "dotted"
    environ = {"PIXI_MODEL__NAME": "environed"}
    assert load_settings(environ=environ, folder=tmp_path).model.name == "environed"
    flags = {"model.name": "flagged"}
    assert load_settings(environ=environ, folder=tmp_path, overrides=flags).model.name == "flagged"


def test_the_table_of_subcommands_is_all_of_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", CLI, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(SUBCOMMANDS)
    for name, told in rows:
        for flag in re.findall(r"`(--[a-z-]+)(?: [A-Z]+)?`", told):
            # A flag that wants a value is taken with one, and some commands want words besides.
            tries = ([flag], [flag, "x"], [flag, "1"])
            said = [complaint([name, *words, *rest]) for words in tries for rest in ((), ("name", "why?"))]
            assert "" in said, f"{name} has no {flag}"
        assert load(name).HELP
