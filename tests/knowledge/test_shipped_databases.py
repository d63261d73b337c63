"""The databases that come along: whole, readable, and found by what people ask."""

import asyncio
import csv
import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.entry import Entry
from pixi.knowledge.registry import DatabaseRef, databases_in, shipped_folder
from tests.pages import PAGES, ROOT
from tests.waiting import until

EVERY = ("pancakes", "pixi-manual", "茶")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read once for all tests of a worker."""
    return tmp_path_factory.mktemp("cache")


def ref(name: str) -> DatabaseRef:
    (found,) = databases_in([shipped_folder()], [name])
    return found


async def opened(name: str, cache: Path) -> DirectoryDatabase:
    each = ref(name)
    database = await DirectoryDatabase.open(each.folder, name=name, cache=cache / each.tool)
    await database.ready()
    return database


async def every_entry(database: DirectoryDatabase, *queries: str) -> list[Entry]:
    """The entries that any of these words finds."""
    found = [hit for query in queries for hit in (await database.search(query, 200)).hits]
    return await database.read(list({hit.source.entry: None for hit in found}))


def test_they_are_there() -> None:
    assert {each.name for each in databases_in([shipped_folder()])} == set(EVERY)
    assert re.fullmatch(r"[a-z0-9_]+", ref("茶").tool)


@pytest.mark.parametrize("name", EVERY)
async def test_each_is_read_whole_and_describes_itself(name: str, cache: Path) -> None:
    database = await opened(name, cache)
    try:
        assert list(database.faults) == []
        assert database.passed_over == {}
        assert len(database.about) > 60
        assert database.entries >= 5
    finally:
        await database.close()


ASKED = [
    ("pancakes", "why are my pancakes rubbery", "failures/failures.md"),
    ("pancakes", "pancake baked on one side with a thousand holes semolina", "kinds/baghrir.md"),
    ("pancakes", "how hot should the pan be", "science/heat.md"),
    ("pancakes", "teff injera ethiopia", "kinds/injera.md"),
    ("pancakes", "okonomyiaki cabbage", "kinds/okonomiyaki.md"),
    ("pancakes", "baking powder too old test", "science/leavening.md"),
    ("pancakes", "when was baking powder invented Bird", "history/history.md"),
    ("pancakes", "Teff flour protein", "flours.csv"),
    ("pancakes", "how long is the Olney race", "facts.jsonl"),
    ("pixi-manual", "how do I write a persona front matter", "docs/personas.md"),
    ("pixi-manual", "databases folder of documents formats", "docs/databases.md"),
    ("pixi-manual", "discord home_channels", "docs/discord.md"),
    ("pixi-manual", "tool approval per_person rate", "docs/tools.md"),
    ("茶", "龙井用多少度的水", "西湖龙井.md"),
    ("茶", "盖子放一样小东西是什么意思", "盖碗茶.md"),
    ("茶", "茶泡苦了怎么办", "泡坏了怎么补救.md"),
    ("茶", "關公巡城", "工夫茶.md"),
]


@pytest.mark.parametrize(("name", "query", "path"), ASKED, ids=[query for _, query, _ in ASKED])
async def test_what_people_ask_is_found(name: str, query: str, path: str, cache: Path) -> None:
    database = await opened(name, cache)
    try:
        found = await database.search(query, 3)
    finally:
        await database.close()
    assert path in [hit.source.path for hit in found.hits]


def test_the_pancakes_are_worth_reading() -> None:
    pages = sorted((shipped_folder() / "pancakes").rglob("*.md"))
    entries = [page for page in pages if page.name != "README.md"]
    lengths = {page.stem: len(page.read_text(encoding="utf-8").split()) for page in entries}
    assert len(entries) >= 30
    assert min(lengths.values()) >= 150, min(lengths, key=lambda stem: lengths[stem])
    assert sum(length >= 1_200 for length in lengths.values()) >= 3, "the reader of long entries wants some"
    for page in entries:
        text = page.read_text(encoding="utf-8")
        assert text.startswith("# "), page
        assert len(re.findall(r"^## ", text, re.MULTILINE)) >= 3, page
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert len(set(titles)) == len(titles), page


def test_the_table_and_the_facts_are_well_made() -> None:
    folder = shipped_folder() / "pancakes"
    with (folder / "flours.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert all(cell.strip() for row in rows for cell in row)
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(set(fact) == {"title", "text"} for fact in facts)
    assert len({fact["title"] for fact in facts}) == len(facts) >= 15


async def test_the_manual_is_the_pages_themselves(cache: Path) -> None:
    folder = shipped_folder() / "pixi-manual"
    assert {path.name for path in folder.iterdir()} == {"_about.md", "_sources.toml"}, "no copies"
    database = await opened("pixi-manual", cache)
    try:
        assert database.entries == len(PAGES)
        entries = await every_entry(database, "persona", "pixi", "commands", "tool", "databases")
    finally:
        await database.close()
    assert {entry.path for entry in entries} == {path.relative_to(ROOT).as_posix() for path in PAGES}


async def test_ids_are_the_same_wherever_a_folder_is_read(cache: Path, tmp_path: Path) -> None:
    ids = []
    for place in (cache, tmp_path):
        database = await opened("茶", place)
        found = await database.search("铁观音 滚水", 5)
        ids.append([hit.source.entry for hit in found.hits])
        await database.close()
    assert ids[0] == ids[1]


@pytest.mark.nightly
async def test_an_installed_package_holds_them_where_they_are_looked_for(tmp_path: Path) -> None:
    """Laid out as the wheel is by what `pyproject.toml` says of it, and read from there."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = table["tool"]["hatch"]["build"]["targets"]["wheel"]
    ignored = shutil.ignore_patterns("__pycache__", "shipped")
    for package in wheel["packages"]:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    for source, target in wheel["force-include"].items():
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, tmp_path / target)
    found: dict[str, dict[str, Any]] = {}

    async def all_read() -> bool:  # each look takes some seconds at most, and reads on where the last ended
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pixi", "databases", "--json", "--check"),
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        found.update({each["name"]: each for each in map(json.loads, out.decode().splitlines())})
        return all(each["state"] == "ready" for each in found.values())

    await until(all_read)
    assert set(found) == set(EVERY)
    assert found["pixi-manual"]["entries"] == len(PAGES)
    folders = {Path(each["folder"]).parent for each in found.values()}
    assert folders == {tmp_path / "pixi" / "shipped" / "databases"}
