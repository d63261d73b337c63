"""Tables that addons keep in the store: made once, brought to later versions, forgotten and told of."""

import asyncio
from typing import Any

import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.store.database import Database
from pixi.store.opening import open_store
from pixi.store.store import Store
from pixi.store.tables import Schema, Tables
from tests.store.kinds import everywhere

FIRST = (
    "CREATE TABLE books_wishes (id {id}, person {text} NOT NULL, title {text} NOT NULL)",
    "CREATE INDEX books_wishes_of_a_person ON books_wishes (person)",
)
SECOND = ("ALTER TABLE books_wishes ADD COLUMN year BIGINT NOT NULL DEFAULT 0",)


def forget(db: Database, person: str) -> None:
    db.execute("DELETE FROM books_wishes WHERE person = ?", (person,))


def told(db: Database, person: str) -> Any:
    found = db.execute("SELECT title FROM books_wishes WHERE person = ? ORDER BY title", (person,))
    return [title for (title,) in found]


BOOKS = Schema("books", (FIRST, SECOND), forget, told)


async def opened(store: Store, schema: Schema = BOOKS) -> Tables:
    tables = Tables(schema)
    await store.open_tables(tables)
    return tables


async def wish(tables: Tables, person: str, title: str) -> int:
    """Write a row; gives its number."""

    def write(db: Database) -> int:
        found = db.execute(
            "INSERT INTO books_wishes (person, title) VALUES (?, ?) RETURNING id", (person, title)
        )
        return int(found.fetchone()[0])

    return await tables.write(write)


async def titles(tables: Tables, person: str) -> list[str]:
    kept: list[str] = await tables.read(lambda db: told(db, person))
    return kept


@everywhere
async def test_what_is_written_is_read_by_its_bytes(store: Store) -> None:
    tables = await opened(store)
    numbers = [await wish(tables, "discord:7", title) for title in ("b", "Z", "a", "É")]
    assert len(set(numbers)) == 4
    assert await titles(tables, "discord:7") == ["Z", "a", "b", "É"]


async def test_tables_that_nobody_opened_say_so_and_are_told_of(store: Store) -> None:
    with pytest.raises(StoreError, match="The tables of books are not open"):
        await titles(Tables(BOOKS), "discord:7")
    assert await store.unreached_tables() == ()
    await opened(store)
    assert await store.unreached_tables() == ()


async def test_tables_of_an_addon_that_is_gone_are_told_of(url: str) -> None:
    for opens in (True, False):
        store = await open_store(url)
        if opens:
            await opened(store)
        else:
            assert await store.unreached_tables() == ("books",)
        await store.close()


@everywhere
async def test_a_later_version_keeps_what_is_there(store: Store) -> None:
    await wish(await opened(store, Schema("books", (FIRST,))), "discord:7", "Emma")
    tables = await opened(store)
    rows = await tables.read(lambda db: db.execute("SELECT title, year FROM books_wishes").fetchall())
    assert [tuple(row) for row in rows] == [("Emma", 0)]


@everywhere
async def test_tables_of_a_later_addon_are_left_alone(store: Store) -> None:
    await wish(await opened(store), "discord:7", "Emma")
    with pytest.raises(StoreError, match=r"later version of the addon \(2; this one knows 1\): update"):
        await opened(store, Schema("books", (FIRST,)))


async def test_a_version_that_fails_is_made_whole_or_not_at_all(store: Store) -> None:
    broken = Schema("books", (FIRST, ("ALTER TABLE books_wishes ADD COLUMN year NOTHING (",)))
    with pytest.raises(StoreError):
        await opened(store, broken)
    tables = await opened(store)
    await wish(tables, "discord:7", "Emma")
    assert await titles(tables, "discord:7") == ["Emma"]


async def test_two_processes_make_them_once(url: str) -> None:
    stores = [await open_store(url) for _ in range(2)]
    try:
        first, second = await asyncio.gather(*(opened(store) for store in stores))
        await wish(first, "discord:7", "Emma")
        await wish(second, "discord:7", "Persuasion")
        assert await titles(first, "discord:7") == ["Emma", "Persuasion"]
    finally:
        for store in stores:
            await store.close()


async def test_all_is_written_or_nothing(store: Store) -> None:
    tables = await opened(store)

    def half(db: Database) -> None:
        db.execute("INSERT INTO books_wishes (person, title) VALUES ('a:1', 'Emma')")
        raise ValueError("no more")

    with pytest.raises(StoreError):
        await tables.write(half)
    assert await titles(tables, "a:1") == []


@everywhere
async def test_who_is_forgotten_is_forgotten_there_too(store: Store) -> None:
    tables = await opened(store)
    await wish(tables, "discord:7", "Emma")
    await wish(tables, "discord:8", "Persuasion")
    assert (await store.export("discord:7"))["books"] == ["Emma"]
    await store.forget("discord:7")
    assert await titles(tables, "discord:7") == []
    assert await titles(tables, "discord:8") == ["Persuasion"]
    assert "books" not in await store.export("discord:7")


@pytest.mark.parametrize(
    ("name", "statement", "told"),
    [
        ("Books", "CREATE TABLE Books_a (id {id})", "lower-case"),
        ("books", "CREATE TABLE wishes (id {id})", "begins with books_"),
        ("books", "DROP TABLE messages", "begins with books_"),
        ("books", "DELETE FROM messages", "begins with books_"),
    ],
    ids=["its name", "another's name", "dropping what is not its own", "no change of a table"],
)
def test_nothing_but_its_own_is_touched(name: str, statement: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Schema(name, ((statement,),))
