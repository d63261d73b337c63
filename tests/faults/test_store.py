"""A store that another program keeps locked: what was said stands, and people are told."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pixi.core.errors import StoreError
from pixi.models.deadlines import Deadlines
from pixi.store.sqlite import schema
from tests.end_to_end.bot import EDDA, PERSONA
from tests.end_to_end.bot import scene as on_discord
from tests.faults.promise import Scene, in_turn, trouble
from tests.servers.scripted_openai import Until, finish, stream
from tests.waiting import LIMIT, until

pytestmark = pytest.mark.nightly

PATIENT = Deadlines(first=30, gap=30, turn=60)
MIDDLE = "one"


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None, None]:
    """Another program has taken the file for itself."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        await until(lambda: _took(other))
        yield
        other.execute("ROLLBACK")


def _took(other: sqlite3.Connection) -> bool:
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:  # it is being written to just now
        return False
    return True


@asynccontextmanager
async def in_the_middle(folder: Path) -> AsyncGenerator[tuple[Scene, asyncio.Event], None]:
    """A turn that has said something, and goes on when the event is set."""
    gate = asyncio.Event()
    reply = stream(f"[SEND: {MIDDLE}]\n", Until(gate), "[SEND: two]", finish())
    async with trouble(folder, in_turn(reply), deadlines=PATIENT) as scene:
        asking = asyncio.create_task(scene.ask("hello"))
        await until(lambda: scene.channel.sent == [MIDDLE])
        yield scene, gate
        await asking


async def test_a_lock_for_a_moment_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.store.sqlite.schema.LOCK_SECONDS", LIMIT)
    async with in_the_middle(tmp_path) as (scene, gate):
        async with locked(tmp_path / "pixi.db"):
            gate.set()
            await asyncio.sleep(0.1)  # the length of the moment, which the lock outlasts
            assert scene.channel.sent == [MIDDLE]  # recorded before it is posted
        await until(lambda: scene.channel.ended)
        assert scene.channel.sent == [MIDDLE, "two"]
        assert scene.notices == []
        await scene.lives_on("two")


async def test_a_lock_that_stays_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert schema.LOCK_SECONDS == 5.0  # as docs/faults.md says
    monkeypatch.setattr("pixi.store.sqlite.schema.LOCK_SECONDS", 0.3)
    async with in_the_middle(tmp_path) as (scene, gate):
        async with locked(tmp_path / "pixi.db"):
            gate.set()
            await until(lambda: scene.notices)
        await until(lambda: scene.channel.ended)
        assert scene.channel.sent == [MIDDLE]
        (told,) = scene.notices
        assert "another program kept it locked; stop that program" in told
        await scene.lives_on(MIDDLE)


class Disk:
    """A disk that has room for so many writes, and then for none until somebody makes some.

    What a full disk does to SQLite's own file operations cannot be had without a disk of one's own; what
    SQLite then says to its caller is said here, at the statement that would have written.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.was_full = False

    def write(self, statement: str) -> None:
        """A statement is about to write."""
        if not statement.lstrip().startswith(("INSERT", "UPDATE", "DELETE", "COMMIT")):
            return
        self.room -= 1
        if self.room < 0:
            self.was_full = True
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error


@contextmanager
def on(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever file is opened meanwhile is kept on it."""

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            disk.write(statement)
            return super().execute(statement, *values)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
        yield


async def test_a_disk_that_is_full_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in count():
        disk = Disk(1_000)
        folder = tmp_path / str(room)
        folder.mkdir()
        reply = stream("[SEND: one]\n[REACT: 🥞]\n[SEND: two]", finish())
        with on(disk, monkeypatch):
            async with trouble(folder, in_turn(reply), deadlines=PATIENT) as scene:
                disk.room = room
                refused = ""
                try:
                    await scene.ask("hello")
                except StoreError as error:
                    refused = str(error)
                told = [refused] if refused else scene.notices
                assert ["the disk is full" in each for each in told] == [True] * disk.was_full
                assert not (refused and scene.server.requests)
                told_so_far = list(scene.channel.sent)
                assert told_so_far == ["one", "two"][: len(told_so_far)]
                assert len(scene.server.requests) <= 1
                disk.room = 1_000
                await scene.lives_on(*told_so_far, rest=["one", "two"][len(told_so_far) :])
        if not disk.was_full:
            assert told_so_far == ["one", "two"]
            break
    assert room > 10


@pytest.mark.parametrize("has_words", [True, False])
async def test_what_cannot_be_received_is_told_of_where_it_was_said(
    tmp_path: Path, has_words: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pixi.store.sqlite.schema.LOCK_SECONDS", 0.1)
    personas = {"pixi": PERSONA} if has_words else {"edda": EDDA}
    async with (
        on_discord(tmp_path, "[SEND: hello]", personas=personas) as here,
        here.bot(persona__default=next(iter(personas))),
    ):
        from pixi.channels.discord.outgoing.channel import NOTICE

        excuse = "oops, my head" if has_words else NOTICE
        async with locked(tmp_path / "pixi.db"):
            await here.ask("one")
            await here.said(excuse)
            await here.ask("and two")
            await until(lambda: caplog.text.count("kept it locked") >= 2)
            await here.discord.idle()
            assert here.posts() == [excuse]  # once a minute is enough
        await here.ask("three")
        await here.said(excuse, "hello")
        assert len(here.asked) == 1
