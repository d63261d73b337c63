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
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from benchmarks.processes import ROOT, WorkerFailed
from benchmarks.report import Figure, progress
from pixi.testing.discord import FakeChannel, LoopbackDiscord
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage

COMMAND = "python -m benchmarks parts"
GOAL_MS = 15.0

_SECONDS = 120.0  # for anything that is waited for
_ROOMS = 16
_LOOK_SECONDS = 0.01  # between two looks at the lock
_LOCK = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted LIMIT 1"
_WAYS = {
    "one process": ("discord",),
    "1 worker": ("gateway", "worker"),
    "2 workers": ("gateway", "worker", "worker"),
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

    async def share_of_lock(self, work: Awaitable[object]) -> float:
        """Do the work; return for which share of the time a process held the lock of writers."""
        held: list[bool] = []

        async def look() -> None:
            async with await psycopg.AsyncConnection.connect(self.postgres.url()) as session:
                while True:
                    found = await session.execute(_LOCK)
                    held.append(await found.fetchone() is not None)
                    await asyncio.sleep(_LOOK_SECONDS)

        looking = asyncio.create_task(look())
        await work
        looking.cancel()
        await asyncio.wait([looking])
        return statistics.mean(held)


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
        writes: those of them that wrote to the store, which one process at a time does.
        locked: the share of the time in which one did.
        log, rows, size: bytes of the database's log, rows and bytes kept, a turn.
    """

    delays: list[float]
    rate: float
    processor_ms: list[float]
    database_ms: float
    commits: float
    writes: float
    locked: float
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

            locked = await bot.share_of_lock(asyncio.gather(*map(crowd, bot.rooms)))
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
                locked,
                (done.log - counts.log) / turns,
                (more_rows - rows) / turns,
                (more_size - size) / turns,
            )


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
    finally:
        postgres.close()
    whole, parts = found["one process"], found["1 worker"]
    others = {name: told for name, told in found.items() if name != "1 worker"}
    more = _p99(parts.delays) - _p99(whole.delays)
    return [
        Figure(
            name="In parts: from a message on Discord to the model's request, p50 / p99",
            command=COMMAND,
            goal=f"p99 ≤ {GOAL_MS:g} ms more than in one process",
            ours=_in_ms(parts.delays),
            floors={name: _in_ms(told.delays) for name, told in others.items()},
            ratios={"more than in one process, p99": f"{more:.1f} ms"},
            met=more <= GOAL_MS,
        ),
        Figure(
            name=f"In parts: turns a second, {_ROOMS} channels at once",
            command=COMMAND,
            goal="more with more workers, where there are cores",
            ours=f"{parts.rate:.0f}",
            floors={name: f"{told.rate:.0f}" for name, told in others.items()},
            note=f"{os.cpu_count()} cores, which Discord, the model and PostgreSQL share",
        ),
        Figure(
            name="In parts: processor time a turn, all parts together, and transactions of the database",
            command=COMMAND,
            goal="–",
            ours=_cost(parts),
            floors={name: _cost(told) for name, told in others.items()},
            note=f"the gateway's share is {parts.processor_ms[0]:.1f} ms",
        ),
        Figure(
            name="In parts: what a turn costs the database: processor time, its log, rows and bytes kept",
            command=COMMAND,
            goal="–",
            ours=_database_cost(parts),
            floors={name: _database_cost(told) for name, told in others.items()},
            note="after a vacuum; the log without whole pages",
        ),
        Figure(
            name="In parts: transactions a turn that write to the store, and how long each holds the lock",
            command=COMMAND,
            goal="–",
            ours=_writing(parts),
            floors={name: _writing(told) for name, told in others.items()},
            note="without fsync",
        ),
    ]


def _in_ms(delays: list[float]) -> str:
    return f"{statistics.median(delays) * 1e3:.1f} / {_p99(delays):.1f} ms"


def _database_cost(told: Measured) -> str:
    return f"{told.database_ms:.1f} ms, {told.log / 1e3:.1f} kB, {told.rows:.1f}, {told.size / 1e3:.1f} kB"


def _writing(told: Measured) -> str:
    seconds = told.locked / (told.rate * told.writes)
    return f"{told.writes:.1f}, {seconds * 1e3:.2f} ms"


def _cost(told: Measured) -> str:
    return f"{sum(told.processor_ms):.1f} ms, {told.commits:.1f}"
