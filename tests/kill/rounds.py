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
from typing import TypeVar

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
from tests.waiting import LIMIT, within

POINTS = (
    "after receiving",
    "when the model is asked",
    "while the model writes",
    "after a command closed",
    "while typing is shown",
    "before posting",
    "between posting and recording",
    "before reacting",
    "between reacting and recording",
    "while saving",
    "in a tool",
    "in a tool that writes",
    "when the model is told what a tool said",
    "in shutdown",
    "while coming back",
)
"""The moments of a kill. Most are met by what the servers see; the others by a short random time."""

SIGNALS = ("KILL", "TERM")
"""How it is ended there: at once, as by a power cut, or politely."""

_NAMES = {"send": ("reply",), "react": (), "note": ()}
_ROOMS = 3
SORRY = "where was I?"

PERSONA = """\
---
name: Pixi
summon: [pixi]
tools: [ledger, order]
when_broken: ["where was I?"]
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
            file.write(entry + "\\n")
        await asyncio.sleep(0.03)
        return "written"

    @addon.tool(writes=True)
    async def order(context, thing: str) -> str:
        """Order something, which costs money.

        Args:
            thing: what to order.
        """
        await asyncio.sleep(0.01)
        with Path("orders.txt").open("a") as file:
            file.write(thing + "\\n")
        await asyncio.sleep(0.02)
        return "ordered"
'''


class Stuck(Exception):
    """The program does not come to rest: a message waits, or a turn does not end."""


@dataclass(slots=True)
class Report:
    """What came of the rounds.

    Attributes:
        lost: questions that nobody answered.
        twice: texts that were posted more than once, and orders that were given more than once.
        untrue: places where the history differs from what was posted.
        unsettled: acts whose outcome nobody knows.
        stuck: what is left to be done though nothing goes on any more.
        kills: how often the program was ended at each point.
        polite: how many of these ends were polite.
        slowest: how long the slowest of those took, in seconds.
        interrupted: ends that met a turn which had said something already.
    """

    asked: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    stuck: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    polite: int = 0
    slowest: float = 0.0
    interrupted: int = 0

    @property
    def clean(self) -> bool:
        """Whether everything held."""
        return not (self.lost or self.twice or self.untrue or self.unsettled or self.stuck)

    def __str__(self) -> str:
        points = ", ".join(f"{count} {point}" for point, count in sorted(self.kills.items()))
        total = self.kills.total()
        return (
            f"{total - self.polite} kills and {self.polite} polite ends, the slowest in {self.slowest:.1f} s "
            f"({points}); {self.asked} questions, {len(self.lost)} lost, "
            f"{len(self.twice)} done twice, {len(self.untrue)} conversations remembered wrongly, "
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
        self._second: Life | None = None
        self._when_asked: Callable[[Seen], None] | None = None
        self._orders = folder / "orders.txt"
        self._ordering: set[str] = set()
        self._asked: dict[str, Room] = {}
        self.report = Report()

    def answer(self, seen: Seen) -> Reply:
        """What the model writes."""
        if self._when_asked is not None:
            self._when_asked(seen)
        return reply_to(seen)

    async def begin(self) -> None:
        """Start the program for the first time."""
        await self._start()

    async def round(self, point: str, signal: str = "KILL") -> None:
        """Ask a question in each room, end it at the point, start again, and wait until all is settled."""
        life = self._life
        assert life is not None
        before = len(self._asked)
        end = _Ending(life, polite=signal == "TERM")
        armed = self._arm(point, end)
        for room in self._rooms:
            await self._ask(room, point)
        if point == "in shutdown":
            await self._some_posts(before)
            life.ask_to_end()
        await self._until_dead(end, armed, before)
        self.report.kills[point] += 1
        self.report.polite += end.polite
        if end.polite and end.at and point != "in shutdown":
            self.report.slowest = max(self.report.slowest, asyncio.get_running_loop().time() - end.at)
        await self._start()
        if point == "while coming back":
            assert self._life is not None
            second = _Ending(self._life, polite=end.polite)
            await asyncio.sleep(self._chance.uniform(0, 0.25))
            second.now()
            await second.life.ended()
            await self._start()
        await self._settled(f"{point}, {signal}")

    async def end(self) -> None:
        """End the program politely, and look at everything."""
        await self._end_politely()
        self._judge()

    # Two processes on one store.

    async def begin_another(self) -> None:
        """Start the program once more, beside the one that runs: from now on that one is the second."""
        self._second = self._life
        await self._start()

    async def ask_everywhere(self) -> None:
        """Ask a question in each room."""
        for room in self._rooms:
            await self._ask(room, "")

    async def some_posts(self) -> None:
        """Wait until something was said about the latest questions."""
        await self._some_posts(len(self._asked) - _ROOMS)

    async def all_settled(self) -> None:
        """Wait until everything was answered."""
        await self._settled("beside another process")

    def kill_one(self) -> None:
        """Kill the one that runs for longer."""
        assert self._second is not None
        self._second.kill()

    async def end_one(self) -> None:
        """End the one that runs for longer, politely."""
        assert self._second is not None
        self._second.ask_to_end()
        await self._second.ended()
        self._second = None

    async def _end_politely(self) -> None:
        for life in (self._second, self._life):
            if life is not None and life.alive:
                life.ask_to_end()
                await life.ended()

    async def _ask(self, room: Room, point: str) -> None:
        name = f"q{len(self._asked)}"
        self._asked[name] = room
        how = self._chance.choices(("plain", "tool", "order"), (80, 12, 8))[0]
        if point in ("in a tool", "when the model is told what a tool said"):
            how = "tool"
        elif point == "in a tool that writes":
            how = "order"
        if how == "order":
            self._ordering.add(name)
        await room.say(self._mo, f"{self._discord.bot.mention} {name} {how}")

    async def _start(self) -> None:
        sessions = self._discord.gateway.identifies
        self._life = await self._nursery.start()
        await self._discord.wait_for(lambda: self._discord.gateway.identifies > sessions, timeout=LIMIT)

    async def _settled(self, point: str) -> None:
        asked = len(self._asked)
        try:
            await self._on_record(asked)
        except TimeoutError:
            self.report.stuck = f"after a kill {point}: {self._records.summary()}, {asked} asked"
            raise Stuck(self.report.stuck) from None

    async def _on_record(self, asked: int) -> None:
        async with asyncio.timeout(LIMIT):
            while not self._records.settled(asked):  # noqa: ASYNC110 - the store of another process
                await asyncio.sleep(0.01)

    async def _some_posts(self, before: int) -> None:
        """Wait until something of the round was said."""
        names = list(self._asked)[before:]
        await self._discord.wait_for(lambda: any(self._said_about(name) for name in names), timeout=LIMIT)

    def _arm(self, point: str, end: "_Ending") -> asyncio.Event:
        """Let the end come at the point; the event is set where the servers cannot see it come."""
        by_time = asyncio.Event()
        loop = asyncio.get_running_loop()
        skip = self._chance.randrange(_ROOMS * 2)
        before, after = self._discord.before, self._discord.after

        def now(_: Call) -> None:
            end.now()

        def later(_: Call) -> None:
            loop.call_later(self._chance.uniform(0, 0.012), end.now)

        hooks: dict[str, tuple[Callable[..., object], str, str, Callable[[Call], None]]] = {
            "while typing is shown": (before, "POST", r"/typing$", now),
            "before posting": (before, "POST", r"/messages$", now),
            "between posting and recording": (after, "POST", r"/messages$", now),
            "before reacting": (before, "PUT", "/reactions/", now),
            "between reacting and recording": (after, "PUT", "/reactions/", now),
            "after a command closed": (before, "POST", r"/messages$", later),
            "while saving": (after, "POST", r"/messages$", later),
        }
        if point in hooks:
            when, method, path, what = hooks[point]
            when(method, path, _skipping(skip, what), times=skip + 1)
        elif point.startswith("when the model is"):
            told = "what a tool said" in point
            skip %= _ROOMS
            self._when_asked = _skipping(skip, lambda _: end.now(), only=_tells_of_a_tool if told else _any)
        else:
            by_time.set()
        return by_time

    async def _until_dead(self, end: "_Ending", by_time: asyncio.Event, before: int) -> None:
        if by_time.is_set():
            await asyncio.sleep(self._chance.uniform(0, 0.12))
            end.now()
        async with within("the end of the program"):
            while end.life.alive:
                if self._records.settled(len(self._asked)):
                    end.now()  # the turns were over before the moment came
                await asyncio.sleep(0.004)
        self._when_asked = None
        names = list(self._asked)[before:]
        self.report.interrupted += sum(0 < len(self._said_about(name)) < 3 for name in names)

    def _said_about(self, name: str) -> list[str]:
        start = f"{name} "
        return [each.content for each in self._asked[name].messages if each.content.startswith(start)]

    def _unanswered(self, room: Room) -> list[str]:
        """Questions there of which nothing was said.

        What was ordered is not ordered again: where the end came before it could be said, they were told so.
        """
        unsaid = [name for name, place in self._asked.items() if place is room and not self._said_about(name)]
        told = sum(each.content == SORRY for each in room.messages)
        excused = [name for name in unsaid if name in self._ordering][:told]
        return [name for name in unsaid if name not in excused]

    def _judge(self) -> None:
        report, bot = self.report, self._discord.bot.id
        report.asked = len(self._asked)
        orders = self._orders.read_text().split() if self._orders.exists() else []
        report.twice += [f"order {name}" for name, count in Counter(orders).items() if count > 1]
        report.lost = [name for room in self._rooms for name in self._unanswered(room)]
        for room in self._rooms:
            posts = [each.content for each in room.messages if each.author.id == bot]
            known = [text for text in posts if text != SORRY]
            report.twice += [text for text, count in Counter(known).items() if count > 1]
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


class _Ending:
    """The end of a process, which comes once."""

    def __init__(self, life: Life, *, polite: bool) -> None:
        self.life = life
        self.polite = polite
        self.at = 0.0

    def now(self) -> None:
        """Let it come."""
        if not self.at:
            self.at = asyncio.get_running_loop().time()
            (self.life.ask_to_end if self.polite else self.life.kill)()


T = TypeVar("T")


def _any(_: object) -> bool:
    return True


def _skipping(
    skip: int, what: Callable[[T], None], *, only: Callable[[T], bool] = _any
) -> Callable[[T], None]:
    """Do it at the call after so many, of those of which `only` holds."""
    left = [skip]

    def met(call_: T) -> None:
        if only(call_):
            if left[0] == 0:
                what(call_)
            left[0] -= 1

    return met


def _last_said(seen: Seen) -> tuple[str, list[dict[str, object]]]:
    """The last user line of a request, and what comes after it."""
    lines = seen.json()["messages"]
    user = max(number for number, line in enumerate(lines) if line["role"] == "user")
    return str(lines[user]["content"]), lines[user + 1 :]


def _tells_of_a_tool(seen: Seen) -> bool:
    return any(line["role"] == "tool" for line in _last_said(seen)[1])


def reply_to(seen: Seen) -> Reply:
    """Three messages and a reaction for the last question that was asked, slowly enough to be killed in."""
    said, _ = _last_said(seen)
    words = re.findall(r"\b(q\d+) (plain|tool|order)\b", said)
    for name, how in words:
        if how != "plain" and not _tells_of_a_tool(seen) and seen.json().get("tools"):
            called = ("ledger", "entry") if how == "tool" else ("order", "thing")
            arguments = f'{{"{called[1]}": "{name}"}}'
            return stream(call(called[0], arguments, index=0, call_id=f"c{name}"), finish("tool_calls"))
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
    killing: Rounds

    def answer(seen: Seen) -> Reply:
        return killing.answer(seen)

    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=answer) as model:
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
            killing = Rounds(folder, discord, nursery, random.Random(seed))
            yield killing
