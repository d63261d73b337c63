"""What outlives a killed process, and several processes on one database."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from pixi.core.errors import LeaseHeld, StoreOutdated
from pixi.core.message import Author, Message
from pixi.store.kept import Effect
from pixi.store.opening import open_store
from pixi.store.store import Store

KILLED = """
import asyncio, os, signal, sys
from pixi.core.message import Author, Message
from pixi.store.opening import open_store

async def main():
    store = await open_store(sys.argv[1])
    await store.receive(Message("1", "room", Author("1", "mo"), "hi", 0.5))
    lease = await store.lease("room")
    turn = (await store.begin_turn("room", 0, "pixi", ("1",), lease=lease)).turn
    await store.intend(turn, 0, "note", "done before")
    await store.settle(turn, 0, "done")
    await store.intend(turn, 1, "send", "was it delivered?")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

WRITER = """
import asyncio, sys
from pixi.core.message import Author, Message
from pixi.store.opening import open_store

async def main():
    store = await open_store(sys.argv[1])
    for number in range(100):
        message = Message(f"{sys.argv[2]}-{number}", "room", Author("1", "mo"), "hi", 0.5)
        assert await store.receive(message)
    await store.close()

asyncio.run(main())
"""


async def test_a_kill_between_intent_and_outcome_shows(url: str) -> None:
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, url], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = await open_store(url)
    saved = await store.load("room")
    await store.close()
    assert saved.waiting == ()
    (turn,) = saved.unfinished
    assert turn.messages == (Message("1", "room", Author("1", "mo"), "hi", 0.5, number=1),)
    assert turn.effects == (
        Effect(turn.id, 0, "note", "done before", "done"),
        Effect(turn.id, 1, "send", "was it delivered?", None),
    )


async def test_processes_share_a_database_that_all_of_them_make(url: str, tmp_path: Path) -> None:
    (tmp_path / "pixi.db").unlink(missing_ok=True)
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url, name) for name in "abc"
    ]
    assert [await writer.wait() for writer in writers] == [0, 0, 0]
    store = await open_store(url)
    numbers = [message.number for message in (await store.load("room")).waiting]
    assert numbers == [*range(1, 301)], "none twice, and in the order of arrival"
    await store.check()
    await store.close()


async def test_what_one_process_commits_another_sees(url: str) -> None:
    one, two = await open_store(url), await open_store(url)
    message = Message("1", "room", Author("1", "mo"), "hi", 0.5)
    assert await one.receive(message)
    assert not await two.receive(message)
    assert (await two.load("room")).waiting == (replace(message, number=1),)
    await one.reset("room")
    assert (await two.load("room")).generation == 1
    await one.close()
    await two.close()


async def test_stores_that_take_the_same_message_begin_one_turn(url: str) -> None:
    stores = [await open_store(url) for _ in range(4)]
    await stores[0].receive(Message("1", "room", Author("1", "mo"), "hi", 0.5))

    async def answer(store: Store) -> int:
        lease = await store.lease("room")
        return (await store.begin_turn("room", 0, "pixi", ("1",), lease=lease)).turn

    told = await asyncio.gather(*map(answer, stores), return_exceptions=True)
    assert len([turn for turn in told if isinstance(turn, int)]) == 1
    assert all(isinstance(each, int | LeaseHeld | StoreOutdated) for each in told)
    assert len((await stores[3].load("room")).unfinished) == 1
    for store in stores:
        await store.close()
