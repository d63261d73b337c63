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
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import ROOT, WorkerFailed
from benchmarks.report import Figure, progress
from pixi.testing.discord import FakeChannel, LoopbackDiscord
from tests.servers.postgres import Postgres
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream, usage

COMMAND = "python -m benchmarks parts"
GOAL_MS = 15.0

_SECONDS = 120.0  # for anything that is waited for
_ROOMS = 16
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
        asked: when the model was asked, by the number of the question.
    """

    discord: LoopbackDiscord
    postgres: Postgres
    rooms: list[FakeChannel]
    processes: list[asyncio.subprocess.Process]
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
        ticks = os.sysconf("SC_CLK_TCK")
        told = [
            Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split() for each in self.processes
        ]
        return [(int(fields[11]) + int(fields[12])) / ticks for fields in told]

    def commits(self) -> int:
        """How many transactions the database has ended until now."""
        ((count,),) = self.postgres.run(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        return int(count)


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
        bot = Bot(discord, postgres, rooms, processes)
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
    """Of one way: delays in seconds, turns a second, and what a turn costs."""

    delays: list[float]
    rate: float
    processor_ms: list[float]
    commits: float


async def measure(way: str, postgres: Postgres, one_by_one: int, each: int) -> Measured:
    """Ask one question after the other, then in all rooms at once."""
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), postgres, _WAYS[way]) as bot:
            await asyncio.gather(*(bot.ask(room, f"first-{room.id}") for room in bot.rooms))
            delays = [
                await bot.ask(bot.rooms[number % _ROOMS], f"alone-{number}") for number in range(one_by_one)
            ]
            await asyncio.sleep(1.5)  # what is recorded later is
            spent, commits, began = bot.processor_seconds(), bot.commits(), time.monotonic()

            async def crowd(room: FakeChannel) -> None:
                for number in range(each):
                    await bot.ask(room, f"{room.id}-{number}")

            await asyncio.gather(*map(crowd, bot.rooms))
            took, turns = time.monotonic() - began, each * _ROOMS
            used = [after - before for before, after in zip(spent, bot.processor_seconds(), strict=True)]
            await asyncio.sleep(1.5)
            return Measured(
                delays,
                turns / took,
                [1e3 * each_part / turns for each_part in used],
                (bot.commits() - commits) / turns,
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
    ]


def _in_ms(delays: list[float]) -> str:
    return f"{statistics.median(delays) * 1e3:.1f} / {_p99(delays):.1f} ms"


def _cost(told: Measured) -> str:
    return f"{sum(told.processor_ms):.1f} ms, {told.commits:.1f}"
