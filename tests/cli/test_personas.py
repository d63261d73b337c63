"""`pixi-persona personas`, as a person starts it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ["edda.md", "laoqin.md", "pixi.md"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "personas").mkdir()
    return tmp_path


def personas(folder: Path, *flags: str, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PIXI_")}
    return subprocess.run(
        [sys.executable, "-m", "pixi", "personas", *flags],
        cwd=folder,
        env=environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_shipped_ones_are_listed_in_columns(folder: Path) -> None:
    done = personas(folder, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    lines = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == ["Edda", "老秦", "Pixi"]
    assert lines[2].startswith("Pixi  ")
    assert lines[2].endswith("an art student on a small island who loves cats and pancakes")
    assert "  pixi.md (comes with Pixi)  " in lines[2]
    columns = [line.index(name) for line, name in zip(lines, SHIPPED, strict=True)]
    assert columns[0] == columns[1] + 2 == columns[2]  # two of them are two cells wide


def test_what_is_wrong_is_said_and_the_others_are_listed(folder: Path) -> None:
    (folder / "personas" / "a.md").write_text("---\nnmae: A\n---\nYou dig.")
    (folder / "personas" / "pixi.md").write_text("You are my Pixi.\n\n## Examples\n\n> hi\n\nhello\n")
    done = personas(folder)
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(" {3,}", "  ", done.stdout.replace("\\", "/"))
    assert text.startswith(
        "a  personas/a.md  broken\n  personas/a.md:2: unknown key `nmae`: do you mean `name`?\n"
    )
    assert "pixi  personas/pixi.md\n  personas/pixi.md:7: this reply holds no command: " in text
    assert "an art student" not in text  # the shipped one is hidden by the own one
    assert "Edda" in text
    assert personas(folder, "--check").returncode == 1


def test_an_installed_package_brings_its_own(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(ROOT / "pixi", site / "pixi", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    shutil.copytree(ROOT / "personas", site / "pixi" / "shipped" / "personas")
    done = personas(folder, "--json", source=site)
    files = [json.loads(line)["file"] for line in done.stdout.splitlines()]
    assert files == [str(site / "pixi" / "shipped" / "personas" / name) for name in SHIPPED]


def test_json(folder: Path) -> None:
    (folder / "personas" / "a.md").write_text("---\nnmae: A\n---\nYou dig.")
    (folder / "personas" / "b.md").write_text("---\nname: Bé\nabout: x\n---\nYou {{dig}}.", encoding="utf-8")
    done = personas(folder, "--json")
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
        "fault": f"{os.path.join('personas', 'a.md')}:2: unknown key `nmae`: do you mean `name`?",
        "remarks": [],
    }
    assert (amiss["name"], amiss["about"], amiss["examples"], amiss["fault"]) == ("Bé", "x", 0, None)
    assert [remark["line"] for remark in amiss["remarks"]] == [5]
    assert [each["name"] for each in shipped] == ["Edda", "老秦", "Pixi"]


def test_what_a_persona_looks_things_up_in_is_told_and_what_is_missing(folder: Path) -> None:
    (folder / "databases" / "Tea Notes").mkdir(parents=True)
    (folder / "personas" / "a.md").write_text(
        "---\nname: A\ndatabases: [tea notes, pancaks]\ntools: [recall]\n---\nYou dig.", encoding="utf-8"
    )
    done = personas(folder)
    text = done.stdout.replace("\\", "/")
    assert "  looks things up in tea notes, pancaks\n  has the tools recall\n" in text
    assert "  personas/a.md:3: there is no database `pancaks` in databases or Pixi's own folder: " in text
    assert "do you mean `pancakes`?" in text
    assert "tea notes`" not in text
    assert personas(folder, "--check").returncode == 1
    found = json.loads(personas(folder, "--json").stdout.splitlines()[0])
    assert (found["databases"], found["tools"]) == (["tea notes", "pancaks"], ["recall"])
    (folder / "pixi.toml").write_text('[databases]\nnames = ["pancakes"]\n')
    assert "`names` of [databases] leaves out" in personas(folder).stdout


def test_a_folder_that_somebody_named_must_be_there(folder: Path) -> None:
    (folder / "pixi.toml").write_text('[persona]\nfolder = "person"\n')
    done = personas(folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "there is no such folder of personas" in done.stderr
    assert done.stderr.count("\n") <= 2
    (folder / "person").mkdir()
    assert personas(folder).returncode == 0


def test_a_command_that_some_setting_would_bring_is_remarked_on_and_no_fault(folder: Path) -> None:
    path = folder / "personas" / "a.md"
    path.write_text("---\nname: A\ncommands: [send, gif, sticker]\n---\nYou dig.", encoding="utf-8")
    text = personas(folder).stdout.replace("\\", "/")
    goes = "  personas/a.md:3: it goes without the command"
    assert f"{goes} gif, which [gifs] engine would bring\n" in text
    assert f"{goes} sticker, which [discord] stickers would bring\n" in text
    (folder / "pixi.toml").write_text('[gifs]\nengine = "folder"\n[discord]\nstickers = true\n')
    assert "goes without" not in personas(folder).stdout
