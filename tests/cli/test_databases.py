"""`pixi-persona databases`: all that is there, whatever state it is in."""

import json
import re
from pathlib import Path

import pytest

from pixi.app import databases
from tests.cli.conftest import Program

SHIPPED = {"pancakes", "pixi-manual", "茶"}


def put(folder: Path, **files: str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(data)


def only(home: Path, *names: str) -> None:
    """Leave out the shipped ones."""
    (home / "pixi.toml").write_text(f"[databases]\nnames = {json.dumps(names)}\n")


def test_the_shipped_ones_are_listed(program: Program) -> None:
    code, out, err = program("databases", "--check")
    assert (code, err) == (0, "")
    rows = [line for line in out.splitlines() if not line.startswith(" ")]
    assert rows[0].split() == ["database", "entries", "files", "size", "state", "folder"]
    assert {row.split()[0] for row in rows[1:]} == SHIPPED
    for row in rows[1:]:
        assert row.endswith("  ready  comes with Pixi"), row
        assert int(row.split()[1]) >= 5


def test_columns_stand_below_each_other(home: Path, program: Program) -> None:
    put(home / "databases" / "茶茶", a_md="# 一\n\n茶")
    put(home / "databases" / "zz", a_md="# one\n\ntea")
    only(home, "茶茶", "zz")
    _, out, _ = program("databases")
    chinese, latin = (line for line in out.splitlines() if line.startswith(("茶", "zz")))
    # Two characters of two cells each, and one entry, beside two of one cell.
    assert latin.index("ready") - chinese.index("ready") == 2
    assert "README.md in the folder would tell" in out


def test_a_folder_that_no_persona_names_is_told(home: Path, program: Program) -> None:
    for name in ("My Letters", "notes"):
        put(home / "databases" / name, a_md="# A\n\nbread\n")
    put(home / "personas", owl_md="---\ndatabases: [NOTES]\nbroken: yes\n---\nYou hoot.")
    _, out, _ = program("databases")
    told = "  no persona names it: `databases: [My Letters]` in its file lets a persona search here\n"
    assert out.count("no persona names it") == 1
    assert told in out[out.index("My Letters") : out.index("notes")]
    (home / "pixi.toml").write_text('[persona]\nfolder = "nowhere"\n')
    code, out, _ = program("databases")
    assert (code, "no persona names it" in out) == (0, False)


def test_what_is_wrong_is_told_and_the_rest_is_listed(home: Path, program: Program) -> None:
    folder = home / "databases" / "notes"
    put(folder, a_md="# A\n\nbread\n", b_json='{"broken": ', c_png=b"\x89PNG", d_png=b"\x89PNG")
    (home / "databases" / "empty").mkdir()
    only(home, "notes", "empty")
    code, out, err = program("databases")
    assert (code, err) == (0, "")
    notes = next(line for line in out.splitlines() if line.startswith("notes"))
    assert notes.split()[1:3] == ["1", "2"]
    assert re.search(r"^  b\.json: \S", out, re.MULTILINE)
    assert "  no documents, passed over: 2 .png\n" in out
    assert re.search(r"^empty +0 +0 +0 bytes +empty  ", out, re.MULTILINE)
    assert program("databases", "--check")[0] == 1


def test_json(home: Path, program: Program) -> None:
    put(home / "databases" / "My Notes", README_md="# My notes\n\nWhat I know.", a_md="# A\n\nbread\n")
    only(home, "my notes")
    code, out, _ = program("databases", "--json")
    (line,) = out.splitlines()
    assert code == 0
    assert json.loads(line) == {
        "name": "My Notes",
        "title": "My notes",
        "about": "What I know.",
        "folder": str(Path("databases", "My Notes")),
        "tools": ["search_my_notes_database", "query_my_notes_database"],
        "entries": 1,
        "files": 1,
        "bytes": 11,
        "state": "ready",
        "trouble": None,
        "passed_over": {},
        "faults": [],
    }


def test_names_of_strangers_drive_no_terminal(home: Path, program: Program) -> None:
    put(home / "databases" / "n\x1b[31m\n", README_md="# \x1b[2Jgone\n\n\x07 bell", a_md="x")
    code, out, _ = program("databases")
    assert code == 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert any(line.startswith("n\N{REPLACEMENT CHARACTER}[31m") for line in out.splitlines())


def test_a_large_one_is_not_waited_for(home: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / "databases" / "large", **{f"{number}_md": "word " * 50 for number in range(200)})
    only(home, "large")
    monkeypatch.setattr(databases, "EACH_SECONDS", 0.0)
    _, out, _ = program("databases")
    assert re.search(r"^large .* (not read yet|[\d,]+ to read) ", out, re.MULTILINE)


def test_there_are_none(home: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.knowledge.registry.shipped_folder", lambda: home / "nothing")
    code, out, _ = program("databases")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("There are none. Make a folder in databases")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('folder = "databasse"', "there is no such folder; do you mean"),
        ('names = ["pancaks"]', "do you mean `pancakes`?"),
    ],
)
def test_a_mistyped_name_is_told_with_the_nearest(
    home: Path, program: Program, settings: str, told: str
) -> None:
    (home / "databases").mkdir()
    (home / "pixi.toml").write_text(f"[databases]\n{settings}\n")
    code, out, err = program("databases")
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") <= 2


def test_a_folder_of_ones_own_beside_those_in_a_checkout_is_none_of_pixis(
    home: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.knowledge.registry.shipped_folder", lambda: home / "databases")
    put(home / "databases" / "letters", a_md="# A\n\nbread\n")
    _, out, _ = program("databases")
    assert "comes with Pixi" not in out
    assert "no persona names it: `databases: [letters]`" in out
