"""Where the bot is killed: a Discord with rooms and people, a model, a store; and what must hold."""

import asyncio
import os
import random
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from discord.utils import snowflake_time

from pixi.core.reading import commands_in
from pixi.testing.discord import FakeChannel, LoopbackDiscord
from tests.kill.life import Life, Nursery, Records, open_records
from tests.kill.questions import PARTS, SORRY, Report, Wanted, reply_to, wanted
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen
from tests.waiting import LIMIT

if TYPE_CHECKING:
    from tests.kill.clients import HttpTalk

ROOMS = 3
PEOPLE = 10
TALKS = 4
_NAMES = {"send": ("reply",), "react": (), "note": ()}

PERSONA = f"""\
---
name: Pixi
summon: [pixi]
tools: [ledger, order]
when_broken: ["{SORRY}"]
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


class Ground:
    """Rooms and talks where people ask, and processes that answer. Made by `open_ground`.

    Attributes:
        discord: where the rooms are.
        talks: those over HTTP.
        ports: where the servers for these listen.
        chance: what is left to it.
        records: the store, read from outside.
        asked: each question with its room, in order.
        when_asked: told of each request to the model.
        report: what came of it all.
    """

    def __init__(
        self,
        folder: Path,
        discord: LoopbackDiscord,
        nursery: Nursery,
        records: Records,
        chance: random.Random,
        *,
        shards: int,
        rooms: int = ROOMS,
    ) -> None:
        self.discord = discord
        self.chance = chance
        self.records = records
        self.talks: list[HttpTalk] = []
        self.ports: list[int] = []
        self.asked: dict[str, FakeChannel | HttpTalk] = {}
        self.when_asked: Callable[[Seen], None] | None = None
        self.report = Report()
        self._nursery = nursery
        self._orders = folder / "orders.txt"
        self._round = 0
        self._round_of: dict[str, int] = {}
        self._may_be_told: set[str] = set()  # of these a notice is enough
        self._requests: list[tuple[datetime, list[Wanted]]] = []
        guilds = [discord.guild("Pancake House", shard=shard, of=shards) for shard in range(shards)]
        self.rooms = [guild.channel(f"room-{number}") for guild in guilds for number in range(rooms)]
        self._people = [discord.person(f"Person {number}") for number in range(PEOPLE)]

    def answer(self, seen: Seen) -> Reply:
        """Write what the model writes."""
        if self.when_asked is not None:
            self.when_asked(seen)
        questions = wanted(seen.json()["messages"])
        self._may_be_told |= {each.name for each in questions if each.again}
        self._requests.append((datetime.now(UTC), questions))
        return reply_to(seen, questions)

    async def ask(self, room: FakeChannel, person: int, how: str = "") -> None:
        """Let somebody ask a question; `how` it is answered, is left to chance where nothing is said.

        Nobody is to ask twice in a room before all is settled: who does, takes their first question back.
        """
        name, how = self._question(room, how)
        await room.say(self._people[person], f"{self.discord.bot.mention} {name} {how}")

    async def ask_over_http(self, talk: "HttpTalk") -> None:
        """Let the person of a talk ask a question; returns once it is answered.

        Raises:
            AssertionError: it is not.
        """
        await talk.ask(*self._question(talk, self.chance.choices(("slow", ""))[0]))

    def _question(self, room: "FakeChannel | HttpTalk", how: str = "") -> tuple[str, str]:
        """Note a question that is asked in a room; gives its name, and how it is to be answered."""
        name = f"q{len(self.asked)}"
        self.asked[name] = room
        self._round_of[name] = self._round
        how = how or self.chance.choices(("plain", "tool", "order"), (80, 12, 8))[0]
        if how == "order":  # what changed the world is not done again
            self._may_be_told.add(name)
        return name, how

    @property
    def taken_for_dead(self) -> int:
        """How often a worker took up a conversation of one that showed no life any more."""
        return self._nursery.log.read_text(encoding="utf-8").count("has died or stands still")

    async def launch(self, *command: str) -> Life:
        """Start a process; does not wait for it."""
        return await self._nursery.start(command)

    async def start(self, *command: str) -> Life:
        """Start a process; returns once it is on its way to Discord, the first one once it is there."""
        sessions = self.discord.gateway.identifies
        life = await self.launch(*(command or ("discord",)))
        await self.discord.wait_for(lambda: self.discord.gateway.identifies > sessions, timeout=LIMIT)
        async with asyncio.timeout(LIMIT):
            while not self.records.begun():  # noqa: ASYNC110 - another process's store
                await asyncio.sleep(0.01)
        return life

    async def settled(self, after: str) -> None:
        """Wait until every question is on record, and nothing waits and no turn is under way.

        Raises:
            Stuck: that does not come; the report says so.
        """
        try:
            async with asyncio.timeout(LIMIT):
                while not self.records.settled(len(self.asked)):  # noqa: ASYNC110 - other processes' store
                    await asyncio.sleep(0.01)
        except TimeoutError:
            missed = sorted(self.asked.keys() - self.records.heard(), key=list(self.asked).index)
            self.report.stuck = (
                f"after {after}: {self.records.summary()}, {len(self.asked)} asked, never heard: {missed}"
            )
            raise Stuck(self.report.stuck) from None
        self._round += 1

    def posts(self, room: "FakeChannel | HttpTalk") -> list[str]:
        """Return what the bot said in a room, in order."""
        if not isinstance(room, FakeChannel):
            return [each.content for each in room.said if each.by_persona]
        bot = self.discord.bot.id
        return [each.content for each in room.messages if each.author.id == bot]

    def said_about(self, name: str) -> list[str]:
        """Return what was said to a question."""
        return [text for text in self.posts(self.asked[name]) if text.startswith(f"{name} ")]

    def told(self) -> str:
        """Return all that was said in the rooms, and asked of the model, in order of time."""
        said = [
            (snowflake_time(each.id), f"{room.name} {each.author.name}: {each.content}")
            for room in self.rooms
            for each in room.messages
        ]
        asked = [(at, f"model: {questions}") for at, questions in self._requests]
        return "\n".join(f"{at:%H:%M:%S.%f} {text}" for at, text in sorted([*said, *asked]))

    async def end(self, *lives: Life) -> None:
        """End the processes politely, and look at everything."""
        if not self.report.stuck:  # else nobody is there any more
            await asyncio.gather(*(talk.close() for talk in self.talks))
        for life in lives:
            life.ask_to_end()
        for life in lives:
            await life.ended()
        self._judge()

    def _judge(self) -> None:
        report = self.report
        orders = self._orders.read_text().split() if self._orders.exists() else []
        report.twice += [f"order {name}" for name, count in Counter(orders).items() if count > 1]
        addresses = self.records.conversations()
        everywhere: list[FakeChannel | HttpTalk] = [*self.rooms, *self.talks]
        for room in everywhere:
            posts = [text for text in self.posts(room) if text != SORRY]
            excused, taken_back = self._excused(room), self._taken_back(room)
            for name in (name for name, place in self.asked.items() if place is room):
                report.judge(name, posts, excused=name in excused, taken_back=name in taken_back)
            part = f":{room.id}:" if isinstance(room, FakeChannel) else room.address
            for address in (each for each in addresses if part in each):
                said = commands_in("\n".join(self.records.sent(address)), _NAMES)
                # A notice that the store is away is on no record; one that ends a turn is.
                told = [
                    each.argument for each in said if each.name == "send" and each.argument not in ("", SORRY)
                ]
                if told != posts:
                    report.untrue.append(f"{address}: {_first_difference(told, posts)}")
        report.unknown = [str(act) for act in self.records.unknown_acts()]

    def _taken_back(self, room: "FakeChannel | HttpTalk") -> set[str]:
        """Return the questions after which their author asked anew, before they were answered and all rested.

        A reply under way yields to that: it ends, and what it had not said yet is said no more.
        """
        taken_back: set[str] = set()
        said: dict[str, list[str]] = {}  # parts of answers, by the question
        asked: dict[tuple[int, int], list[str]] = {}  # questions by their authors, until all rests
        for message in room.messages if isinstance(room, FakeChannel) else ():
            words = message.content.split()
            if message.author.id == self.discord.bot.id:
                said.setdefault("".join(words[:1]), []).extend(words[1:])
                continue
            for name in (word for word in words if word in self._round_of):
                earlier = asked.setdefault((message.author.id, self._round_of[name]), [])
                taken_back |= {each for each in earlier if not set(PARTS) <= {*said.get(each, ())}}
                earlier.append(name)
        return taken_back

    def _excused(self, room: "FakeChannel | HttpTalk") -> set[str]:
        """Return the questions of which a notice tells, of those that need not be answered.

        These are orders, and what came due again: that it does once only, and it may be cut once more.
        """
        excused: set[str] = set()
        latest = -1
        said = room.messages if isinstance(room, FakeChannel) else room.said
        for text in (each.content for each in said):
            name = next((word for word in text.split() if word in self._round_of), "")
            latest = self._round_of.get(name, latest)
            if text == SORRY:
                excused |= {each for each in self._may_be_told if self._round_of[each] == latest}
        return excused


def _first_difference(told: list[str], posts: list[str]) -> str:
    pairs = zip(told, posts, strict=False)
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(told), len(posts)))
    only = [[*(Counter(one) - Counter(other))] for one, other in ((told, posts), (posts, told))]
    return (
        f"told {told[place : place + 4]}, posted {posts[place : place + 4]}; "
        f"only told {only[0]}, only posted {only[1]}"
    )


@asynccontextmanager
async def open_ground(
    folder: Path, seed: int, store: str = "", *, shards: int = 1, rooms: int = ROOMS, serves: int = 0
) -> AsyncGenerator[Ground, None]:
    """Set the servers and the program's folder up, with so many rooms on each of so many shards of Discord.

    `store` is a URL; "" is a file in the folder. People talk over HTTP, too, where there are to be `serves`.
    """
    (folder / "personas").mkdir()
    (folder / "personas" / "pixi.md").write_text(PERSONA, encoding="utf-8")
    (folder / "ledger.py").write_text(LEDGER, encoding="utf-8")
    store = store or f"sqlite:///{folder / 'pixi.db'}"
    ground: Ground

    def answer(seen: Seen) -> Reply:
        return ground.answer(seen)

    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=answer) as model:
        (folder / "pixi.toml").write_text(
            f'addons = ["ledger.py"]\n[model]\nname = "scripted"\nbase_url = "{model.base_url}"\n'
            f'[store]\nurl = "{store}"\n[discord]\napi_url = "{discord.api_url}"\nslash = false\n'
            "[http]\nrequests_per_minute = 1000000\nturns_per_person = 1000\n",
            encoding="utf-8",
        )
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "DISCORD_TOKEN": discord.token,
            "NO_COLOR": "1",
        }
        with open_records(store) as records:
            async with Nursery(folder, environ) as nursery, AsyncExitStack() as stack:
                chance = random.Random(seed)
                ground = Ground(folder, discord, nursery, records, chance, shards=shards, rooms=rooms)
                if serves:
                    await _let_talk(ground, serves, stack)
                yield ground


async def _let_talk(ground: Ground, serves: int, stack: AsyncExitStack) -> None:
    """Choose ports for so many servers, and people who talk there."""
    import aiohttp

    from tests.kill.clients import HttpTalk

    held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(serves)]
    ground.ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    servers = [f"http://127.0.0.1:{port}" for port in ground.ports]
    http = await stack.enter_async_context(aiohttp.ClientSession())
    ground.talks = [
        HttpTalk(f"talk-{number}", servers, http, ground.chance, ground.report) for number in range(TALKS)
    ]
