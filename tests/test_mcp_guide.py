"""docs/mcp.md keeps its word: its settings hold, and its examples of what is told are what is told."""

import re
import tomllib
from pathlib import Path

import pytest

from pixi.app.mcp_integration import server_addresses
from pixi.settings import load
from pixi.settings.sections import McpSettings
from tests.pages import ROOT, blocks, read_page

GUIDE = read_page(ROOT / "docs" / "mcp.md")
EXAMPLES = [block.text for block in blocks(GUIDE, "toml")]


@pytest.mark.parametrize("text", EXAMPLES)
def test_settings_of_the_page_hold(text: str, tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(text, encoding="utf-8")
    settings = load(environ={}, folder=tmp_path)
    if settings.mcp:
        assert set(server_addresses(settings)) == set(tomllib.loads(text)["mcp"])


def test_the_first_command_line_is_shown_as_doctor_shows_it(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(EXAMPLES[0], encoding="utf-8")
    where = server_addresses(load(environ={}, folder=tmp_path))["time"]
    assert f"ok   mcp.time — {where.shown}: 2 tools; used for the first time" in GUIDE


def test_headers_from_the_file_of_secrets(tmp_path: Path) -> None:
    (dotenv,) = [block.text for block in blocks(GUIDE) if block.text.startswith("# .env")]
    (tmp_path / ".env").write_text(dotenv.replace("…", "canary"), encoding="utf-8")
    (tmp_path / "pixi.toml").write_text(EXAMPLES[1], encoding="utf-8")
    headers = load(environ={}, folder=tmp_path).mcp["tracker"].headers
    assert {name: secret.reveal() for name, secret in headers.items()} == {"Authorization": "Bearer canary"}


def test_each_key_is_told_with_its_default() -> None:
    rows = [line for line in GUIDE.splitlines() if line.startswith("| `")]
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert told >= {"command", "args", "env", "folder", "url", "type", "headers", "tools", "reads"}
    (seconds,) = [row for row in rows if row.startswith("| `seconds`")]
    assert f"{McpSettings().seconds:g}" in seconds
