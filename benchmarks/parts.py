"""A bot in parts beside one in one process: how soon the model is asked, how many turns, what a turn costs.

All are the program itself, in processes of their own, on one PostgreSQL server. The loopback Discord and the
scripted model are in this process. Where cores are few, all of these share them: what a turn costs in
processor time then tells more than turns a second.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.processes import ROOT, WorkerFailed
from benchmarks.report import Figure, progress
from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.message import Author, Message
from pixi.core.spending import UsageEntry
from pixi.store.postgres.session import Session
from pixi.store.postgres.store import PostgresStore
from pixi.testing.discord import FakeChannel, LoopbackDiscord
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage

GOAL_MS = 15.0

_SECONDS = 120.0  # for anything that is waited for
_ROOMS = 16
_WAYS = {
    "one process": ("discord",),
    "1 worker": ("gateway", "worker"),
    "2 workers": ("gateway", "worker", "worker"),
    "4 workers": ("gateway", "worker", "worker", "worker", "worker"),
}


@dataclass(slots=True)
class Bot:
    """A bot that runs, and its two far ends.

    Attributes:
        processes: its parts.
        schema: of the database, where its tables are.
        asked: when the model was asked, by the number of the question.
    """

    discord: LoopbackDiscord
    postgres: Postgres
    rooms: list[FakeChannel]
    processes: list[asyncio.subprocess.Process]
    schema: str
    asked: dict[str, float] = field(default_factory=dict)

    async def ask(self, room: FakeChannel, name: str) -> float:
        """Ask, and wait for the answer; gives the seconds from the message to the model's request."""
        person = self.discord.person(f"Person of {room.name}")
        began = time.monotonic()
        await room.say(person, f"{self.discord.bot.mention} question {name}.")
        await self.discord.wait_for(lambda: f"to {name}" in room.texts, timeout=_SECONDS)
        return self.asked[name] - began

    def processor_seconds(self) -> list[float]:
        """What each part has used until now."""
        return [_processor_seconds(each.pid) for each in self.processes]

    def database_seconds(self) -> dict[int, float]:
        """What each process of the database has used until now."""
        pids = [pid for (pid,) in self.postgres.run("SELECT pid FROM pg_stat_activity")]
        return {pid: _processor_seconds(pid) for pid in pids if Path(f"/proc/{pid}").exists()}

    def counts(self) -> "Counts":
        """Return what the database has done until now."""
        ((commits, log),) = self.postgres.run(
            "SELECT xact_commit, pg_current_wal_lsn() - '0/0' FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        ((writes,),) = self.postgres.run(f"SELECT sum(batch) FROM {self.schema}.writers")
        return Counts(int(commits), int(writes), int(log))

    def size(self) -> tuple[int, int]:
        """Return how many rows and bytes the database keeps; its tables are rewritten for that."""
        tables = self.postgres.run("SELECT tablename FROM pg_tables WHERE schemaname = %s", self.schema)
        for (table,) in tables:
            self.postgres.run(f"VACUUM (FULL, ANALYZE) {self.schema}.{table}")
        ((rows, size),) = self.postgres.run(
            "SELECT sum(greatest(reltuples, 0)), sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
            self.schema,
        )
        return int(rows), int(size)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a database: transactions, those that wrote to the store, and bytes of its log."""

    commits: int
    writes: int
    log: int


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running(folder: Path, postgres: Postgres, parts: Sequence[str]) -> AsyncGenerator[Bot, None]:
    """Start a bot, and stop it."""
    (folder / "personas").mkdir()
    (folder / "personas" / "pixi.md").write_text("---\nname: Pixi\npace: off\n---\n\nYou are Pixi.\n")
    bot: Bot

    def answer(seen: Seen) -> Reply:
        text = str(
            next(line["content"] for line in reversed(seen.json()["messages"]) if line["role"] == "user")
        )
        names = [part.partition(".")[0] for part in text.split("question ")[1:]]
        for name in names:
            bot.asked.setdefault(name, time.monotonic())
        return stream(*(f"[SEND: to {name}]\n" for name in names), finish(), usage(100, 20))

    async with (
        LoopbackDiscord() as discord,
        ScriptedOpenAI(choose=answer) as model,
        AsyncExitStack() as stack,
    ):
        guild = discord.guild("Pancake House")
        rooms = [guild.channel(f"room-{number}") for number in range(_ROOMS)]
        schema = stack.enter_context(postgres.schema())
        (folder / "pixi.toml").write_text(
            f'[model]\nname = "scripted"\nbase_url = "{model.base_url}"\n[reply]\npace = "off"\n'
            f'[store]\nurl = "{postgres.url(schema)}"\n'
            f'[discord]\napi_url = "{discord.api_url}"\nslash = false\n'
        )
        environ = os.environ | {"DISCORD_TOKEN": discord.token, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        log = stack.enter_context((folder / "log.txt").open("wb"))
        processes = []
        for part in parts:
            command = [sys.executable, "-m", "pixi", part]
            process = await asyncio.create_subprocess_exec(
                *command, cwd=folder, env=environ, stdout=log, stderr=log
            )
            processes.append(process)
            stack.push_async_callback(_ended, process)
        bot = Bot(discord, postgres, rooms, processes, schema)
        await discord.ready(1)
        try:
            yield bot
        except TimeoutError as error:
            raise WorkerFailed((folder / "log.txt").read_text()[-2_000:]) from error


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has failed
        process.terminate()
    await process.wait()


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one way: delays in seconds, turns a second, and what a turn costs.

    Attributes:
        database_ms: processor time of the database a turn.
        commits: transactions a turn.
        writes: those of them that wrote to the store.
        log, rows, size: bytes of the database's log, rows and bytes kept, a turn.
    """

    delays: list[float]
    rate: float
    processor_ms: list[float]
    database_ms: float
    commits: float
    writes: float
    log: float
    rows: float
    size: float


async def measure(way: str, postgres: Postgres, one_by_one: int, each: int) -> Measured:
    """Ask one question after the other, then in all rooms at once."""
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), postgres, _WAYS[way]) as bot:
            await asyncio.gather(*(bot.ask(room, f"first-{room.id}") for room in bot.rooms))
            delays = [
                await bot.ask(bot.rooms[number % _ROOMS], f"alone-{number}") for number in range(one_by_one)
            ]
            await asyncio.sleep(1.5)  # what is recorded later is
            rows, size = bot.size()
            counts, database = bot.counts(), bot.database_seconds()
            spent, began = bot.processor_seconds(), time.monotonic()

            async def crowd(room: FakeChannel) -> None:
                for number in range(each):
                    await bot.ask(room, f"{room.id}-{number}")

            await asyncio.gather(*map(crowd, bot.rooms))
            took, turns = time.monotonic() - began, each * _ROOMS
            used = [after - before for before, after in zip(spent, bot.processor_seconds(), strict=True)]
            await asyncio.sleep(1.5)
            later, done = bot.database_seconds(), bot.counts()
            more_rows, more_size = bot.size()
            return Measured(
                delays,
                turns / took,
                [1e3 * each_part / turns for each_part in used],
                1e3 * sum(used - database.get(pid, 0.0) for pid, used in later.items()) / turns,
                (done.commits - counts.commits) / turns,
                (done.writes - counts.writes) / turns,
                (done.log - counts.log) / turns,
                (more_rows - rows) / turns,
                (more_size - size) / turns,
            )


FAR_SECONDS = 0.005


@contextmanager
def far_away() -> Generator[None, None, None]:
    """Let each statement take as long as on a server that is far away, whatever the processors here do."""
    wait = Session.wait

    def later(session: Session, *asked: Any, **named: Any) -> Any:
        time.sleep(FAR_SECONDS)
        return wait(session, *asked, **named)

    with patch.object(Session, "wait", later):
        yield


async def write_turns(store: PostgresStore, name: str, each: int) -> None:
    """Put turns on record as a worker does, in four conversations at once."""

    async def talk(room: str) -> None:
        lease = await store.lease(room)
        for number in range(each):
            await store.receive(Message(str(number), room, Author("1", "mo"), "hi", 1.0))
            begun = await store.begin_turn(room, 0, "pixi", (str(number),), lease=lease)
            await store.intend(begun.turn, 0, "send", "hello")
            await store.settle(begun.turn, 0, "done", f"{room} {number}")
            lines, spent = (
                (UserLine("> hi"), AssistantLine("hello")),
                [UsageEntry(1, channel=room, messages=1)],
            )
            await store.end_turn(begun.turn, lines, "stop", 1, Usage(), spent=spent)

    await asyncio.gather(*(talk(f"{name} {number}") for number in range(4)))


async def rate_of_stores(postgres: Postgres, count: int, each: int) -> float:
    """Return the turns a second that so many stores put on record together."""
    with postgres.schema() as schema:
        stores = [await PostgresStore.open(postgres.url(schema)) for _ in range(count)]
        for store in stores:
            await store.lease("first")  # to become an owner is no part of a turn
        began = time.monotonic()
        await asyncio.gather(*(write_turns(store, f"{at}", each) for at, store in enumerate(stores)))
        took = time.monotonic() - began
        for store in stores:
            await store.close()
    return count * 4 * each / took


def _p99(delays: list[float]) -> float:
    return sorted(delays)[len(delays) * 99 // 100] * 1e3


def run(quick: bool) -> list[Figure]:
    """Measure."""
    one_by_one, each = (20, 2) if quick else (300, 20)
    postgres = Postgres()
    found: dict[str, Measured] = {}
    try:
        for way in _WAYS:
            progress(f"parts, {way}")
            found[way] = asyncio.run(measure(way, postgres, one_by_one, each))
        progress("parts, stores")
        with far_away():
            stores = {count: asyncio.run(rate_of_stores(postgres, count, each)) for count in (1, 2, 4)}
    finally:
        postgres.close()
    whole, parts = found["one process"], found["1 worker"]
    others = {name: told for name, told in found.items() if name != "1 worker"}
    more = _p99(parts.delays) - _p99(whole.delays)
    return [
        Figure(
            name="In parts: from a message on Discord to the model's request, p50 / p99",
            goal=f"p99 ≤ {GOAL_MS:g} ms more than in one process",
            ours=_in_ms(parts.delays),
            floors={name: _in_ms(told.delays) for name, told in others.items()},
            ratios={"more than in one process, p99": f"{more:.1f} ms"},
            met=more <= GOAL_MS,
        ),
        Figure(
            name=f"In parts: turns a second, {_ROOMS} channels at once",
            goal="more with more workers, where there are cores",
            ours=f"{parts.rate:.0f}",
            floors={name: f"{told.rate:.0f}" for name, told in others.items()},
            note=f"{os.cpu_count()} cores, which Discord, the model and PostgreSQL share",
        ),
        Figure(
            name="In parts: processor time a turn, all parts together; transactions (those that write)",
            goal="–",
            ours=_cost(parts),
            floors={name: _cost(told) for name, told in others.items()},
            note=f"the gateway's share is {parts.processor_ms[0]:.1f} ms",
        ),
        Figure(
            name="In parts: what a turn costs the database: processor time, its log, rows and bytes kept",
            goal="–",
            ours=_database_cost(parts),
            floors={name: _database_cost(told) for name, told in others.items()},
            note="after a vacuum; the log without whole pages",
        ),
        Figure(
            name=f"In parts: turns a second on record by 4 workers, {FAR_SECONDS * 1e3:g} ms to the server",
            goal="≥ 3 × those by one",
            ours=f"{stores[4]:.0f}",
            floors={"by 1": f"{stores[1]:.0f}", "by 2": f"{stores[2]:.0f}"},
            ratios={"by 1": f"{stores[4] / stores[1]:.1f}"},
            met=stores[4] >= 3 * stores[1],
            note="what they ask of the store alone, each in conversations of its own; without fsync",
        ),
    ]


def _in_ms(delays: list[float]) -> str:
    return f"{statistics.median(delays) * 1e3:.1f} / {_p99(delays):.1f} ms"


def _database_cost(told: Measured) -> str:
    return f"{told.database_ms:.1f} ms, {told.log / 1e3:.1f} kB, {told.rows:.1f}, {told.size / 1e3:.1f} kB"


def _cost(told: Measured) -> str:
    return f"{sum(told.processor_ms):.1f} ms, {told.commits:.1f} ({told.writes:.1f})"
