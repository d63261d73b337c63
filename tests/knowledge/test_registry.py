"""Finding databases by name: which folder wins, and names that every model server takes."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.errors import ConfigError
from pixi.knowledge import registry
from pixi.knowledge.registry import database_folders, databases_in, find_database, require_folder, tool_names


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, about: str = "") -> Path:
    database = folder / name
    database.mkdir(parents=True)
    if about:
        (database / "README.md").write_text(about, encoding="utf-8")
    return database


def test_every_folder_is_a_database(own: Path) -> None:
    put(own, "pancakes", "# All about pancakes\n\nFrom batter to syrup.\n")
    put(own, "Engines")
    put(own, ".git")
    put(own, "_drafts")
    (own / "README.md").write_text("# Databases")
    there = databases_in([own])
    assert [(each.name, each.tool) for each in there] == [("Engines", "engines"), ("pancakes", "pancakes")]
    assert there[1].describe().title == "All about pancakes"
    assert there[1].describe().text == "From batter to syrup."
    assert there[0].describe().title == "Engines"


def test_the_operators_own_come_first_by_name(tmp_path: Path, own: Path) -> None:
    mine = put(own, "Pancakes")
    put(tmp_path / "other", "pancakes")
    put(tmp_path / "other", "waffles")
    there = databases_in([own, tmp_path / "other"])
    assert [each.name for each in there] == ["Pancakes", "waffles"]
    assert there[0].folder == mine


def test_names_choose_and_order(own: Path) -> None:
    for name in ("a", "b", "c"):
        put(own, name)
    assert [each.name for each in databases_in([own], ["c", "A", "c"])] == ["c", "a"]
    assert databases_in([own], []) == []
    with pytest.raises(ConfigError, match="no database `pancake`"):
        databases_in([own], ["pancake"])


@pytest.mark.parametrize("name", ["pancakes", "PANCAKES", " Pancakes"])
def test_a_database_is_found_whatever_the_case(own: Path, name: str) -> None:
    put(own, "pancakes")
    assert find_database(name, [own, own]).name == "pancakes"


def test_a_database_is_found_by_its_tool(own: Path) -> None:
    put(own, "Mac & Cheese")
    assert find_database("mac_cheese", [own]).name == "Mac & Cheese"


@pytest.mark.parametrize("name", ["../own/pancakes", "/etc", "..", "pancakes/../pancakes", ""])
def test_a_path_is_no_name(own: Path, name: str) -> None:
    put(own, "pancakes")
    with pytest.raises(ConfigError, match="no database"):
        find_database(name, [own])


def test_a_mistaken_name_is_told_the_nearest(own: Path) -> None:
    put(own, "pancakes")
    put(own, "engines")
    with pytest.raises(ConfigError, match="do you mean `pancakes`"):
        find_database("pamcake", [own])
    with pytest.raises(ConfigError, match="there are engines, pancakes"):
        find_database("zzz", [own])


def test_a_mistaken_folder_is_told_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "databases").mkdir()
    with pytest.raises(ConfigError, match=r"do you mean .*/databases\?"):
        require_folder(tmp_path / "databses")
    with pytest.raises(ConfigError, match="create it"):
        require_folder(tmp_path / "zzz")
    with pytest.raises(ConfigError, match="no such folder"):
        database_folders(tmp_path / "nowhere" / "at" / "all", must_exist=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="this is a file"):
        require_folder(tmp_path / "file")
    with pytest.raises(ConfigError, match="this is a file"):
        databases_in([tmp_path / "file"])


def test_a_missing_folder_of_databases_is_empty(tmp_path: Path) -> None:
    assert databases_in([tmp_path / "none"]) == []


def test_the_shipped_folder_comes_last_and_once(tmp_path: Path) -> None:
    shipped = registry.shipped_folder()
    assert database_folders(tmp_path)[-1] == shipped
    assert database_folders(shipped) == (shipped,)
    assert all(each.shipped for each in databases_in([shipped]))


def test_an_installed_package_has_them_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "pixi" / "knowledge" / "registry.py"
    (tmp_path / "pixi" / "shipped" / "databases").mkdir(parents=True)
    monkeypatch.setattr(registry, "__file__", str(module))
    assert registry.shipped_folder() == tmp_path / "pixi" / "shipped" / "databases"


def test_a_name_of_no_unicode_is_passed_over(own: Path) -> None:
    try:
        os.mkdir(os.fsencode(own) + b"/\xff\xfe")
    except OSError:
        pytest.skip("this file system takes Unicode alone")
    assert databases_in([own]) == []


TOOLS = {
    "pancakes": "pancakes",
    "Crêpes & Galettes": "crepes_galettes",
    "My  Docs (2024)": "my_docs_2024",
    "煎饼 pancakes": "pancakes",
    "pixi-manual": "pixi_manual",
    "x" * 90: "x" * 40,
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tools_name_keeps_what_is_latin(name: str) -> None:
    assert tool_names([name])[name] == TOOLS[name]


@pytest.mark.parametrize(
    ("name", "script"),
    [("煎饼大全", "cjk"), ("پنکیک‌ها", "arabic"), ("Блины", "cyrillic"), ("팬케이크", "hangul")],
)
def test_another_script_gives_a_name_that_stays(name: str, script: str) -> None:
    tool = tool_names([name])[name]
    assert re.fullmatch(rf"{script}_[0-9a-f]{{6}}", tool)
    assert tool_names(["aaa", name, "zzz"])[name] == tool


def test_names_that_meet_are_told_apart_and_the_plain_one_keeps_its_name() -> None:
    names = ["My Docs", "my-docs", "my_docs", "MY.DOCS"]
    tools = tool_names(names)
    assert tools["my_docs"] == "my_docs"
    assert len(set(tools.values())) == 4


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=12))
def test_any_names_give_different_tools_that_servers_take(names: list[str]) -> None:
    tools = tool_names(names)
    assert set(tools) == set(names)
    assert len(set(tools.values())) == len(names)
    for tool in tools.values():
        assert re.fullmatch(r"[a-z0-9_]{1,40}", tool)
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", f"search_{tool}_database")


def test_a_list_of_databases_asks_for_nothing_else(own: Path) -> None:
    put(own, "deep").joinpath("a.md").write_text("# A")
    assert [each.name for each in databases_in([own])] == ["deep"]
    assert registry.find_database("deep", [own]).folder == own / "deep"
