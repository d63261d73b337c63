"""Finding personas by name: which folder wins, what a broken file does to the others, and bad folders."""

import os
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.personas.files import (
    BrokenPersona,
    LoadedPersona,
    find_persona,
    list_personas,
    persona_folders,
    shipped_folder,
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


def put(folder: Path, file: str, name: str = "", prompt: str = "You dig.") -> Path:
    path = folder / file
    path.write_text(f"---\nname: {name}\n---\n{prompt}\n", encoding="utf-8")
    return path


def complaint(name: str, *folders: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        find_persona(name, folders)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["mole", "Mole", "MOLE", "mole.md", "der maulwurf", "Der  Maulwurf"])
def test_a_persona_is_found_by_its_file_or_its_name(own: Path, name: str) -> None:
    path = put(own, "mole.md", "Der Maulwurf")
    assert find_persona(name, [own]).origin == str(path)


def test_accents_may_be_spelt_in_two_ways(own: Path) -> None:
    put(own, "rene\u0301.md", "Rene\u0301")
    assert find_persona("Ren\u00e9", [own]).prompt == "You dig."


def test_a_path_is_a_path(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(own, "mole.md", prompt="at the path")
    put(own, "mole", prompt="without an ending")
    monkeypatch.chdir(own)
    monkeypatch.setenv("HOME", str(own))
    assert find_persona(str(own / "mole.md"), []).prompt == "at the path"
    assert find_persona("mole.md", []).prompt == "at the path"
    assert find_persona("./mole", []).prompt == "without an ending"
    assert find_persona("~/mole.md", []).prompt == "at the path"
    assert complaint("./none.md") == "none.md: there is no such file; check the path."
    assert complaint(str(own)) == f"{own}: this is a folder; name a file in it."
    assert complaint("~nobody-of-that-name/mole.md").startswith("~nobody-of-that-name/mole.md: ")


def test_an_earlier_folder_wins_by_file_and_by_name(own: Path, other: Path) -> None:
    put(own, "mine.md", "Pixi", "my own Pixi")
    put(own, "edda.md", "Edda Two", "my own Edda")
    put(other, "pixi.md", "Pixi", "theirs")
    put(other, "edda.md", "Edda", "theirs")
    put(other, "mo.md", "Mo", "theirs")
    found = list_personas([own, other])
    assert [each.path.name for each in found] == ["edda.md", "mine.md", "mo.md"]
    assert find_persona("pixi", [own, other]).prompt == "my own Pixi"
    assert find_persona("edda", [own, other]).prompt == "my own Edda"
    assert find_persona("mo", [own, other]).prompt == "theirs"


def test_in_one_folder_a_files_name_wins_and_a_namesake_is_told(own: Path) -> None:
    put(own, "a.md", "Mole")
    put(own, "b.md", "mole")
    put(own, "mole.md", "Other", "by the file")
    assert find_persona("mole", [own]).prompt == "by the file"
    remarks = {
        each.path.name: each.remarks for each in list_personas([own]) if isinstance(each, LoadedPersona)
    }
    assert remarks["a.md"] == remarks["mole.md"] == ()
    (remark,) = remarks["b.md"]
    assert remark.text == "`mole` is the name in a.md too: give one of them another."


def test_a_broken_file_is_listed_and_the_others_load(own: Path, other: Path) -> None:
    put(own, "a.md", "A")
    broken = own / "b.md"
    broken.write_text("---\nnmae: B\n---\nYou dig.")
    put(own, "c.md", "C")
    put(other, "b.md", "B", "theirs")
    found = list_personas([own, other])
    assert [type(each) for each in found] == [LoadedPersona, BrokenPersona, LoadedPersona]
    assert found[1] == BrokenPersona(broken, (f"{broken}:2: unknown key `nmae`: do you mean `name`?",))
    assert complaint("b", own, other) == f"{broken}:2: unknown key `nmae`: do you mean `name`?"
    assert find_persona("c", [own, other]).name == "C"


def test_an_unknown_name_gets_the_nearest_or_the_whole_list(own: Path, other: Path) -> None:
    put(own, "mole.md", "Mo")
    put(other, "edda.md", "Edda")
    assert complaint("moel", own, other) == (
        f"there is no persona `moel` in {own} or {other}: do you mean `mole`?"
    )
    assert complaint("moel", own, shipped_folder()).startswith(
        f"there is no persona `moel` in {own} or Pixi's own folder: "
    )
    assert complaint("zzzz", own, other).endswith(": there are Edda, Mo, mole.")
    for number in range(20):
        put(other, f"n{number}.md", f"N{number}")
    assert complaint("zzzz", own, other).endswith(", N17, ….")
    assert complaint("zz\x1bzz\n").startswith("there is no persona `zz\N{REPLACEMENT CHARACTER}zz`")
    assert "no persona ``" in complaint("", own)
    assert "no persona `..`" in complaint("..", own)
    assert complaint("a\0.md", own).startswith("there is no persona")


def test_what_is_no_persona_is_left_alone(own: Path) -> None:
    put(own, "mole.md")
    put(own, "README.md")
    put(own, ".hidden.md")
    put(own, "notes.txt")
    put(own, "LOUD.MD")
    assert [each.path.name for each in list_personas([own])] == ["LOUD.MD", "mole.md"]


def test_links_stay_in_their_folder(own: Path, other: Path) -> None:
    put(own, "mole.md", "Mo")
    (own / "within.md").symlink_to(own / "mole.md")
    (own / "out.md").symlink_to(put(other, "secret.md"))
    (own / "gone.md").symlink_to(own / "none.md")
    (own / "folder.md").mkdir()
    found = {each.path.name: each for each in list_personas([own])}
    faults = {name: each.faults for name, each in found.items() if isinstance(each, BrokenPersona)}
    assert faults == {
        "out.md": (f"{own / 'out.md'}: this link leads out of its folder; put the file itself there.",),
        "gone.md": (f"{own / 'gone.md'}: the link leads nowhere; check the path.",),
        "folder.md": (f"{own / 'folder.md'}: this is a folder; name a file in it.",),
    }
    linked = own.parent / "linked"
    linked.symlink_to(own)
    assert find_persona("mole", [linked]).name == "Mo"


def test_a_file_name_that_is_not_utf8(own: Path) -> None:
    path = os.fsencode(own) + b"/caf\xe9.md"
    try:
        with open(path, "wb") as file:
            file.write(b"You dig.")
    except OSError:
        pytest.skip("this file system holds only UTF-8 names")
    (found,) = list_personas([own])
    assert isinstance(found, LoadedPersona)
    assert found.persona.name == "caf\N{REPLACEMENT CHARACTER}"
    found.persona.origin.encode()


def test_folders(own: Path, tmp_path: Path) -> None:
    assert list_personas([tmp_path / "none"]) == []
    file = put(own, "mole.md")
    with pytest.raises(ConfigError, match=r"mole\.md: this is a file; name the folder of the personas\."):
        list_personas([file])
    with pytest.raises(ConfigError, match="cannot be read"):
        list_personas([tmp_path / ("x" * 300)])


def test_the_folders_of_the_settings(own: Path, tmp_path: Path) -> None:
    assert persona_folders(own) == (own, shipped_folder())
    assert persona_folders(tmp_path / "none") == (tmp_path / "none", shipped_folder())
    assert persona_folders(shipped_folder()) == (shipped_folder(),)
    with pytest.raises(ConfigError, match="there is no such folder of personas; create it, or mend the path"):
        persona_folders(tmp_path / "none", must_exist=True)
