"""Rounds of questions, each with a kill at one of the moments that matter, and what must hold after them."""

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pixi.core.written import read_again
from tests.kill.life import Life, Nursery, Records
from tests.servers.loopback_discord import Call, LoopbackDiscord, User
from tests.servers.loopback_discord import Channel as Room
from tests.servers.scripted_openai import (
    Reply,
    ScriptedOpenAI,
    Seen,
    Step,
    Wait,
    call,
    finish,
    stream,
    usage,
)

POINTS = (
    "after receiving",
    "while the model writes",
    "after a command closed",
    "before posting",
    "between posting and recording",
    "while saving",
    "in a tool",
    "in shutdown",
    "while coming back",
)
"""The moments of a kill. Most are met by what the servers see; the others by a short random time."""

_NAMES = {"send": ("reply",), "react": (), "note": ()}
_ROOMS = 3
_SETTLE_SECONDS = 20.0

PERSONA = """\
---
name: Pixi
summon: [pixi]
tools: [ledger]
pace: off
---

You are Pixi.
"""

LEDGER = '''\
"""A tool that takes a while."""

import asyncio
from pathlib import Path


def setup(addon):
    @addon.tool
    async def ledger(context, entry: str) -> str:
        """Write an entry into the ledger.

        Args:
            entry: what to write.
        """
        with Path("ledger.txt").open("a") as file:
            file.write(entry + "\\\\n")
        await asyncio.sleep(0.03)
        return "written"
'''


class Stuck(Exception):
    """The program does not come to rest: a message waits, or a turn does not end."""


@dataclass(slots=True)
class Report:
    """What came of the rounds.

    Attributes:
        lost: questions that nobody answered.
        twice: texts that were posted more than once.
        untrue: places where the history differs from what was posted.
        unsettled: acts whose outcome nobody knows.
        stuck: what is left to be done though nothing goes on any more.
        kills: how often the program was killed at each point.
        interrupted: kills that met a turn which had said something already.
    """

    asked: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    stuck: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    interrupted: int = 0

    @property
    def clean(self) -> bool:
        """Whether everything held."""
        return not (self.lost or self.twice or self.untrue or self.unsettled or self.stuck)

    def __str__(self) -> str:
        points = ", ".join(f"{count} {point}" for point, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({points}); {self.asked} questions, {len(self.lost)} lost, "
            f"{len(self.twice)} posted twice, {len(self.untrue)} conversations remembered wrongly, "
            f"{len(self.unsettled)} acts left unknown, {self.interrupted} turns cut short"
        )


class Rounds:
    """Asks, kills, starts again, and looks whether all is well. Made by `rounds`."""

    def __init__(
        self, folder: Path, discord: LoopbackDiscord, nursery: Nursery, chance: random.Random
    ) -> None:
        self._discord = discord
        self._nursery = nursery
        self._chance = chance
        self._records = Records(folder / "pixi.db")
        self._guild = discord.guild("Pancake House")
        self._rooms = [self._guild.channel(f"room-{number}") for number in range(_ROOMS)]
        self._mo: User = discord.person("Mo")
        self._life: Life | None = None
        self._asked: dict[str, Room] = {}
        self.report = Report()

    async def begin(self) -> None:
        """Start the program for the first time."""
        await self._start()

    async def round(self, point: str) -> None:
        """Ask a question in each room, kill at the point, start again, and wait until all is settled."""
        life = self._life
        assert life is not None
        before = len(self._asked)
        armed = self._arm(point, life)
        for room in self._rooms:
            await self._ask(room, point)
        if point == "in shutdown":
            await self._some_posts(before)
            life.ask_to_end()
        await self._until_dead(life, armed, before)
        self.report.kills[point] += 1
        await self._start()
        if point == "while coming back":
            assert self._life is not None
            second = self._life
            await asyncio.sleep(self._chance.uniform(0, 0.25))
            second.kill()
            await second.ended()
            await self._start()
        await self._settled(point)

    async def end(self) -> None:
        """End the program politely, and look at everything."""
        assert self._life is not None
        self._life.ask_to_end()
        await self._life.ended()
        self._judge()

    async def _ask(self, room: Room, point: str) -> None:
        name = f"q{len(self._asked)}"
        self._asked[name] = room
        how = "tool" if point == "in a tool" or self._chance.random() < 0.15 else "plain"
        await room.say(self._mo, f"{self._discord.bot.mention} {name} {how}")

    async def _start(self) -> None:
        sessions = self._discord.gateway.identifies
        self._life = await self._nursery.start()
        await self._discord.wait_for(lambda: self._discord.gateway.identifies > sessions, timeout=30)

    async def _settled(self, point: str) -> None:
        asked = len(self._asked)
        try:
            await self._on_record(asked)
        except TimeoutError:
            self.report.stuck = f"after a kill {point}: {self._records.summary()}, {asked} asked"
            raise Stuck(self.report.stuck) from None

    async def _on_record(self, asked: int) -> None:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while not self._records.settled(asked):  # noqa: ASYNC110 - the store of another process
                await asyncio.sleep(0.01)

    async def _some_posts(self, before: int) -> None:
        """Wait until something of the round was said."""
        names = list(self._asked)[before:]
        await self._discord.wait_for(
            lambda: any(self._said_about(name) for name in names), timeout=_SETTLE_SECONDS
        )

    def _arm(self, point: str, life: Life) -> asyncio.Event:
        """Let the kill happen at the point; the event is set where the servers cannot see it come."""
        by_time = asyncio.Event()
        loop = asyncio.get_running_loop()
        skip = self._chance.randrange(_ROOMS * 2)

        def kill(_: Call) -> None:
            life.kill()

        def later(_: Call) -> None:
            loop.call_later(self._chance.uniform(0, 0.012), life.kill)

        hooks: dict[str, tuple[Callable[..., object], Callable[[Call], None]]] = {
            "before posting": (self._discord.before, kill),
            "between posting and recording": (self._discord.after, kill),
            "after a command closed": (self._discord.before, later),
            "while saving": (self._discord.after, later),
        }
        if point in hooks:
            when, what = hooks[point]
            when("POST", r"/messages$", _skipping(skip, what), times=skip + 1)
        else:
            by_time.set()
        return by_time

    async def _until_dead(self, life: Life, by_time: asyncio.Event, before: int) -> None:
        if by_time.is_set():
            await asyncio.sleep(self._chance.uniform(0, 0.12))
            life.kill()
        async with asyncio.timeout(_SETTLE_SECONDS):
            while life.alive:
                if self._records.settled(len(self._asked)):
                    life.kill()  # the turns were over before the moment came
                await asyncio.sleep(0.004)
        names = list(self._asked)[before:]
        self.report.interrupted += sum(0 < len(self._said_about(name)) < 3 for name in names)

    def _said_about(self, name: str) -> list[str]:
        start = f"{name} "
        return [each.content for each in self._asked[name].messages if each.content.startswith(start)]

    def _judge(self) -> None:
        report, bot = self.report, self._discord.bot.id
        report.asked = len(self._asked)
        report.lost = [name for name in self._asked if not self._said_about(name)]
        for room in self._rooms:
            posts = [each.content for each in room.messages if each.author.id == bot]
            report.twice += [text for text, count in Counter(posts).items() if count > 1]
            for address in self._records.conversations():
                if f":{room.id}:" in address:
                    lines = "\n".join(self._records.sent(address))
                    told = [
                        command.argument
                        for command in read_again(lines, _NAMES)
                        if command.name == "send" and command.argument
                    ]
                    if told != posts:
                        report.untrue.append(f"{address}: told {told[-5:]}, posted {posts[-5:]}")
        report.unsettled = [str(act) for act in self._records.unsettled_acts()]


def _skipping(skip: int, what: Callable[[Call], None]) -> Callable[[Call], None]:
    """Do it at the call after so many."""
    left = [skip]

    def met(call_: Call) -> None:
        if left[0] == 0:
            what(call_)
        left[0] -= 1

    return met


def reply_to(seen: Seen) -> Reply:
    """Three messages and a reaction for the last question that was asked, slowly enough to be killed in."""
    lines = seen.json()["messages"]
    user = max(number for number, line in enumerate(lines) if line["role"] == "user")
    words = re.findall(r"\b(q\d+) (plain|tool)\b", str(lines[user]["content"]))
    used_tool = any(line["role"] == "tool" for line in lines[user:])
    if any(how == "tool" for _, how in words) and not used_tool and seen.json().get("tools"):
        name = words[-1][0]
        return stream(
            call("ledger", f'{{"entry": "{name}"}}', index=0, call_id=f"c{name}"), finish("tool_calls")
        )
    pieces: list[str | Step] = ["[NOTE: hm]\n"]
    for name, _ in words:
        pieces += [f"[SEND: {name} ", "one]\n", Wait(0.004), "[REACT: 👍]\n", f"[SEND: {name} two", "]\n"]
        pieces += [Wait(0.008), f"[SEND: {name} three]\n"]
    return stream(*pieces, finish(), usage(50, 20))


@asynccontextmanager
async def rounds(folder: Path, seed: int) -> AsyncGenerator[Rounds, None]:
    """Set the servers and the program's folder up."""
    (folder / "personas").mkdir()
    (folder / "personas" / "pixi.md").write_text(PERSONA, encoding="utf-8")
    (folder / "ledger.py").write_text(LEDGER, encoding="utf-8")
    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=reply_to) as model:
        (folder / "pixi.toml").write_text(
            f'addons = ["ledger.py"]\n[model]\nname = "scripted"\nbase_url = "{model.base_url}"\n'
            f'[discord]\napi_url = "{discord.api_url}"\nslash = false\n',
            encoding="utf-8",
        )
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "DISCORD_TOKEN": discord.token,
            "NO_COLOR": "1",
        }
        async with Nursery(folder, environ) as nursery:
            yield Rounds(folder, discord, nursery, random.Random(seed))
