"""docs/discord.md keeps its word: settings, commands, examples and lines of the log are as it says."""

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from pixi.app.doctor.servers import NOT_SET_UP
from pixi.app.logs import log_turn
from pixi.channels.discord.slash.commands import COMMANDS
from pixi.channels.discord.slash.translations import Translations
from pixi.core.events import TurnReport
from pixi.core.llm import Usage
from pixi.settings import DiscordSettings, load
from tests.pages import ROOT, Block, blocks, read_page, section

GUIDE = read_page(ROOT / "docs" / "discord.md")


def rows(text: str) -> dict[str, list[str]]:
    """The rows of a table whose first cell is code, by it."""
    found = re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, re.MULTILINE)
    return {first: [cell.strip() for cell in rest.split(" | ")] for first, rest in found}


def in_toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def test_the_table_of_settings_is_all_of_them_with_their_defaults() -> None:
    # An empty cell stands between two bars.
    table = rows(section(GUIDE, "Settings").replace("| |", "| – |"))
    fields = {field.name: field.default for field in dataclasses.fields(DiscordSettings)}
    assert sorted(table) == sorted(fields)
    for name, (default, told, *_) in table.items():
        assert told
        if name != "token":
            assert default == f"`{in_toml(fields[name])}`", name


def test_the_table_of_commands_is_all_of_them() -> None:
    table = rows(section(GUIDE, "Commands"))
    assert sorted(table) == sorted(f"/{name.replace('.', ' ')}" for name in COMMANDS)


def test_the_languages_are_those_of_the_words() -> None:
    told = section(GUIDE, "Commands")
    languages = re.findall(r"English|German|Spanish|French|Japanese|Portuguese|Chinese", told)
    files = list((Path(ROOT) / "pixi" / "channels" / "discord" / "slash" / "translations").glob("*.toml"))
    assert len(set(languages)) == len(files)
    assert Translations().of("en-US").say("menus.why.name") in told


@pytest.mark.parametrize("block", blocks(GUIDE, "toml"), ids=lambda block: block.text.split("\n")[0])
def test_the_examples_of_settings_are_taken(tmp_path: Path, block: Block) -> None:
    (tmp_path / "pixi.toml").write_text(block.text, encoding="utf-8")
    settings = load(environ={}, folder=tmp_path)
    raw = tomllib.loads(block.text)
    if "models" in raw:
        assert list(settings.models) == ["house"]
        assert settings.model.prices is not None
        assert settings.model.prices.cached == raw["model"]["prices"]["cached"]


def test_a_variable_is_taken(tmp_path: Path) -> None:
    (name, value) = re.findall(r"`(PIXI_\w+)=(\w+)`", GUIDE)[0]
    assert load(environ={name: value}, folder=tmp_path).discord.dms is False


def test_the_line_of_the_log_is_as_it_is_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pixi.turns")
    usage = Usage(2_114, 1_920, 61)
    effects = {"send": 2, "react": 1}
    report = TurnReport(12, "C", "P", "Pixi", "gpt-5-mini", "stop", 1, usage, 0.00021, 2.9, 0.8, effects)
    log_turn(report)
    shown = re.findall(r"^14:03:22  info     turns  (.*)$", GUIDE, re.MULTILINE)[0]
    shown = shown.replace("219…", "P").replace("discord:104…:118…:pixi", "C")
    assert caplog.records[-1].message == shown


def test_the_lines_of_doctor_are_as_it_writes_them() -> None:
    from pixi.channels.discord.gateway.preflight import invitation

    assert "DISCORD_TOKEN" in NOT_SET_UP
    (link,) = re.findall(r"invite it with (\S+?)…", GUIDE)
    assert invitation(1, 2).startswith(link)
