"""Gateways, workers and servers on one store, killed, ended and made to stand still while people ask.

Each is started again whenever it ends, as a service manager does: a process that starts while the database is
away ends, and is tried again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.kill.ground import PEOPLE, Ground, Stuck
from tests.kill.life import Life
from tests.kill.questions import PARTS, parts_of

if TYPE_CHECKING:
    from tests.kill.clients import HttpTalk
    from tests.servers.postgres import Postgres

WAYS = tuple(f"{what} a {which}" for which in ("worker", "gateway") for what in ("kill", "end", "pause"))
OF_SERVES = tuple(f"{what} a serve" for what in ("kill", "end", "pause"))
CRASH = "crash the database"
"""What happens to a server of its own, too."""

_QUESTIONS = 4  # in a talk over HTTP, each after the answer to the last one

_LONGEST = 0.3  # seconds between two questions, and until something happens to a process
_STANDS_STILL = (
    6.0  # seconds; long enough for a worker to be taken for dead, and its talks to go on elsewhere
)
_AWAY = 2.0  # seconds that the database is away at most
_AGAIN = 0.2  # seconds until a process that has ended is started again


class Parts:
    """Asks in every room while something happens to some of the processes. Made by `begin`.

    Args:
        ground: where people ask.
        lives: the processes, by the command that starts each.
        server: the database's, if it may be crashed.
    """

    def __init__(
        self, ground: Ground, lives: dict[tuple[str, ...], list[Life]], server: "Postgres | None"
    ) -> None:
        self._ground = ground
        self._lives = lives
        self._server = server
        self._gone: set[Life] = set()  # those that were ended or killed
        self._crashing = asyncio.Lock()  # one crash after the other
        self._keeping = [
            asyncio.create_task(self._keep(command, number))
            for command, same in lives.items()
            for number in range(len(same))
        ]

    @classmethod
    async def begin(
        cls, ground: Ground, *, workers: int, gateways: int = 1, server: "Postgres | None" = None
    ) -> "Parts":
        """Start all processes."""
        lives: dict[tuple[str, ...], list[Life]] = {}
        for shard in range(gateways):
            command = ("gateway", *(("--shards", f"{shard}/{gateways}") if gateways > 1 else ()))
            lives[command] = [await ground.start(*command)]
        lives["worker",] = [await ground.launch("worker") for _ in range(workers)]
        for port in ground.ports:
            command = ("serve", "--only", "http", "--port", str(port))
            lives[command] = [await ground.launch(*command)]
        return cls(ground, lives, server)

    async def round(self, ways: Sequence[str]) -> None:
        """Let all of this happen once, each to another process while there are such.

        Raises:
            Stuck: they do not come to rest.
        """
        happening = [self._happens(way, life) for way, life in self._aims(ways)]
        asking = [self._ask(room_number) for room_number in range(len(self._ground.rooms))]
        asking += [self._ask_over_http(talk) for talk in self._ground.talks]
        told = " and ".join(ways)
        try:
            await asyncio.gather(*happening, *asking)
            await self._ground.settled(told)
        except (Stuck, AssertionError) as error:  # they do not rest, or one does not end
            report = self._ground.report
            report.stuck = report.stuck or f"after {told}: {error}"
            await self._tell_where()
            raise Stuck(report.stuck) from error

    async def end(self) -> None:
        """End all of them politely, and look at everything."""
        for task in self._keeping:
            task.cancel()
        for task in self._keeping:
            with suppress(asyncio.CancelledError):
                await task
        await self._ground.end(*(life for same in self._lives.values() for life in same))

    async def _tell_where(self) -> None:
        """Let all write into the log what they do, and kill them."""
        lives = [life for same in self._lives.values() for life in same]
        for task in self._keeping:
            task.cancel()
        for life in lives:
            life.tell_where()
        await asyncio.sleep(1.0)
        for life in lives:
            life.kill()

    async def _keep(self, command: tuple[str, ...], number: int) -> None:
        """Start a process again whenever it ends, until cancelled."""
        while True:
            life = self._lives[command][number]
            while life.alive:  # noqa: ASYNC110 - a process that is not our child
                await asyncio.sleep(0.02)
            self._ground.report.unasked += life not in self._gone
            await asyncio.sleep(_AGAIN)
            self._lives[command][number] = await self._ground.launch(*command)

    def _aims(self, ways: Sequence[str]) -> list[tuple[str, Life | None]]:
        """Choose the process that each happens to; the database is none."""
        chance = self._ground.chance
        left: dict[str, list[Life]] = {}
        aims: list[tuple[str, Life | None]] = []
        for way in ways:
            which = way.split()[-1]
            if which == "database":
                aims.append((way, None))
                continue
            if not left.get(which):
                there = [
                    life for command, same in self._lives.items() if command[0] == which for life in same
                ]
                left[which] = chance.sample(there, len(there))
            aims.append((way, left[which].pop()))
        return aims

    async def _ask(self, number: int) -> None:
        room = self._ground.rooms[number]
        for person in range(PEOPLE):
            await self._ground.ask(room, person)
            await asyncio.sleep(self._ground.chance.uniform(0, _LONGEST))

    async def _ask_over_http(self, talk: "HttpTalk") -> None:
        for _ in range(_QUESTIONS):
            await asyncio.sleep(self._ground.chance.uniform(0, _LONGEST))
            await self._ground.ask_over_http(talk)

    async def _happens(self, way: str, life: Life | None) -> None:
        chance, report, loop = self._ground.chance, self._ground.report, asyncio.get_running_loop()
        away = chance.uniform(0, _AWAY)
        await asyncio.sleep(chance.uniform(_LONGEST, 5 * _LONGEST))
        report.kills[way] += 1
        last = list(self._ground.asked)[-PEOPLE * len(self._ground.rooms) :]
        report.interrupted += sum(
            0 < len(parts_of(name, self._ground.said_about(name))) < len(PARTS) for name in last
        )
        if life is None:
            assert self._server is not None
            async with self._crashing:
                await asyncio.to_thread(self._server.stop, "immediate")
                await asyncio.sleep(away)
                await asyncio.to_thread(self._server.start)
        elif way.startswith("kill"):
            self._gone.add(life)
            life.kill()
        elif way.startswith("end"):
            self._gone.add(life)
            report.polite += 1
            began = loop.time()
            life.ask_to_end()
            await life.ended()
            report.slowest = max(report.slowest, loop.time() - began)
        else:
            life.pause()
            await asyncio.sleep(_STANDS_STILL)
            life.go_on()
