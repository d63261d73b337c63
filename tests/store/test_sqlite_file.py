"""What holds for a store in a file, where it is not told by its promises."""

import asyncio
import itertools
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.core.llm import Usage, UserLine
from pixi.core.message import Author, Image, Message
from pixi.store.sqlite import SqliteStore, schema
from pixi.store.sqlite import store as sqlite_store
from pixi.store.sqlite.store import Checkpoints
from tests.begun import begun
from tests.waiting import LIMIT, until

ROOM = "terminal:pixi:mo"


def message(name: str, text: str = "hi", *, images: tuple[Image, ...] = ()) -> Message:
    return Message(name, ROOM, Author("1", "mo"), text, 1_700_000_000.25, images=images)


async def test_nothing_that_was_forgotten_is_left_in_the_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    await store.receive(message("1", "canary", images=(Image("image/png", b"canary"),)))
    turn = await begun(store, ROOM, 0, "pixi", ("1",))
    await store.intend(turn, 0, "send", "canary")
    await store.end_turn(turn, (UserLine("canary"),), "stop", 1, Usage())
    late = await begun(store, ROOM, 0, "pixi", ())
    await store.intend(late, 0, "send", "canary")
    await store.reset(ROOM)
    await store.end_turn(late, (UserLine("canary"),), "stop", 1, Usage())
    await store.close()
    assert b"canary" not in (tmp_path / "pixi.db").read_bytes()


async def test_close_carries_out_what_was_asked(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    calls = [asyncio.ensure_future(store.receive(message(str(number)))) for number in range(700)]
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert [received and received.number for received in await asyncio.gather(*calls)] == [*range(1, 701)]
    await store.close()
    with pytest.raises(StoreError, match="is closed"):
        await store.load(ROOM)


async def test_a_close_that_is_cancelled_still_closes(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "pixi.db")
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await store.close()
    assert not (tmp_path / "pixi.db-wal").exists()


async def test_the_log_is_carried_over_beside_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits never do so. The first try fails, and is made again."""
    monkeypatch.setattr(sqlite_store, "COMMITS", 3)
    monkeypatch.setattr(schema, "MOST_PAGES", 0)
    tries = iter([sqlite3.OperationalError("the disk refuses")])
    connect = Checkpoints._connect

    def refused_once(self: Checkpoints) -> sqlite3.Connection:
        for error in tries:
            raise error
        return connect(self)

    monkeypatch.setattr(Checkpoints, "_connect", refused_once)
    store = await SqliteStore.open(tmp_path / "pixi.db")
    numbers = itertools.count()

    async def is_in_the_file() -> bool:
        await store.receive(message(str(next(numbers)), "canary"))
        return b"canary" in (tmp_path / "pixi.db").read_bytes()

    await until(is_in_the_file)
    await store.close()
    assert not (tmp_path / "pixi.db-wal").exists()
    assert not [thread for thread in threading.enumerate() if str(tmp_path) in thread.name]


async def test_a_log_that_is_not_carried_over_is_by_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MOST_PAGES", 50)
    monkeypatch.setattr(Checkpoints, "committed", lambda self: None)
    store = await SqliteStore.open(tmp_path / "pixi.db")
    for number in range(60):  # each commit appends some pages of 4 KB
        await store.receive(message(str(number)))
    assert (tmp_path / "pixi.db-wal").stat().st_size < 80 * 4200
    await store.close()


def test_the_log_is_waited_for_no_longer_than_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    now, timeout, waits = 0.0, schema.LOCK_SECONDS, list[float]()

    class Busy:
        """A connection whose checkpoints are always in the way of others, and wait three seconds at most."""

        def execute(self, statement: str) -> "Busy":
            nonlocal now, timeout
            if statement.startswith("PRAGMA busy_timeout = "):
                timeout = int(statement.rpartition(" ")[2]) / 1000
            else:
                waits.append(timeout)
                now += min(timeout, 3.0)
            return self

        def fetchone(self) -> tuple[int]:
            return (1,)

    monkeypatch.setattr(schema, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda seconds: None))
    assert not schema.empty_wal(Busy())  # type: ignore[arg-type]
    assert waits == [schema.LOCK_SECONDS, schema.LOCK_SECONDS - 3]
    assert timeout == schema.LOCK_SECONDS, "as before"


async def test_the_operator_is_told_of_deleted_words_that_stay_in_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.01)
    store = await SqliteStore.open(path)
    await store.receive(message("1", "canary"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM messages").fetchall()
        await store.forget("1")
        await store._writer.ask(lambda db: db.sweep(), alone=True)
    (told,) = {record.getMessage() for record in caplog.records}
    assert str(path) in told
    caplog.clear()
    await store._writer.ask(lambda db: db.sweep(), alone=True)
    assert (caplog.records, path.with_name("pixi.db-wal").stat().st_size) == ([], 0)
    await store.close()


async def test_the_log_is_emptied_though_another_checkpoint_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one waits for somebody who writes; SQLite does not wait for that one."""
    path = tmp_path / "pixi.db"
    store = await SqliteStore.open(path)
    await store.receive(message("1", "canary"))
    writing, waiting, looking = (
        sqlite3.connect(path, timeout=LIMIT, isolation_level=None, check_same_thread=False) for _ in range(3)
    )
    writing.execute("BEGIN IMMEDIATE")

    def wait_for_the_writer() -> None:
        while waiting.execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0]:
            pass  # the connection that looks was at it

    checkpoint = asyncio.create_task(asyncio.to_thread(wait_for_the_writer))
    await until(lambda: looking.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0])

    def sleep(seconds: float) -> None:
        if writing.in_transaction:
            writing.execute("COMMIT")
        time.sleep(seconds)

    monkeypatch.setattr(schema, "LOCK_SECONDS", LIMIT)
    monkeypatch.setattr(schema, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    await store._writer.ask(lambda db: db.sweep(), alone=True)
    await checkpoint
    assert not writing.in_transaction, "or the log was emptied at once"
    assert (tmp_path / "pixi.db-wal").stat().st_size == 0
    for connection in (writing, waiting, looking):
        connection.close()
    await store.close()


async def test_the_loop_goes_on_while_the_disk_is_slow(tmp_path: Path) -> None:
    """Another connection holds the lock for a hundred turns of the loop, which must not wait for it."""
    store = await SqliteStore.open(tmp_path / "pixi.db")
    other = sqlite3.connect(tmp_path / "pixi.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    call = asyncio.ensure_future(store.receive(message("1")))
    for _ in range(100):  # a loop that waited for the lock would get it never: nobody else gives it back
        await asyncio.sleep(0)
    assert not call.done()
    other.execute("COMMIT")
    other.close()
    assert await call
    await store.close()


LOCKED = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
try:
    db.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


async def test_to_open_a_file_a_second_time_takes_no_locks_from_the_first(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As POSIX has it, a process loses all its locks of a file when it closes that file once."""
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("CREATE TABLE locked (x)")
        first.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ConfigError, match=r"another program kept it locked"):
            await SqliteStore.open(path)
        command = [sys.executable, "-c", LOCKED, str(path)]
        other = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert other.stdout == "database is locked\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")
async def test_a_link_to_a_file_that_is_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "pixi.db").symlink_to(tmp_path / "disk" / "talks.db")
    store = await SqliteStore.open(tmp_path / "pixi.db")
    await store.receive(message("1"))
    await store.close()
    assert (tmp_path / "disk" / "talks.db").stat().st_mode & 0o777 == 0o600
