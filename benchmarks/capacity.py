"""How many streams one core carries: the most of which a message is performed in time, found by bisection.

Each try is a process of its own that reads so many streams of 30 chunks a second for some seconds, as in
`latency`. A number that fails is tried twice: whatever else the machine does can only make it fail. It takes
some four minutes, and a machine on which nothing else runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.latency import FLOOR, OURS, PEER, Delays, told_by
from benchmarks.latency_worker import RATE
from benchmarks.peers import PeerMissing
from benchmarks.processes import ServerAddress, WorkerFailed, cores, model_server
from benchmarks.report import Figure, progress

GOAL_MS = 10.0
STRETCH = 1_000
FIRST = {OURS: 100, FLOOR: 800, PEER: 50}
"""Streams that are tried first: each contender carries about so many, or it is soon known."""
MOST = 3_000
TRIES = 2
LATE_MS = 10.0
"""A server that writes later than that at p99 is at its own limit: nobody is judged by such a try."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most streams that were carried, to a tenth. `or_more`: more could not be tried."""

    streams: int
    or_more: bool = False

    def __str__(self) -> str:
        return f"{self.streams:,} or more" if self.or_more else f"{self.streams:,}"


def most(carries: Callable[[int], bool], fewest: int, limit: int) -> int:
    """Find the most that are carried, to a tenth: the number is doubled until it fails, then bisected.

    Args:
        carries: tries a number.
        fewest: the number that is tried first.
        limit: more are not tried.
    """
    carried, failed = 0, 0
    while not failed:
        tried = min(2 * carried or fewest, limit)
        if not carries(tried):
            failed = tried
        elif tried == limit:
            return limit
        else:
            carried = tried
    while failed - carried > max(1, failed // 10):
        tried = (carried + failed) // 2
        if carries(tried):
            carried = tried
        else:
            failed = tried
    return carried


class Core:
    """The core of the clients, on which one contender after the other is tried.

    Attributes:
        late: the numbers of streams to which the server was late itself.
    """

    def __init__(self, server: ServerAddress, *, seconds: float, limit: int) -> None:
        self.late: set[int] = set()
        self._server = server
        self._seconds = seconds
        self._limit = limit

    def p99(self, name: str, streams: int) -> float:
        """Measure the milliseconds from the written `]` to the action."""
        delays = Delays()
        delays.take(told_by(name, streams, self._seconds, self._server))
        return delays.p99[0]

    def capacity(self, name: str, within: float) -> Capacity:
        """Find how many streams a contender carries within so many milliseconds at p99."""
        failed: set[int] = set()

        def carries(streams: int) -> bool:
            for _ in range(TRIES):
                p99, late = self.p99(name, streams), self._server.report()["late_p99_ms"]
                progress(f"{name}, {streams:,} streams: {p99:.2f} ms, the server {late:.2f} ms late")
                if late > LATE_MS:
                    self.late.add(streams)
                elif p99 <= within:
                    return True
                else:
                    failed.add(streams)
            return False

        carried = most(carries, min(FIRST[name], self._limit // 2), self._limit)
        # The least number that was not carried: was it the contender that failed?
        first = min((streams for streams in failed | self.late if streams > carried), default=math.inf)
        return Capacity(carried, or_more=first not in failed)


def run(quick: bool) -> list[Figure]:
    """Measure."""
    seconds, limit = (1.5, 6) if quick else (3.0, MOST)
    with model_server(cores()[1]) as server:
        core = Core(server, seconds=seconds, limit=limit)
        ours, floor = core.capacity(OURS, GOAL_MS), core.capacity(FLOOR, GOAL_MS)
        try:
            alone = core.p99(PEER, 1)
            peer = core.capacity(PEER, alone + GOAL_MS)
            told = f"none: one takes {alone:.0f} ms; {peer} with {GOAL_MS:g} ms more than that"
        except (PeerMissing, WorkerFailed) as error:
            told = str(error)
    met: bool | None = 2 * ours.streams >= floor.streams
    if met and floor.or_more:
        met = None  # nobody knows what half of it is
    note = "found by bisection, to a tenth; Pixi with its store in a file"
    if core.late:
        note += f"; the server itself was late with {min(core.late):,} streams"
    return [
        Figure(
            name=f"Streams that one core carries, {RATE:.0f} chunks a second each, with p99 ≤ {GOAL_MS:g} ms "
            "from the written `]` to the action",
            goal=f"half of what the floor carries; stretch {STRETCH:,}",
            ours=str(ours),
            peers={PEER: told},
            floors={"watching Protocol": str(floor)},
            ratios={"Pixi / floor": f"{ours.streams / max(floor.streams, 1):.2f}"},
            met=met,
            note=note,
        )
    ]
