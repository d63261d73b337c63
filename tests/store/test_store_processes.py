"""What outlives a killed process, and several processes on one file."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore
from pixi.store.store import Effect

KILLED = """
import asyncio, os, signal, sys
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await store.receive(Message("1", "room", Author("1", "mo"), "hi", 0.5))
    turn = await store.begin_turn("room", 0, "pixi", ("1",))
    await store.intend(turn, 0, "note", "done before")
    await store.settle(turn, 0, "done")
    await store.intend(turn, 1, "send", "was it delivered?")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

WRITER = """
import asyncio, sys
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    for number in range(100):
        message = Message(f"{sys.argv[2]}-{number}", "room", Author("1", "mo"), "hi", 0.5)
        assert await store.receive(message)
    await store.close()

asyncio.run(main())
"""


async def test_a_kill_between_intent_and_outcome_shows(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = await SqliteStore.open(path)
    saved = await store.load("room")
    await store.close()
    assert saved.waiting == ()
    (turn,) = saved.unfinished
    assert turn.messages == (Message("1", "room", Author("1", "mo"), "hi", 0.5, number=1),)
    assert turn.effects == (
        Effect(turn.id, 0, "note", "done before", "done"),
        Effect(turn.id, 1, "send", "was it delivered?", None),
    )


async def test_processes_share_a_file_that_all_of_them_make(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(path), name) for name in "abc"
    ]
    assert [await writer.wait() for writer in writers] == [0, 0, 0]
    with closing(sqlite3.connect(path)) as database:
        numbers = database.execute("SELECT number FROM messages ORDER BY position").fetchall()
        assert numbers == [(number,) for number in range(1, 301)], "none twice, and in the order of arrival"
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)


async def test_what_one_process_commits_another_sees(tmp_path: Path) -> None:
    one = await SqliteStore.open(tmp_path / "pixi.db")
    two = await SqliteStore.open(tmp_path / "pixi.db")
    message = Message("1", "room", Author("1", "mo"), "hi", 0.5)
    assert await one.receive(message)
    assert not await two.receive(message)
    assert (await two.load("room")).waiting == (replace(message, number=1),)
    await one.reset("room")
    assert (await two.load("room")).generation == 1
    await one.close()
    await two.close()
