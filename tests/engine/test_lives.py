"""A conversation lives through everything at random, and then a few plain statements must hold.

People write, edit, delete and stop; the process is told to end, ends at once, or dies; the place is away for
a while, before or after it did what it was asked for. Whatever the order: nothing is said twice, and the
history tells what stands there; nothing that was seen is begun again; every message that was due is answered,
put back or told; and a turn ends.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pixi.core.channel import Channel
from pixi.core.errors import ChannelLost, PixiError
from pixi.core.llm import AssistantLine, Delta, Finished, Request, Text, UserLine
from pixi.core.message import Author, Message
from pixi.core.reading import commands_in
from pixi.core.stamps import STILL_WAITS
from pixi.engine import Engine
from pixi.models.model import Traits
from pixi.store.sqlite import SqliteStore
from pixi.testing import RecordingChannel
from tests.engine.scene import PIXI
from tests.rows import row, seeds
from tests.waiting import within

CONVERSATION = "test:channel"
_NAMES = {"send": (), "note": (), "react": ()}
_FRESH = re.compile(r"^(.*)\n> (q\d+)", re.MULTILINE)


def _noon() -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC)  # when its messages are written: none is ever too old


class Place:
    """Where people read what is said, whichever process says it."""

    def __init__(self) -> None:
        self.posts: dict[str, str] = {}  # texts by their nonces, in order
        self.away = False


class Line(RecordingChannel):
    """What one process has of the place: it hangs once the process is dead."""

    def __init__(self, place: Place, chance: Random) -> None:
        super().__init__(CONVERSATION)
        self.place = place
        self.chance = chance
        self.dead = False

    async def send(self, text: str, *, nonce: str, **how: Any) -> str | None:
        await self._reach()
        if self.place.away and self.chance.random() < 0.5:
            raise ChannelLost("It is away.")
        self.place.posts.setdefault(nonce, text)
        if self.place.away:
            raise ChannelLost("It is away, and nobody knows.")
        await self._reach()
        return nonce

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        await self._reach()
        if self.place.away:
            raise ChannelLost("It is away.")
        return nonce if nonce in self.place.posts else None

    async def _reach(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0.01)
        if self.dead:
            await asyncio.Event().wait()


class Talker:
    """A model that says something new each time, now faster and now slower."""

    name, traits = "talker", Traits()

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._said = 0

    def _words(self) -> list[str]:
        commands = []
        for _ in range(self._chance.choice((0, 1, 1, 2, 3))):
            self._said += 1
            name = self._chance.choice(("SEND", "SEND", "SEND", "NOTE"))
            commands.append(f"[{name}: a{self._said}]")
        return list("\n".join(commands))

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        for word in self._words():
            if self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.choice((0.0, 0.05, 1.0)))
            yield Text(word)
        yield Finished()

    async def close(self) -> None: ...


class Process:
    """One process at the place: it goes on with what another left, until it ends in one way or another."""

    def __init__(self, store: SqliteStore, place: Place, talker: Talker, chance: Random) -> None:
        self.store = store
        self.line = Line(place, chance)
        self.engine = Engine(model=talker, persona=PIXI, store=store, clock=_noon)
        self.engine.settings.gather_messages = chance.choice((1, 2, 6))
        self.resuming = asyncio.create_task(self.resume())

    async def resume(self) -> None:
        async def open_channel(_: str) -> Channel | None:
            return self.line

        await self.engine.resume("test:", 0.0, open_channel)

    async def settled(self) -> None:
        await asyncio.gather(self.resuming, return_exceptions=True)
        await self.engine.settled()

    async def end(self, how: str) -> None:
        """End: it is told to, it is closed, or it dies on the spot."""
        if how == "dies":
            self.line.dead = True
            await self.store.close()
        if how == "drains":
            await self.engine.drain(5.0)
        await self.engine.close()
        self.resuming.cancel()
        await asyncio.gather(self.resuming, return_exceptions=True)
        await self.store.close()


class World:
    """A place, its people, and processes that come and go: so many at a time."""

    def __init__(self, seed: int, path: Path) -> None:
        self.chance = Random(seed)
        self.path = path
        self.place = Place()
        self.talker = Talker(self.chance)
        self.known: list[Message] = []
        self.gone: set[str] = set()  # words that somebody took back
        self.processes: list[Process] = []

    async def start(self) -> None:
        """Begin a process."""
        store = await SqliteStore.open(self.path)
        self.processes.append(Process(store, self.place, self.talker, self.chance))

    async def act(self) -> None:
        """Do one thing, at some time. Whoever edits or deletes is heard by all processes, as on Discord."""
        chance, one = self.chance, self.chance.choice(self.processes)
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.02, 0.3, 3.0)))
        match chance.choices(
            ("write", "edit", "delete", "stop", "outage", "drains", "closes", "dies", "over"),
            (12, 1, 1, 1, 1, 1, 1, 2, 1),
        )[0]:
            case "edit" if self.known:
                message = chance.choice(self.known)
                for each in self.processes:
                    await each.engine.edit(CONVERSATION, message.id, f"{message.text} or so")
            case "delete" if self.known:
                message = chance.choice(self.known)
                self.gone.add(message.text)
                for each in self.processes:
                    await each.engine.withdraw(CONVERSATION, message.id)
            case "stop":
                await one.engine.stop(CONVERSATION)
            case "outage":
                self.place.away = not self.place.away
            case "drains" | "closes" | "dies" as how:
                self.processes.remove(one)
                await one.end(how)
                await self.start()
            case "over" if not self.place.away:
                await one.engine.take_over(CONVERSATION)
                await one.resume()
            case _:
                await self._write(one)

    async def _write(self, one: Process) -> None:
        who, number = self.chance.choice("123"), len(self.known)
        said = one.line.message(
            f"q{number}",
            id=f"q{number}",
            author=Author(who, f"Mo{who}"),
            addressed=self.chance.random() < 0.8,
        )
        self.known.append(said)
        await one.engine.receive(said, one.line)

    async def calm_down(self) -> None:
        """Let everything come to its end, and one more process see to what is left."""
        self.place.away = False
        await self.start()
        for _ in self.processes:
            await asyncio.gather(*(process.settled() for process in self.processes))
        await self.end()
        await self.start()
        await self.processes[0].settled()

    async def end(self) -> None:
        """End all processes."""
        processes, self.processes = self.processes, []
        for process in processes:
            await process.end("closes")


def _told(store_lines: list[str]) -> list[str]:
    """The messages that the history says were sent, in order."""
    commands = [command for text in store_lines for command in commands_in(text, _NAMES)]
    return [command.argument for command in commands if command.name == "send" and command.argument]


@pytest.mark.parametrize("some", seeds(5, 500))
async def test_whatever_happens_the_plain_statements_hold(some: range, tmp_path: Path) -> None:
    for processes, seed in product((1, 2), some):
        with row(f"processes={processes}, seed={seed}"):
            await _live(seed, processes, tmp_path / f"{processes}-{seed}.db")


async def _live(seed: int, processes: int, path: Path) -> None:
    world = World(seed, path)
    for _ in range(processes):
        await world.start()
    async with within("the end of all"):
        for _ in range(world.chance.randrange(10, 40)):
            await world.act()
        await world.calm_down()
    saved = await world.processes[0].store.load(CONVERSATION)
    posts = list(world.place.posts.values())
    # A turn ends, and every message that was due was answered.
    assert saved.unfinished == ()
    assert [message.id for message in saved.waiting if message.addressed] == []
    # Nothing is said twice, and the history tells what stands there, in its order.
    assert len(posts) == len(set(posts))
    assert _told([line.text for line in saved.lines if isinstance(line, AssistantLine)]) == posts
    # Nothing that was seen is begun again: each message begins one turn, and comes due again at most once.
    users = "\n".join(line.text for line in saved.lines if isinstance(line, UserLine))
    told = [(head, text) for head, text in _FRESH.findall(users)]
    fresh = [text for head, text in told if STILL_WAITS not in head]
    again = [text for head, text in told if STILL_WAITS in head]
    assert len(fresh) == len(set(fresh))
    assert len(again) == len(set(again))
    due = {message.text for message in world.known if message.addressed} - world.gone
    assert due <= set(fresh)
    await world.end()


async def test_a_dead_process_does_nothing_more(tmp_path: Path) -> None:
    """What the test above rests on: no act of a dead process reaches the place."""
    world = World(0, tmp_path / "pixi.db")
    await world.start()
    (process,) = world.processes
    process.line.dead = True
    sending = asyncio.create_task(process.line.send("a", nonce="1"))
    await asyncio.sleep(10)
    assert world.place.posts == {}
    sending.cancel()
    await process.store.close()
    with pytest.raises(PixiError):
        await process.engine.receive(process.line.message("hello"), process.line)
    await world.end()
