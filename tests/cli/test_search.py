"""`pixi-persona search`: what a model would get, and the same for people."""

import argparse
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from pixi.cli import search
from pixi.knowledge.entry import Source
from pixi.settings import load
from tests.cli.conftest import Program
from tests.servers.scripted_embeddings import ScriptedEmbeddings, embeddings_server
from tests.servers.scripted_openai import Hang, Reply, error


def put(home: Path, name: str, **files: str) -> None:
    folder = home / "databases" / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / f"{file}.md").write_text(text, encoding="utf-8")


def test_people_get_id_title_place_and_snippet(trolley: Path, program: Program) -> None:
    code, out, err = program("search", "trolley", "ginger", "steeps")
    assert (code, err) == (0, "")
    head, snippet = out.splitlines()
    assert re.fullmatch(r"\d{6,9}  Teas on the trolley  .*teas\.md:\d+", head)
    assert snippet.startswith(" " * 8)
    assert "eight minutes" in snippet


def test_a_model_gets_one_line(trolley: Path, program: Program) -> None:
    code, out, _ = program("search", "trolley", "gniger", "--json")
    (line,) = out.splitlines()
    result = json.loads(line)
    assert code == 0
    assert set(result) == {"database", "results", "read_as"}
    assert result["read_as"] == {"gniger": "ginger"}
    (hit,) = result["results"]
    assert (hit["title"], type(hit["id"])) == ("Teas on the trolley", int)
    assert "ginger" in hit["snippet"]


def test_what_was_read_as_what_is_told(trolley: Path, program: Program) -> None:
    assert program("search", "trolley", "gniger")[1].startswith("“gniger” was read as “ginger”.\n")


def test_the_limit_is_kept(home: Path, program: Program) -> None:
    put(home, "many", **{f"n{number}": f"# Bread {number}\n\nbread and {number}" for number in range(12)})
    assert len(json.loads(program("search", "many", "bread", "--json")[1])["results"]) == 8
    assert len(json.loads(program("search", "many", "bread", "--json", "--limit", "3")[1])["results"]) == 3
    assert program("search", "many", "bread", "--limit", "11")[1].count("Bread") == 11


def test_nothing_is_found_and_nothing_breaks(trolley: Path, program: Program) -> None:
    said = "Nothing was found in trolley. Try other words, or fewer.\n"
    assert program("search", "trolley", "zzzzqqqq") == (0, said, "")
    assert json.loads(program("search", "trolley", "", "--json")[1])["results"] == []
    for query in ("*:* (", "字", '"; DROP TABLE entries; --', "/(a+)+$/", "x" * 100_000):
        code, out, err = program("search", "trolley", "--json", "--", query)
        assert (code, err) == (0, "")
        assert json.loads(out)["database"] == "trolley"


def test_an_empty_database_says_so(home: Path, program: Program) -> None:
    (home / "databases" / "void").mkdir(parents=True)
    assert program("search", "void", "bread")[1] == "Nothing was found in void. It holds no documents.\n"


def test_other_scripts(home: Path, program: Program) -> None:
    put(home, "نان", سنگک="# سنگک\n\nنان سنگک روی ریگ داغ پخته می‌شود.")
    assert "سنگک.md:3" in program("search", "نان", "سنكك ريگ")[1]
    assert "西湖龙井.md" in program("search", "茶", "龍井")[1]


def test_strangers_words_drive_no_terminal(home: Path, program: Program) -> None:
    put(home, "bad", a="# Bread \x1b[31mred\n\nbread \x1b]0;owned\x07 and [bold]butter[/bold]\n")
    _, out, _ = program("search", "bad", "bread")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert "[bold]butter[/bold]" in out


def test_on_a_terminal_the_words_are_bold(
    trolley: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Console
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **given: real(force_terminal=True, color_system="standard", width=60, **given),
    )
    _, out, _ = program("search", "trolley", "chamomile", "gniger")
    assert "\x1b[1mginger\x1b[0m" in out
    plain = re.sub("\x1b\\[[0-9;]*m", "", out)
    assert max(map(len, plain.splitlines()[2:])) <= 60


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("search", "pancaks", "x"), "there is no database `pancaks` in "),
        (("search", "pancakes"), "arguments are required: QUERY"),
        (("search", "pancakes", "x", "--limit", "0"), "is no number from 1 to 100"),
        (("search", "pancakes", "x", "--limit", "many"), "is no number from 1 to 100"),
    ],
)
def test_usage_errors(program: Program, words: tuple[str, ...], told: str) -> None:
    code, out, err = program(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") <= 2


def test_a_database_that_the_settings_leave_out(trolley: Path, program: Program) -> None:
    Path("pixi.toml").write_text('[databases]\nnames = ["trolley"]\n')
    code, _, err = program("search", "pancakes", "crepe")
    assert code == 2
    assert "`names` of [databases] leaves out" in err


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Source(1, "A", "a.md", "B › C", 4), "B › C · a.md:4"),
        (Source(1, "A", "a.pdf", "", 0, 7), "a.pdf, page 7"),
        (Source(1, "A", "a.epub"), "a.epub"),
    ],
)
def test_places(source: Source, told: str) -> None:
    assert search.place_of(source) == told


async def meanings(
    home: Path, server: ScriptedEmbeddings, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """What is printed where an embedding model is set."""
    cars = {f"c{at}": f"Car number {at} was built.\n\nIt drives to the harbour of {at}." for at in range(12)}
    if not (home / "databases" / "cars").exists():
        put(home, "cars", **cars, pear="An automobile was built.\n\nIt drives to the harbour in May.")
    own = {"PIXI_EMBEDDING_MODEL__NAME": "e", "PIXI_EMBEDDING_MODEL__BASE_URL": server.base_url}
    settings = load(environ=own, folder=home)
    capsys.readouterr()
    arguments = argparse.Namespace(database="cars", query=["harbour"], limit=None, json=True)
    assert await search.work(settings, arguments) == 0
    told = capsys.readouterr()
    return told.out, told.err


async def test_passages_have_their_vectors_before_the_first_search(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with embeddings_server() as server:
        _, err = await meanings(home, server, capsys)
        assert err == ""
        assert any("harbour of 7" in text for text in server.texts)
        asked = len(server.texts)
        await meanings(home, server, capsys)
        assert not any("harbour of 7" in text for text in server.texts[asked:])


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            error(401, "no such key"),
            r"cars: passages of cars could not be embedded, words find them: .*API_KEY.*",
        ),
        (Reply((Hang(),)), "cars: some passages have no vectors yet; what was made is kept, .*"),
    ],
)
async def test_why_passages_have_no_vectors_is_told_and_words_find_them(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reply: Reply, told: str
) -> None:
    monkeypatch.setattr(search, "EMBEDDING_SECONDS", 0.3)
    async with embeddings_server(failing=[reply] * 9) as server:
        out, err = await meanings(home, server, capsys)
    assert re.fullmatch(rf"{told}\n", err)
    assert json.loads(out)["results"]
