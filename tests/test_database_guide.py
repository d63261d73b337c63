"""docs/databases.md keeps its word: formats, limits, settings, commands and what they print."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from pixi.cli import frame
from pixi.documents import SUFFIXES, FileLimits
from pixi.knowledge.registry import databases_in, shipped_folder
from pixi.settings import load
from tests.pages import ROOT, blocks, read_page, section

GUIDE = read_page(ROOT / "docs" / "databases.md")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the examples, as `init` makes it."""
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()):
        assert frame.run(["init"]) == 0
    return tmp_path


def test_the_table_names_all_that_can_be_read() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| ((?:`\.[\w.]+` ?)+) \|", section(GUIDE, "What can be read"), re.MULTILINE
    )
    named = [suffix for row in rows for suffix in re.findall(r"`([^`]+)`", row)]
    assert sorted(named) == sorted(SUFFIXES)


def test_the_table_of_limits_is_as_they_are() -> None:
    limits, mib = FileLimits(), 1024 * 1024
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+)", section(GUIDE, "What is set aside"), re.MULTILINE)
    told = [int(number.replace(",", "")) for _, number in rows]
    assert told == [
        limits.file_bytes // mib,
        limits.unpacked_bytes // mib,
        limits.seconds,
        limits.megabytes,
        limits.records,
    ]


def test_the_folder_shown_is_the_one_that_init_makes(home: Path) -> None:
    tree = blocks(GUIDE)[0].text.split()
    made = {path.name for path in (home / "databases" / "trolley").iterdir()}
    assert tree == ["databases/", "trolley/", "README.md", "teas.md"]
    assert made == {"README.md", "teas.md"}


def test_the_search_prints_what_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(block.text for block in blocks(GUIDE) if block.text.startswith("$ "))
    command, _, told = shown.partition("\n")
    assert frame.run(shlex.split(command.removeprefix("$ pixi-persona "))) == 0
    printed = capsys.readouterr().out
    # The page cuts the snippet where its line is full.
    *before, snippet = told.rstrip("\n").split("\n")
    assert printed.split("\n")[: len(before)] == before
    assert printed.split("\n")[len(before)].startswith(snippet)


def test_the_ids_shown_are_those_that_are_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["search", "trolley", "ginger"]) == 0
    number = capsys.readouterr().out.split()[0]
    assert set(re.findall(r"--ids (\d+)", GUIDE)) == {number}


def test_the_settings_are_taken(tmp_path: Path) -> None:
    (block,) = blocks(section(GUIDE, "Settings"), "toml")
    text = re.sub(r"^# (?=names)", "", block.text, flags=re.MULTILINE)
    (tmp_path / "pixi.toml").write_text(text, encoding="utf-8")
    settings = load(environ={}, folder=tmp_path)
    assert settings.databases.names == ("trolley", "茶")
    assert settings.helper_model.name == "gpt-5-nano"
    assert settings.embedding_model is not None


def test_those_that_come_along_are_all_told() -> None:
    told = re.findall(r"^- `([^`]+)`", section(GUIDE, "The included databases"), re.MULTILINE)
    assert sorted(told) == sorted(each.name for each in databases_in([shipped_folder()]))


def test_the_python_example_runs(home: Path) -> None:
    (block,) = blocks(GUIDE, "python")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=block.text.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    hit, entry = done.stdout.decode().splitlines()
    assert hit.startswith("Teas on the trolley teas.md ")
    assert "talk in their sleep" in hit
    assert re.fullmatch(r"teas\.md \d", entry)
