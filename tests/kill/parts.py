"""A gateway and workers on one store, that are killed, ended and made to stand still while people ask."""

import asyncio

from tests.kill.ground import PEOPLE, Ground
from tests.kill.life import Life
from tests.kill.questions import PARTS

WAYS = ("kill a worker", "end a worker", "pause a worker", "kill the gateway")

_LONGEST = 0.3  # seconds between two questions, and until something happens to a process
_STANDS_STILL = (
    6.0  # seconds; long enough for a worker to be taken for dead, and its talks to go on elsewhere
)


class Parts:
    """Asks in every room while something happens to one of the processes. Made by `begin`."""

    def __init__(self, ground: Ground, gateway: Life, workers: list[Life]) -> None:
        self._ground = ground
        self._gateway = gateway
        self._workers = workers

    @classmethod
    async def begin(cls, ground: Ground, workers: int) -> "Parts":
        """Start all processes."""
        gateway = await ground.start("gateway")
        return cls(ground, gateway, [await ground.start_worker() for _ in range(workers)])

    async def round(self, way: str) -> None:
        """Let something happen once.

        Raises:
            Stuck: they do not come to rest.
        """
        happening = asyncio.create_task(self._happens(way))
        await asyncio.gather(
            happening, *(self._ask(room_number) for room_number in range(len(self._ground.rooms)))
        )
        await self._ground.settled(way)

    async def end(self) -> None:
        """End all of them politely, and look at everything."""
        await self._ground.end(self._gateway, *self._workers)

    async def _ask(self, number: int) -> None:
        room = self._ground.rooms[number]
        for person in range(PEOPLE):
            await self._ground.ask(room, person)
            await asyncio.sleep(self._ground.chance.uniform(0, _LONGEST))

    async def _happens(self, way: str) -> None:
        chance, report = self._ground.chance, self._ground.report
        await asyncio.sleep(chance.uniform(_LONGEST, 5 * _LONGEST))
        number = chance.randrange(len(self._workers))
        report.kills[way] += 1
        last = list(self._ground.asked)[-PEOPLE:]
        report.interrupted += sum(0 < len(self._ground.said_about(name)) < len(PARTS) for name in last)
        match way:
            case "kill a worker":
                self._workers[number].kill()
                self._workers[number] = await self._ground.start_worker()
            case "end a worker":
                report.polite += 1
                began = asyncio.get_running_loop().time()
                self._workers[number].ask_to_end()
                await self._workers[number].ended()
                report.slowest = max(report.slowest, asyncio.get_running_loop().time() - began)
                self._workers[number] = await self._ground.start_worker()
            case "pause a worker":
                self._workers[number].pause()
                await asyncio.sleep(_STANDS_STILL)
                self._workers[number].go_on()
            case _:
                self._gateway.kill()
                await self._gateway.ended()
                self._gateway = await self._ground.start("gateway")
