"""One process, ended at each of the moments that matter, and started again."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pixi.testing.discord import ApiCall
from tests.kill.ground import ROOMS, Ground
from tests.kill.life import Life
from tests.kill.questions import PARTS, tells_of_a_tool
from tests.servers.scripted_openai import Seen
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

T = TypeVar("T")


class Rounds:
    """Asks in every room, ends the process at a moment, starts it again, and waits until all is settled."""

    def __init__(self, ground: Ground, life: Life) -> None:
        self._ground = ground
        self._life = life

    async def round(self, point: str, signal: str) -> None:
        """End it once at this point.

        Raises:
            Stuck: it does not come to rest.
        """
        ground = self._ground
        before = len(ground.asked)
        end = _Ending(self._life, polite=signal == "TERM")
        by_time = self._arm(point, end)
        told = "when the model is told what a tool said"
        how = {"in a tool": "tool", told: "tool", "in a tool that writes": "order"}
        for room in ground.rooms:
            for person in range(ground.chance.choices((1, 2, 3), (70, 20, 10))[0]):
                await ground.ask(room, person, how.get(point, ""))
        if point == "in shutdown":
            names = list(ground.asked)[before:]
            await ground.discord.wait_for(lambda: any(map(ground.said_about, names)), timeout=LIMIT)
            self._life.ask_to_end()
        await self._until_dead(end, before, by_time=by_time)
        report = ground.report
        report.kills[point] += 1
        report.polite += end.polite
        if end.polite and end.at and point != "in shutdown":
            report.slowest = max(report.slowest, asyncio.get_running_loop().time() - end.at)
        self._life = await ground.start()
        if point == "while coming back":
            again = _Ending(self._life, polite=end.polite)
            await asyncio.sleep(ground.chance.uniform(0, 0.25))
            again.now()
            await self._life.ended()
            self._life = await ground.start()
        await ground.settled(f"an end {point}, {signal}")

    async def end(self) -> None:
        """End the process politely, and look at everything."""
        await self._ground.end(self._life)

    def _arm(self, point: str, end: "_Ending") -> bool:
        """Let the end come at the point; True where the servers cannot see that come."""
        ground, loop = self._ground, asyncio.get_running_loop()
        skip = ground.chance.randrange(ROOMS * 2)
        before, after = ground.discord.before, ground.discord.after

        def now(_: ApiCall) -> None:
            end.now()

        def later(_: ApiCall) -> None:
            loop.call_later(ground.chance.uniform(0, 0.012), end.now)

        hooks: dict[str, tuple[Callable[..., object], str, str, Callable[[ApiCall], None]]] = {
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
            only: Callable[[Seen], bool] = tells_of_a_tool if "what a tool said" in point else _any
            ground.when_asked = _skipping(skip % ROOMS, lambda _: end.now(), only=only)
        else:
            return True
        return False

    async def _until_dead(self, end: "_Ending", before: int, *, by_time: bool) -> None:
        ground = self._ground
        if by_time:
            await asyncio.sleep(ground.chance.uniform(0, 0.12))
            end.now()
        async with within("the end of the program"):
            while end.life.alive:
                if ground.records.settled(len(ground.asked)):
                    end.now()  # the turns were over before the moment came
                await asyncio.sleep(0.004)
        ground.when_asked = None
        names = list(ground.asked)[before:]
        ground.report.interrupted += sum(0 < len(ground.said_about(name)) < len(PARTS) for name in names)


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
