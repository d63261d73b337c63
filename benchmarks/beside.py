"""The HTTP server beside Discord in one process: what open streams do to the bot's loop and to its answers.

The bot and the server run as one process, as under `pixi-persona serve`, against a loopback Discord and a
model that writes at a steady pace. Conversations on Discord are measured with no stream open and with a
hundred that are being written, in turn, each time in channels that are new.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.processes import Worker, WorkerFailed, worker
from benchmarks.report import Figure, progress

GOAL_MORE_MS = 1.0
GOAL_ANSWER_MS = 10.0
RATE = 30.0
ROUNDS = 3
LEAD_SECONDS = 1.0
"""How long streams are written before the conversations begin, and about how long they outlast them."""

_NO_STAMP = r'"stamp of nobody": ?'


@dataclass(frozen=True, slots=True)
class Watched:
    """What came of conversations on Discord: milliseconds, and the share of a core that the process took.

    Attributes:
        own: how late the loop is at p99 without the time in which no processor was free for its thread.
    """

    lag: dict[str, float]
    own: float
    delays: list[float]
    share: float
    complete: bool

    def answer(self, percent: int) -> float:
        """Milliseconds from a written `]` to the REST request, at a percentile."""
        ordered = sorted(self.delays)
        return ordered[len(ordered) * percent // 100]


@dataclass(frozen=True, slots=True)
class _Crew:
    """The processes, and what a round is made of."""

    far: Worker
    bot: Worker
    clients: Worker
    port: int
    talks: int
    chunks: int

    def measure(self, first: int, streams: int) -> Watched:
        """Talk in channels from the first on, beside so many streams.

        Raises:
            WorkerFailed: a stream was refused, or nothing was answered.
        """
        with ThreadPoolExecutor(1) as pool:
            reading = None
            if streams:
                self._open(first, streams)
                reading = pool.submit(self.clients.ask, {"do": "read", "stamp": _NO_STAMP})
                time.sleep(LEAD_SECONDS)
            self.bot.ask({})
            talk = {"do": "talk", "first": first, "count": self.talks, "chunks": self.chunks, "rate": RATE}
            told = self.far.ask(talk)
            seen = self.bot.ask({})
            if reading is not None:
                reading.result()
                self.clients.ask({"do": "close"})
        if not told["delays"]:
            raise WorkerFailed("nothing was answered on Discord")
        lag = {name: seen[f"lag_{name}"] * 1e3 for name in ("p50", "p99", "most")}
        delays = [delay * 1e3 for delay in told["delays"]]
        complete = told["complete"] == told["asked"]
        return Watched(lag, seen["own_p99"] * 1e3, delays, seen["cpu_share"], complete)

    def _open(self, first: int, streams: int) -> None:
        """Open streams whose replies outlast the conversations."""
        seconds = self.chunks / RATE + 2 * LEAD_SECONDS
        self.far.ask({"do": "stage", "chunks": int(seconds * RATE), "rate": RATE})
        mark = 1_000_000 * (first + 1)  # none that a message on Discord has
        said = f'{{"message": "mark{mark}{{n}}", "conversation": "talk-{first}-{{n}}"}}'
        asked = {"do": "open", "port": self.port, "count": streams, "method": "POST", "path": "/api/chat"}
        if refused := self.clients.ask({**asked, "body": said})["refused"]:
            raise WorkerFailed(f"a stream was answered {refused[0]}")


@contextmanager
def _crew(channels: int, talks: int, chunks: int) -> Iterator[_Crew]:
    with (
        tempfile.TemporaryDirectory() as folder,
        worker([sys.executable, "-m", "benchmarks.discord_server"]) as far,
        worker([sys.executable, "-m", "benchmarks.discord_bot"]) as bot,
        worker([sys.executable, "-m", "benchmarks.serve_clients"]) as clients,
    ):
        opened = far.ask({"do": "open", "channels": channels})
        port = bot.ask({**opened, "folder": folder, "serves": True})["port"]
        far.ask({"do": "ready"})
        yield _Crew(far, bot, clients, port, talks, chunks)


def _measure(streams: int, talks: int, chunks: int, rounds: int) -> dict[int, list[Watched]]:
    """Measure with no stream and with so many, in turn, after a round that is not counted."""
    order = [0, streams, *([0, streams] * rounds)]
    watched: dict[int, list[Watched]] = {0: [], streams: []}
    with _crew(talks * len(order), talks, chunks) as crew:
        for number, count in enumerate(order):
            seen = crew.measure(number * talks, count)
            if number >= 2:  # before, everything is done for the first time
                watched[count].append(seen)
    return watched


def run(quick: bool) -> list[Figure]:
    """Measure."""
    streams, talks, chunks = (5, 3, 40) if quick else (100, 20, 120)
    progress(f"beside, {talks} conversations on Discord with {streams} streams open and with none")
    watched = _measure(streams, talks, chunks, 1 if quick else ROUNDS)
    none, some = watched[0], watched[streams]
    beside = f"{talks} conversations on Discord beside {streams} open streams"
    return [_lag(none, some, beside), _answers(none, some, beside)]


def _lag(none: list[Watched], some: list[Watched], beside: str) -> Figure:
    def told(runs: list[Watched], name: str) -> float:
        return statistics.median(each.lag[name] for each in runs)

    names = ("p50", "p99", "most")
    more = told(some, "p99") - told(none, "p99")
    return Figure(
        name=f"`serve`: how late the loop is, p50 / p99 / at most, {beside}",
        goal=f"p99 ≤ {GOAL_MORE_MS:g} ms more than with none",
        ours=f"{' / '.join(f'{told(some, name):.2f}' for name in names)} ms",
        floors={"no stream": f"{' / '.join(f'{told(none, name):.2f}' for name in names)} ms"},
        ratios={"with / without": " / ".join(f"{told(some, n) / told(none, n):.1f}" for n in names)},
        met=more <= GOAL_MORE_MS,
        note="without the time in which no processor was free for the loop: "
        f"{statistics.median(each.own for each in some):.2f} ms at p99, with no stream "
        f"{statistics.median(each.own for each in none):.2f} ms; medians of {len(some)} runs each, in turn; "
        "the process took "
        f"{statistics.median(each.share for each in some):.0%} of a core with streams, "
        f"{statistics.median(each.share for each in none):.0%} without",
    )


def _answers(none: list[Watched], some: list[Watched], beside: str) -> Figure:
    def told(runs: list[Watched], percent: int) -> float:
        return statistics.median(each.answer(percent) for each in runs)

    complete = all(each.complete for each in (*none, *some))
    return Figure(
        name=f"`serve`: from the written `]` to the REST request of Discord, p50 / p99, {beside}",
        goal=f"p99 ≤ {GOAL_ANSWER_MS:g} ms, all answered",
        ours=f"{told(some, 50):.1f} / {told(some, 99):.1f} ms",
        floors={"no stream": f"{told(none, 50):.1f} / {told(none, 99):.1f} ms"},
        ratios={
            "with / without": f"{told(some, 50) / told(none, 50):.1f} / {told(some, 99) / told(none, 99):.1f}"
        },
        met=complete and told(some, 99) <= GOAL_ANSWER_MS,
        note=f"{sum(len(each.delays) for each in some):,} messages beside streams; "
        f"{'every turn on Discord was' if complete else 'not every turn on Discord was'} completed",
    )
