"""`pixi-persona personas`: the list, and what is wrong with any of them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Program

ROOT = Path(__file__).parents[2]
SHIPPED = ["edda.md", "laoqin.md", "pixi.md"]

Personas = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "personas").mkdir()
    return home


@pytest.fixture
def personas(program: Program) -> Personas:
    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(flags, *program("personas", *flags))

    return run


def test_the_shipped_ones_are_listed_in_columns(folder: Path, personas: Personas) -> None:
    done = personas("--check")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    lines = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == ["Edda", "老秦", "Pixi"]
    assert lines[2].startswith("Pixi  ")
    assert lines[2].endswith("an art student on a small island who loves cats and pancakes")
    assert "  pixi.md (comes with Pixi)  " in lines[2]
    columns = [line.index(name) for line, name in zip(lines, SHIPPED, strict=True)]
    assert columns[0] == columns[1] + 2 == columns[2]  # two of them are two cells wide


def test_what_the_bundled_model_takes_from_a_persona_is_told(folder: Path, personas: Personas) -> None:
    (folder / "pixi.toml").write_text('[model]\nname = "local"\n')
    rows = [line.strip() for line in personas().stdout.splitlines() if "on the bundled model" in line]
    assert [row.endswith("it does not know zh-CN") for row in rows] == [False, True, False]
    assert "no tools, no notes, no memory of people; when asked, it quotes pancakes" in rows[2]
    (folder / "pixi.toml").write_text('[model]\nname = "m"\nbase_url = "http://127.0.0.1:1/v1"\n')
    assert "on the bundled model" not in personas().stdout


def test_what_is_wrong_is_said_and_the_others_are_listed(folder: Path, personas: Personas) -> None:
    (folder / "personas" / "a.md").write_text("---\nnmae: A\n---\nYou dig.")
    (folder / "personas" / "pixi.md").write_text("You are my Pixi.\n\n## Examples\n\n> hi\n\nhello\n")
    done = personas()
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(" {3,}", "  ", done.stdout.replace("\\", "/"))
    assert text.startswith(
        "a  personas/a.md  broken\n  personas/a.md:2: unknown key `nmae`: do you mean `name`?\n"
    )
    assert "pixi  personas/pixi.md\n  personas/pixi.md:7: this reply holds no command: " in text
    assert "an art student" not in text  # the shipped one is hidden by the own one
    assert "Edda" in text
    assert personas("--check").returncode == 1


@pytest.mark.nightly
def test_an_installed_package_brings_its_own(home: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(ROOT / "pixi", site / "pixi", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    shutil.copytree(ROOT / "personas", site / "pixi" / "shipped" / "personas")
    done = subprocess.run(
        [sys.executable, "-m", "pixi", "personas", "--json"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    files = [json.loads(line)["file"] for line in done.stdout.splitlines()]
    assert files == [str(site / "pixi" / "shipped" / "personas" / name) for name in SHIPPED]


def test_json(folder: Path, personas: Personas) -> None:
    (folder / "personas" / "a.md").write_text("---\nnmae: A\n---\nYou dig.")
    (folder / "personas" / "b.md").write_text("---\nname: Bé\nabout: x\n---\nYou {{dig}}.", encoding="utf-8")
    done = personas("--json")
    assert done.returncode == 0
    broken, amiss, *shipped = [json.loads(line) for line in done.stdout.splitlines()]
    assert broken == {
        "name": None,
        "file": os.path.join("personas", "a.md"),
        "about": None,
        "language": None,
        "databases": None,
        "tools": None,
        "examples": None,
        "faults": [f"{os.path.join('personas', 'a.md')}:2: unknown key `nmae`: do you mean `name`?"],
        "remarks": [],
    }
    assert (amiss["name"], amiss["about"], amiss["examples"], amiss["faults"]) == ("Bé", "x", 0, [])
    assert [remark["line"] for remark in amiss["remarks"]] == [5]
    assert [each["name"] for each in shipped] == ["Edda", "老秦", "Pixi"]


def test_what_a_persona_looks_things_up_in_is_told_and_what_is_missing(
    folder: Path, personas: Personas
) -> None:
    (folder / "databases" / "Tea Notes").mkdir(parents=True)
    (folder / "personas" / "a.md").write_text(
        "---\nname: A\ndatabases: [tea notes, pancaks]\ntools: [recall]\n---\nYou dig.", encoding="utf-8"
    )
    done = personas()
    text = done.stdout.replace("\\", "/")
    assert "  looks things up in tea notes, pancaks\n  has the tools recall\n" in text
    assert "  personas/a.md:3: there is no database `pancaks` in databases or Pixi's own folder: " in text
    assert "do you mean `pancakes`?" in text
    assert "tea notes`" not in text
    assert personas("--check").returncode == 1
    found = json.loads(personas("--json").stdout.splitlines()[0])
    assert (found["databases"], found["tools"]) == (["tea notes", "pancaks"], ["recall"])
    (folder / "pixi.toml").write_text('[databases]\nnames = ["pancakes"]\n')
    assert "`names` of [databases] leaves out" in personas().stdout


def test_a_folder_that_somebody_named_must_be_there(folder: Path, personas: Personas) -> None:
    (folder / "pixi.toml").write_text('[persona]\nfolder = "person"\n')
    done = personas()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "there is no such folder of personas" in done.stderr
    assert done.stderr.count("\n") <= 2
    (folder / "person").mkdir()
    assert personas().returncode == 0


def test_a_command_that_some_setting_would_bring_is_remarked_on_and_no_fault(
    folder: Path, personas: Personas
) -> None:
    path = folder / "personas" / "a.md"
    path.write_text("---\nname: A\ncommands: [send, gif, sticker]\n---\nYou dig.", encoding="utf-8")
    text = personas().stdout.replace("\\", "/")
    goes = "  personas/a.md:3: it goes without the command"
    assert f"{goes} gif, which [gifs] engine would bring\n" in text
    assert f"{goes} sticker, which [discord] stickers would bring\n" in text
    (folder / "pixi.toml").write_text('[gifs]\nengine = "folder"\n[discord]\nstickers = true\n')
    assert "goes without" not in personas().stdout


def test_every_command_and_tool_that_is_not_there_is_remarked_on(folder: Path, personas: Personas) -> None:
    (folder / "kitchen.py").write_text(KITCHEN)
    path = folder / "personas" / "a.md"
    path.write_text(
        "---\nname: A\ntools: [recal, convert, bake]\ncommands: [send, wvae]\npace: x\n---\nYou dig."
    )

    def told() -> list[str]:
        lines = personas().stdout.replace("\\", "/").splitlines()
        return [line.strip() for line in lines if "personas/a.md:" in line]

    wrong, *broken = told()
    assert wrong.startswith("personas/a.md:5: `pace`")
    path.write_text(path.read_text().replace("pace: x\n", ""))
    assert told() == broken
    assert broken == [
        "personas/a.md:3: no tool 'recal'; did you mean 'recall'?",
        "personas/a.md:3: no tool 'convert'; remove it, or load the addon that brings it.",
        "personas/a.md:3: no tool 'bake'; remove it, or load the addon that brings it.",
        "personas/a.md:4: no command 'wvae'; remove it, or load the addon that brings it.",
    ]
    (folder / "pixi.toml").write_text('addons = ["kitchen.py"]\n[mcp.bake]\nurl = "http://127.0.0.1:1/mcp"\n')
    path.write_text("---\nname: A\ntools: [convert, bake_bread, 'mcp:bake', recall]\n---\nYou dig.")
    assert "no tool '" not in personas().stdout


def test_an_addon_that_prints_leaves_the_json_whole(folder: Path, personas: Personas) -> None:
    (folder / "kitchen.py").write_text(f"print('canary')\n{KITCHEN}")
    (folder / "pixi.toml").write_text('addons = ["kitchen.py"]\n')
    done = personas("--json")
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()]
    assert "canary" in done.stderr


KITCHEN = """
def setup(addon):
    @addon.tool
    async def convert(context, cups: float) -> str:
        "Cups to millilitres."
        return f"{cups * 240} ml"
"""
