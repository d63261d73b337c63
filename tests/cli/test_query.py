"""`pixi-persona query`: what the documents say to a question, with sources, over a real socket."""

import argparse
import json
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.cli import query as query_command
from pixi.core.errors import ConfigError, PixiError
from pixi.core.llm import Usage
from pixi.core.spending import UsageEntry, day_of
from pixi.settings import load
from pixi.store.opening import open_store
from pixi.store.store import Store
from tests.cli.conftest import Program
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, error, stream

Query = Callable[..., Awaitable[tuple[str, str]]]

QUESTION = "How long does ginger tea steep?"


def reader(*sentences: str) -> ScriptedOpenAI:
    """A server whose model names these sentences by their numbers, or quotes what it is not shown."""

    def read(seen: Seen) -> Reply:
        told = "\n".join(str(message["content"]) for message in seen.json()["messages"])
        lines = (re.search(rf"^\[(\d+)\].*{re.escape(each)}", told, re.MULTILINE) for each in sentences)
        named = [int(line[1]) if line else each for line, each in zip(lines, sentences, strict=True)]
        return stream(json.dumps({"answerable": True, "sentences": named}))

    return ScriptedOpenAI(choose=read)


@pytest.fixture
def query(home: Path, capsys: pytest.CaptureFixture[str]) -> Query:
    """Runs the subcommand against a server; gives its two outputs."""

    async def ask(server: ScriptedOpenAI, *words: str) -> tuple[str, str]:
        parser = argparse.ArgumentParser()
        query_command.configure(parser)
        given = parser.parse_args(words)
        model = {"PIXI_MODEL__NAME": "reader", "PIXI_MODEL__BASE_URL": server.base_url}
        settings = load(environ=model, folder=home)
        capsys.readouterr()
        assert await query_command.work(settings, given) == 0
        told = capsys.readouterr()
        return told.out, told.err

    return ask


async def test_an_answer_has_its_source(trolley: Path, query: Query) -> None:
    async with reader("it steeps for eight minutes") as server:
        out, err = await query(server, "trolley", *QUESTION.split())
    assert err == ""
    fact, place = out.splitlines()
    assert "steeps for eight minutes under a saucer" in fact
    assert re.fullmatch(r"  Teas on the trolley · Ginger · teas\.md:\d+ · id \d+", place)


@asynccontextmanager
async def closing_store(home: Path) -> AsyncGenerator[Store, None]:
    """The store of that folder."""
    store = await open_store(f"sqlite:///{home}/pixi.db")
    try:
        yield store
    finally:
        await store.close()


async def entered(home: Path) -> list[UsageEntry]:
    """What is in the books."""
    async with closing_store(home) as store:
        return [row for row in await store.usage(0, 99_999, "model") if not row.is_nothing]


async def test_what_the_reader_used_is_in_the_books(home: Path, trolley: Path, query: Query) -> None:
    async with reader("it steeps for eight minutes") as server:
        await query(server, "trolley", "How many minutes, for the books?")
    (row,) = await entered(home)
    assert (row.model, row.person, row.messages) == ("reader", "", 0)
    assert row.usage.prompt_tokens > 0
    assert row.unpriced == row.tokens


async def test_nothing_is_asked_once_the_month_has_no_money(home: Path, trolley: Path, query: Query) -> None:
    (home / "pixi.toml").write_text(
        "[limits]\nmonth_dollars = 1\n[prices]\nreader = { prompt = 1, completion = 1 }\n"
    )
    today = day_of(time.time())
    async with closing_store(home) as store:
        await store.spend((UsageEntry(day=today, model="reader", usage=Usage(5), cost=1.0),))
    async with reader("it steeps for eight minutes") as server:
        with pytest.raises(PixiError, match=r"The \$1\.00 of this month are spent: no model is asked until"):
            await query(server, "trolley", "Has it any money?")
        assert server.requests == []


async def test_books_that_cannot_be_kept_take_no_answer_away(home: Path, trolley: Path, query: Query) -> None:
    (home / "pixi.db").mkdir()
    async with reader("it steeps for eight minutes") as server:
        out, err = await query(server, "trolley", "Are the books a folder?")
    assert "steeps for eight minutes" in out
    assert err == (
        "pixi-persona: what was used is not on record: The store pixi.db is a folder; name a file in "
        "[store] url.\n"
    )


async def test_what_has_no_source_is_left_out_and_counted(trolley: Path, query: Query) -> None:
    question = "How many minutes does it steep?"  # answers are kept by their questions
    async with reader("it steeps for eight minutes", "It steeps for ninety hours.") as server:
        out, _ = await query(server, "trolley", question)
        line, _ = await query(server, "trolley", question, "--json")
    assert "ninety" not in out
    assert "The reader named 1 thing besides that no document says." in out
    result = json.loads(line)
    assert (result["database"], result["dropped"], len(result["relevant"])) == ("trolley", 1, 1)
    source = result["relevant"][0]["source"]
    assert (source["title"], source["section"]) == ("Teas on the trolley", "Ginger")


async def test_good_ids_answer_and_bad_ones_are_named(trolley: Path, query: Query) -> None:
    async with reader("Boiling water") as server:
        found, _ = await query(server, "trolley", "Which water?", "--json")
        number = json.loads(found)["relevant"][0]["source"]["id"]
        out, err = await query(server, "trolley", "Which water?", "--ids", f"1,{number},5", "--json")
        assert err == "trolley: there is no entry 1, 5.\n"
        assert json.loads(out)["unknown_ids"] == [1, 5]
        assert json.loads(out)["relevant"][0]["source"]["id"] == number
        with pytest.raises(ConfigError, match=f"The tea trolley has no entry {9**40}\\."):
            await query(server, "trolley", "Which water?", "--ids", f"{9**40}")


async def test_a_server_that_fails_leaves_the_passages(trolley: Path, query: Query) -> None:
    async with ScriptedOpenAI(error(401, "no such key")) as server:
        out, err = await query(server, "trolley", "ginger tea", "--json")
    assert re.fullmatch(r"trolley: the model that reads did not: .*API_KEY.*\n", err)
    result = json.loads(out)
    assert "Boiling water" in result["relevant"][0]["fact"]
    assert result["note"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pancaks", "x"), "do you mean `pancakes`?"),
        (("pancakes",), "arguments are required: QUESTION"),
        (("pancakes", "x", "--ids", "one"), "is no list of ids; write them as 12,34"),
        (("pancakes", "x", "--ids", ","), "is no list of ids"),
        (("pancakes", " "), "The query is empty"),
    ],
)
def test_usage_errors(program: Program, words: tuple[str, ...], told: str) -> None:
    Path("pixi.toml").write_text('[model]\nname = "m"\nbase_url = "http://127.0.0.1:9/v1"\n')
    code, out, err = program("query", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") <= 2


async def test_what_search_finds_is_not_said_to_be_absent_where_nobody_read(home: Path, query: Query) -> None:
    folder = home / "databases" / "pans"
    folder.mkdir(parents=True)
    for number, text in enumerate(["Pancakes rise by baking powder.", "Pancakes brown in butter."]):
        (folder / f"{number}.md").write_text(text)
    async with ScriptedOpenAI(error(401, "no such key")) as server:
        out, _ = await query(server, "pans", "What", "makes", "pancakes", "fluffy", "and", "soft?")
    assert "Pancakes rise by baking powder." in out
    assert "no model has read the documents" in out
    assert "not in these documents" not in out
