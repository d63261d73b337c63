"""Files that are no store: each is told in one line and left as it is."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.core.message import Author, Message
from pixi.store import layout
from pixi.store.opening import open_existing, open_store
from pixi.store.sqlite import SqliteStore, schema

MESSAGE = Message("1", "room", Author("1", "mo"), "hi", 0.0)


async def refusal(path: Path) -> str:
    before = path.read_bytes() if os.path.isfile(path) else None
    with pytest.raises(ConfigError) as caught:
        await SqliteStore.open(path)
    assert (path.read_bytes() if os.path.isfile(path) else None) == before
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


async def test_what_is_no_database(path: Path) -> None:
    path.write_text("dear diary, " * 500)
    assert "it is not a database; move it away" in await refusal(path)


async def test_a_database_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name)")
    assert "is the database of another program" in await refusal(path)


async def test_a_later_version(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    with closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA user_version = 99")
    told = await refusal(path)
    known = layout.latest_version()
    assert f"written by a later Pixi (version 99 of the tables, this one knows {known})" in told


async def test_places_that_hold_no_file(tmp_path: Path) -> None:
    assert f"there is no folder {tmp_path / 'gone'}; make it" in await refusal(tmp_path / "gone" / "pixi.db")
    assert "is a folder; name a file" in await refusal(tmp_path)
    assert "cannot be opened" in await refusal(tmp_path / ("x" * 300))
    assert "cannot be opened" in await refusal(tmp_path / "a\0b")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
async def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "mend the path or its permissions" in await refusal(tmp_path / "pixi.db")
    tmp_path.chmod(0o700)


async def test_a_file_that_may_only_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await SqliteStore.open(path)).close()
    connect = sqlite3.connect

    def read_only(name: str, **options: float | None) -> sqlite3.Connection:
        connection = connect(name, timeout=1, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    store = await SqliteStore.open(path)
    with pytest.raises(StoreError, match="it may not be written; mend the permissions"):
        await store.receive(MESSAGE)
    assert (await store.load("room")).waiting == (), "what can be read still is"
    await store.close()


async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def small(name: str, **options: float | None) -> sqlite3.Connection:
        connection = connect(name, timeout=1, isolation_level=None)
        connection.execute("PRAGMA max_page_count = 70")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    store = await SqliteStore.open(tmp_path / "pixi.db")
    large = Message("2", "room", Author("1", "mo"), "x" * 200_000, 0.0)
    with pytest.raises(StoreError, match="the disk is full; nothing is saved until there is room"):
        await store.receive(large)
    assert await store.receive(MESSAGE), "there is room for a small one"
    assert [waiting.id for waiting in (await store.load("room")).waiting] == ["1"]
    await store.close()


async def test_a_file_that_stays_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "another program kept it locked; stop that program" in await refusal(path)
        other.execute("ROLLBACK")
        store = await SqliteStore.open(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program kept it locked"):
            await store.receive(MESSAGE)
        other.execute("ROLLBACK")
        assert await store.receive(MESSAGE)
    await store.close()


async def test_a_file_that_somebody_reads_while_its_log_is_to_be_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.1)
    await (await SqliteStore.open(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchone()
        assert "another program kept it locked" in await refusal(path)
        other.execute("ROLLBACK")
    store = await SqliteStore.open(path)
    assert await store.receive(MESSAGE)
    await store.close()


async def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    await store.receive(MESSAGE)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"pixi.db": 0o600, "pixi.db-wal": 0o600, "pixi.db-shm": 0o600}
    await store.close()


async def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///here.db", f"sqlite:///{tmp_path}/there.db", "sqlite://", ":memory:"):
        store = await open_store(url)
        assert await store.receive(MESSAGE)
        await store.close()
    assert {file.name for file in tmp_path.iterdir()} == {"here.db", "there.db"}


@pytest.mark.parametrize(
    "url", ["", "pixi.db", "sqlite:pixi.db", "sqlite://pixi.db", "mysql://me:canary@host/db"]
)
async def test_urls_of_no_store(url: str) -> None:
    with pytest.raises(ConfigError, match="names no store; write sqlite:///") as caught:
        await open_store(url)
    assert "canary" not in str(caught.value)


async def test_to_look_makes_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/pixi.db"
    assert await open_existing(url, print) is None
    assert await open_existing(":memory:", print) is None
    assert not list(tmp_path.iterdir())
    await (await open_store(url)).close()
    store = await open_existing(url, print)
    assert store is not None
    assert store.name == f"{tmp_path}/pixi.db"
    await store.close()
