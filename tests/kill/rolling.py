"""Workers that are replaced one by one while people ask: how much longer anybody waits than without that.

The rate is to be one that the machine carries. Where questions come faster than answers, they wait long,
people ask again before they were answered, and that takes their first question back. Those are counted apart.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from discord.utils import snowflake_time

from tests.kill.ground import PEOPLE, Ground
from tests.kill.life import Life
from tests.kill.questions import PARTS, parts_of
from tests.waiting import until

ROOMS = 40
"""Enough that a question seldom comes amid the answer to another."""

_APART = 1.0  # seconds between the end of a worker and the start of the next one


@dataclass(frozen=True)
class Waits:
    """Seconds from questions to the end of their answers.

    Attributes:
        name: when they were asked.
        rate: how many were asked in a second.
        seconds: of each that was answered in full, from the shortest on.
    """

    name: str
    rate: float
    seconds: Sequence[float]

    def __str__(self) -> str:
        half, *_, most = (quantiles(self.seconds, n=100)[each] for each in (49, 98))
        return (
            f"{self.name}: {len(self.seconds)} answers, {self.rate:.0f} a second; half of them within "
            f"{half:.2f} s, 99 of 100 within {most:.2f} s, the last within {self.seconds[-1]:.2f} s"
        )


class Rolling:
    """A gateway and workers, and people who ask at a steady rate. Made by `begin`."""

    def __init__(self, ground: Ground, gateway: Life, workers: list[Life], rate: float) -> None:
        self._ground = ground
        self._gateway = gateway
        self._workers = workers
        self._rate = rate

    @classmethod
    async def begin(cls, ground: Ground, *, workers: int, rate: float) -> "Rolling":
        """Start all processes."""
        gateway = await ground.start("gateway")
        rolling = cls(ground, gateway, [], rate)
        for _ in range(workers):
            rolling._workers.append(await rolling._new_worker())
        return rolling

    async def measure(self, seconds: float, deploys: int) -> tuple[Waits, Waits]:
        """Let people ask for so long; then again, for as long as all workers are replaced so many times.

        Raises:
            Stuck: not all is answered.
        """
        await self._asked(asyncio.create_task(asyncio.sleep(seconds / 4)))  # what comes first is slower
        await self._ground.settled("the beginning")
        calm = await self._asked(asyncio.create_task(asyncio.sleep(seconds)))
        await self._ground.settled("questions without a deploy")
        deploying = await self._asked(asyncio.create_task(self._deploy(deploys)))
        await self._ground.settled("questions amid deploys")
        return self._waits("without a deploy", *calm), self._waits(f"while {self._told(deploys)}", *deploying)

    def _told(self, deploys: int) -> str:
        return f"{len(self._workers)} workers were replaced one by one, {deploys} times"

    async def end(self) -> None:
        """End all of them politely, and look at everything."""
        await self._ground.end(self._gateway, *self._workers)

    async def _new_worker(self) -> Life:
        """Start a worker; returns once it takes conversations."""
        known = self._ground.records.workers()
        life = await self._ground.launch("worker")
        await until(lambda: self._ground.records.workers() - known, "a worker")
        return life

    async def _deploy(self, times: int) -> None:
        for number in list(range(len(self._workers))) * times:
            new = await self._new_worker()
            old, self._workers[number] = self._workers[number], new
            began = time.monotonic()
            old.ask_to_end()
            await old.ended()
            report = self._ground.report
            report.kills["end a worker"] += 1
            report.polite += 1
            report.slowest = max(report.slowest, time.monotonic() - began)
            await asyncio.sleep(_APART)

    async def _asked(self, meanwhile: "asyncio.Task[None]") -> tuple[list[str], float]:
        """Let people ask while something is done; gives their questions, and how many came in a second."""
        ground, loop = self._ground, asyncio.get_running_loop()
        first, began = len(ground.asked), loop.time()
        while not meanwhile.done():
            number = len(ground.asked)
            room = ground.rooms[number % len(ground.rooms)]
            how = ground.chance.choices(("plain", "slow"), (80, 20))[0]
            await ground.ask(room, number // len(ground.rooms) % PEOPLE, how)
            due = began + (number - first + 1) / self._rate
            await asyncio.sleep(max(0.0, due - loop.time()))
        await meanwhile
        names = list(ground.asked)[first:]
        return names, len(names) / (loop.time() - began)

    def _waits(self, name: str, names: Sequence[str], rate: float) -> Waits:
        wanted, seconds = set(names), []
        for room in self._ground.rooms:
            asked: dict[str, float] = {}
            for message in room.messages:
                at = snowflake_time(message.id).timestamp()
                if message.author.id != self._ground.discord.bot.id:
                    asked |= {word: at for word in message.content.split() if word in wanted}
                    continue
                about = next(iter(message.content.split()), "")
                if about in asked and PARTS[-1] in parts_of(about, [message.content]):
                    seconds.append(at - asked[about])
        return Waits(name, rate, sorted(seconds))
