"""Several processes on one store and one token, ended at random and started again, while people ask."""

import asyncio

from pixi.testing.discord import FakeChannel
from tests.kill.ground import PEOPLE, Ground
from tests.kill.life import Life
from tests.kill.questions import PARTS

_LONGEST = 0.4  # seconds between two questions, and until a process is ended


class Together:
    """Asks in every room, ends processes while it does, and starts each again."""

    def __init__(self, ground: Ground, lives: list[Life]) -> None:
        self._ground = ground
        self._lives = lives
        self._starting = asyncio.Lock()

    async def round(self) -> None:
        """End each process once, or leave it; at least one goes.

        Raises:
            Stuck: they do not come to rest.
        """
        chance = self._ground.chance
        gone = chance.sample(range(len(self._lives)), chance.randint(1, len(self._lives)))
        ends = asyncio.gather(*map(self._end, gone))
        await asyncio.gather(ends, *(self._ask(room, ends) for room in self._ground.rooms))
        await self._ground.settled(f"{self._ground.report.kills.total()} ends")

    async def end(self) -> None:
        """End all of them politely, and look at everything."""
        await self._ground.end(*self._lives)

    async def _ask(self, room: FakeChannel, ends: "asyncio.Future[list[None]]") -> None:
        """Let one after the other ask there, until each process is back."""
        for person in range(PEOPLE):
            await self._ground.ask(room, person)
            await asyncio.wait([ends], timeout=self._ground.chance.uniform(0, _LONGEST))
            if ends.done():
                break

    async def _end(self, number: int) -> None:
        chance, report = self._ground.chance, self._ground.report
        life, polite = self._lives[number], chance.random() < 0.5
        await asyncio.sleep(chance.uniform(0, _LONGEST))
        (life.ask_to_end if polite else life.kill)()
        asked = asyncio.get_running_loop().time()
        await life.ended()
        report.kills["at random"] += 1
        report.polite += polite
        if polite:
            report.slowest = max(report.slowest, asyncio.get_running_loop().time() - asked)
        last = list(self._ground.asked)[-PEOPLE:]
        report.interrupted += sum(0 < len(self._ground.said_about(name)) < len(PARTS) for name in last)
        await asyncio.sleep(chance.choice((0.0, chance.uniform(0, _LONGEST))))
        async with self._starting:  # each is seen to come
            self._lives[number] = await self._ground.start()
