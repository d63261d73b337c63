"""One soak from its start to its verdict: the bot, the town round it, and a look at it every second."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pixi.testing.discord import LoopbackDiscord
from tests.kill.life import Records, ask_file
from tests.servers.scripted_openai import ScriptedOpenAI
from tests.soak.bot import LOG, bot_in, prepare
from tests.soak.folk import Folk
from tests.soak.gauge import Gauge, Sample
from tests.soak.judge import Judge, Verdict, turns_in
from tests.soak.ledger import Ledger
from tests.soak.town import Town, furnish, settle_in
from tests.soak.trend import Point, Trend, trend
from tests.soak.trouble import Trouble
from tests.soak.weather import CALM, SHOWERS, STORM, Model

_LOOK_SECONDS = 1.0
_SETTLE_SECONDS = 90.0
_REST_SECONDS = 40.0  # idle connections are kept for fifteen
_KEPT_REQUESTS = 100  # of those that the model server saw: an hour of them would fill the memory


@dataclass(frozen=True, slots=True)
class Plan:
    """How it is done.

    Attributes:
        seconds: how long people talk.
        conversations: in how many.
        rate: how much people do in a second.
        seed: of all chance.
    """

    seconds: float
    conversations: int = 300
    rate: float = 12.0
    seed: int = 1

    @property
    def weather(self) -> float:
        """Seconds until the model server's mood changes: all its moods come in a short run too."""
        return min(30.0, self.seconds / 10)

    @property
    def trouble(self) -> tuple[float, float]:
        """Seconds until Discord troubles the connection again, from and to."""
        return min(12.0, self.seconds / 15), min(40.0, self.seconds / 6)


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        wrong: all that must not be, a line each; empty: all is well.
        trends: of what must not grow.
    """

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    trends: list[Trend] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    trouble: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    questions: int = 0
    requests: int = 0


class Soak:
    """A bot and its town. Made by `soaking`."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        discord: LoopbackDiscord,
        server: ScriptedOpenAI,
        *,
        model: Model,
        ledger: Ledger,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._discord = discord
        self._server = server
        self._chance = random.Random(plan.seed)
        self._model = model
        self._ledger = ledger
        self._trouble = Trouble(discord, ledger, random.Random(plan.seed + 2))
        self.outcome = Outcome(plan)
        self._began = time.monotonic()

    async def run(self, progress: Callable[[Sample], None]) -> Outcome:
        """All of it."""
        town = await furnish(self._discord, self._plan.conversations, self._chance)
        folk = Folk(self._discord, town, self._ledger, self._chance)
        async with bot_in(self._folder, self._discord) as process:
            self._gauge = Gauge(process.pid, self._folder / "pixi.db", self._folder / LOG)
            await settle_in(self._discord, town)
            await folk.ask_everywhere()
            await self._settled()
            before = await self._look()
            self._began = time.monotonic()
            await self._talk(folk, progress)
            await self._settled()
            await self._judge_rest(before)
            await self._end(process)
        self._judge(town, folk)
        return self.outcome

    # While it runs.

    async def _talk(self, folk: Folk, progress: Callable[[Sample], None]) -> None:
        until = time.monotonic() + self._plan.seconds
        others = [
            asyncio.create_task(self._change_weather()),
            asyncio.create_task(self._keep_looking(progress)),
            asyncio.create_task(self._trouble.brew(until - 5, self._plan.trouble)),
        ]
        try:
            await folk.live(until, self._plan.rate)
            self._model.weather = CALM
            self._trouble.calm()
            await folk.rest()
        finally:
            for other in others:
                other.cancel()
            ended = await asyncio.gather(*others, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _change_weather(self) -> None:
        while True:
            for weather in (CALM, SHOWERS, CALM, STORM):
                self._model.weather = weather
                await asyncio.sleep(self._plan.weather * self._chance.uniform(0.6, 1.4))

    async def _keep_looking(self, progress: Callable[[Sample], None]) -> None:
        while True:
            sample = await self._look()
            self.outcome.samples.append(sample)
            progress(sample)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> Sample:
        gauge, ledger = self._gauge, self._ledger
        told = gauge.told
        gauge.ask()
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                while gauge.told == told:
                    vitals = gauge.vitals()
                    await asyncio.sleep(0.01)
        vitals = gauge.vitals()
        self._discord.requests.clear()
        del self._server.requests[:-_KEPT_REQUESTS]
        return Sample(
            at=time.monotonic() - self._began,
            resident=gauge.resident(),
            own=gauge.own(),
            files=gauge.files(),
            threads=int(vitals["threads"]),
            processor=gauge.processor(),
            tasks=int(vitals["tasks"]),
            kept=int(vitals["conversations"]),
            talking=int(vitals["talking"]),
            store=gauge.store(),
            asked=len(ledger.questions),
            answered=len(ledger.waits),
            notices=ledger.notices,
            faults=sum(self._model.faults.values()),
            weather=self._model.weather.name,
            connected=bool(self._discord.gateway.live()),
        )

    async def _settled(self) -> None:
        """Return when all that was asked has come, nothing waits for an answer, and no turn is under way."""
        file = self._folder / "pixi.db"
        records = Records(partial(ask_file, file))
        give_up = time.monotonic() + _SETTLE_SECONDS
        quiet = 0
        while quiet < 3:
            if time.monotonic() > give_up:
                _, waiting, turns = records.summary()
                come = "all has" if self._ledger.all_came(turns_in(file)) else "not all has"
                told = f"stuck: {waiting} messages wait, {turns} turns are under way, {come} come"
                self.outcome.wrong.append(told)
                return
            _, waiting, turns = records.summary()
            busy = waiting or turns or self._discord.rest.running or not self._ledger.all_came(turns_in(file))
            quiet = 0 if busy else quiet + 1
            await asyncio.sleep(0.3)

    # When it is over.

    async def _judge_rest(self, before: Sample) -> None:
        """At rest it holds no more than it held at rest before all this."""
        give_up = time.monotonic() + _REST_SECONDS
        while left := _more_than(before, now := await self._look()):
            if time.monotonic() > give_up:
                self.outcome.wrong += left
                break
            await asyncio.sleep(_LOOK_SECONDS)
        self.outcome.samples.append(now)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(process.wait(), 15)
        except TimeoutError:
            self.outcome.wrong.append("it did not end within 15 seconds when it was told to")
            return
        if code != 0:
            self.outcome.wrong.append(f"it ended with code {code}")

    def _judge(self, town: Town, folk: Folk) -> None:
        out, world = self.outcome, self._discord.world
        judge = Judge(self._ledger, world.bot, world.application_id, turns_in(self._folder / "pixi.db"))
        out.verdict = judge.judge(each.room for each in town.places)
        self._gauge.vitals()
        out.wrong += out.verdict.faults
        out.wrong += [f"an error in the log: {error}" for error in self._gauge.errors]
        out.trends = trends_of(out.samples[:-1])
        out.wrong += [str(each) for each in out.trends if not each.flat]
        out.waits = [(at - self._began, took) for at, took in self._ledger.waits if at >= self._began]
        out.did, out.unanswered = folk.did, folk.unanswered
        out.faults, out.trouble = self._model.faults, self._trouble.done
        out.questions, out.requests = len(self._ledger.questions), self._model.requests


def _more_than(before: Sample, now: Sample) -> list[str]:
    """What there is more of than before, at rest."""
    allowed = {"tasks": 2, "files": 2, "threads": 6}  # threads are those of a pool, which is filled on demand
    found = []
    for name, more in allowed.items():
        first, last = getattr(before, name), getattr(now, name)
        if first is not None and last is not None and last > first + more:
            found.append(f"{name} at rest: {first} before, {last} after")
    if now.talking:
        found.append(f"{now.talking} replies are under way though nobody waits for one")
    return found


def trends_of(samples: list[Sample]) -> list[Trend]:
    """What must not grow, from the middle of the run to its end: until then talks fill their windows."""
    calm = samples[len(samples) // 2 :]
    if len(calm) < 2:
        return []

    def points(value: Callable[[Sample], float | None]) -> list[Point]:
        return [(one.at, found) for one in calm if (found := value(one)) is not None]

    rows = [
        # After a burst the heap stays as large as it was, and in a short run the bot's caches still fill.
        trend("memory", " MB", points(lambda one: one.own or one.resident), share=0.1, least=4.0),
        trend("tasks", "", points(lambda one: one.tasks), share=0.25, least=8.0),
    ]
    if calm[0].files is not None:
        # After a burst its connections to the model stay open for a while. Whether one is left for good
        # is seen at rest, see `_more_than`.
        rows.append(trend("open files", "", points(lambda one: one.files), share=1.0, least=20.0))
    return rows


@asynccontextmanager
async def soaking(folder: Path, plan: Plan) -> AsyncGenerator[Soak, None]:
    """Set the servers and the program's folder up."""
    ledger = Ledger()
    model = Model(ledger, random.Random(plan.seed + 1))
    async with LoopbackDiscord() as discord, ScriptedOpenAI(choose=model.choose) as server:
        prepare(folder, discord, server)
        yield Soak(plan, folder, discord, server, model=model, ledger=ledger)
