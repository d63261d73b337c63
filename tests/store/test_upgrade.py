"""A file of an earlier version keeps everything, and is brought to the present one once."""

import hashlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.core.message import Author, Message
from pixi.store import layout
from pixi.store.sqlite import SqliteStore, schema

MESSAGE = Message("1", "room", Author("mo", "mo"), "hi", 0.0)
LATER = ("ALTER TABLE messages ADD COLUMN mood TEXT", "UPDATE messages SET mood = 'good'")


@pytest.fixture
async def old(tmp_path: Path) -> Path:
    """The file of the present version, with a message."""
    path = tmp_path / "pixi.db"
    store = await SqliteStore.open(path)
    await store.receive(MESSAGE)
    await store.close()
    return path


def later(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Have one more version of the tables."""
    monkeypatch.setattr(layout, "MIGRATIONS", (*layout.MIGRATIONS, statements))


async def texts(path: Path) -> list[str]:
    store = await SqliteStore.open(path)
    waiting = (await store.load("room")).waiting
    await store.check()
    await store.close()
    return [message.text for message in waiting]


async def test_it_is_upgraded_once(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, *LATER)
    for _ in range(2):
        assert await texts(old) == ["hi"]
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("SELECT mood FROM messages").fetchall() == [("good",)]
        assert db.execute("PRAGMA user_version").fetchone() == (layout.latest_version(),)


async def test_an_upgrade_that_is_broken_off_leaves_the_old_version(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch, *LATER, "CREATE TABLE turns (id)")
    with pytest.raises(ConfigError, match="already exists"):
        await SqliteStore.open(old)
    monkeypatch.undo()
    assert await texts(old) == ["hi"]


async def test_a_file_from_before_the_first_version_is_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in ("conversations", "messages", "turns", "lines"):
            db.execute(f"CREATE TABLE {table} (id)")
        db.execute(f"PRAGMA application_id = {layout.APPLICATION}")
        db.execute("PRAGMA user_version = 10")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"an early Pixi \(version 10 of the tables, .* from 11 on\)"):
        await SqliteStore.open(path)
    assert path.read_bytes() == before


async def test_a_file_of_the_first_version_is_brought_to_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = layout.MIGRATIONS
    monkeypatch.setattr(layout, "MIGRATIONS", present[:1])
    store = await SqliteStore.open(path := tmp_path / "pixi.db")
    await store.receive(MESSAGE)
    await store.close()
    monkeypatch.setattr(layout, "MIGRATIONS", present)
    assert await texts(path) == ["hi"]
    with closing(sqlite3.connect(path)) as db:
        assert schema.tables_of(db) == schema.tables_of_version(layout.latest_version())


def test_the_steps_between_versions_only_add() -> None:
    """So that processes of the version before, which are open, go on with the tables."""
    steps = layout.statements(schema.WORDS, since=layout.FIRST_VERSION)
    assert all(re.match(r"CREATE (UNIQUE )?(TABLE|INDEX)|ALTER TABLE \w+ ADD", step) for step in steps)


def test_the_statements_of_versions_that_are_in_use_are_as_they_were() -> None:
    """Files out there were made by them; what changes goes into a version of its own."""
    for version, digest in ((11, "07d45afc28de498a"), (12, "8c6f6aa436ebaeaf")):
        made = "\n".join(layout.statements(schema.WORDS, until=version))
        assert hashlib.sha256(made.encode()).hexdigest().startswith(digest)
