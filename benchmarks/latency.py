"""From the server writing `]` to the command performed: the whole engine, with many streams at once."""

import statistics
import sys
from dataclasses import dataclass, field
from typing import Any

from benchmarks.contenders import new_event_loop
from benchmarks.latency_worker import RATE
from benchmarks.peers import PIXI_BOT, PeerMissing, pixi_bot
from benchmarks.processes import ServerAddress, cores, model_server, worker
from benchmarks.report import Figure, progress

GOAL_RATIO = 6
GOAL_KB = 40
OURS, FLOOR, PEER = "Pixi", "Protocol", f"pixi-bot {PIXI_BOT}"
PEER_UP_TO = 100
"""Streams above which the peer only falls behind, so that a comparison would say nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams for so long, and what is aimed at."""

    streams: int
    seconds: float
    goal_ms: float


FULL = (Load(1, 6, 5), Load(100, 4, 5), Load(1000, 5, 10))
QUICK = (Load(3, 0.5, 5),)


@dataclass(slots=True)
class Delays:
    """What one contender measured under one load: a value a round."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    kilobytes: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    samples: int = 0

    def take(self, told: dict[str, Any]) -> None:
        """Add a round."""
        delays = sorted(told["latencies_ns"])
        if not delays:
            raise AssertionError("no message was performed")
        self.p50.append(delays[len(delays) // 2] / 1e6)
        self.p99.append(delays[min(len(delays) - 1, len(delays) * 99 // 100)] / 1e6)
        self.kilobytes.append(told["kb_per_stream"])
        self.share.append(told["cpu_share"])
        self.samples += len(delays)

    def __str__(self) -> str:
        return f"{statistics.median(self.p50):.2f} / {statistics.median(self.p99):.2f} ms"


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


@dataclass(slots=True)
class Measured:
    """All contenders under one load, and how well the server kept the pace."""

    load: Load
    contenders: dict[str, Delays]
    reports: list[dict[str, float]] = field(default_factory=list)


def told_by(name: str, streams: int, seconds: float, server: ServerAddress) -> dict[str, Any]:
    """Let a contender read so many streams for so long, in a process of its own on the client's core.

    Raises:
        PeerMissing: it is the peer, and cannot be set up.
        WorkerFailed: the process died.
    """
    client_core, _ = cores()
    size: dict[str, Any] = {"streams": streams, "seconds": seconds}
    if name == PEER:
        base_url = server.paced(streams, int(RATE * seconds), RATE)
        with pixi_bot(client_core) as running:
            return running.ask({"do": "latency", "base_url": base_url, **size})
    with worker([sys.executable, "-m", "benchmarks.latency_worker"], client_core) as running:
        return running.ask({"name": name, "port": server.port, **size})


def _measure(load: Load, rounds: int, missing: bool) -> Measured:
    """Interleaved rounds of all contenders."""
    names = [OURS, FLOOR]
    if load.streams <= PEER_UP_TO and not missing:
        names.append(PEER)
    measured = Measured(load, {name: Delays() for name in names})
    with model_server(cores()[1]) as server:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                measured.contenders[name].take(told_by(name, load.streams, load.seconds, server))
                measured.reports.append(server.report())
    return measured


def _figure(measured: Measured, missing: str) -> Figure:
    load, ours, floor = measured.load, measured.contenders[OURS], measured.contenders[FLOOR]
    met: bool | None = statistics.median(ours.p99) <= load.goal_ms
    goal = f"p99 ≤ {load.goal_ms:g} ms"
    peers, ratios = {}, {}
    if load.streams <= PEER_UP_TO:
        goal += f", ≥ {GOAL_RATIO} × pixi-bot"
        if missing:
            peers[PEER] = missing
            met = None if met else False  # half of the goal was not looked at
        else:
            peer = measured.contenders[PEER]
            peers[PEER] = str(peer)
            p50, p99 = ratio(peer.p50, ours.p50), ratio(peer.p99, ours.p99)
            ratios["pixi-bot / Pixi"] = f"{p50:.0f} / {p99:.0f}"
            met = met and min(p50, p99) >= GOAL_RATIO
    ratios["Pixi / floor"] = f"{ratio(ours.p50, floor.p50):.1f} / {ratio(ours.p99, floor.p99):.1f}"
    late = statistics.median(report["late_p99_ms"] for report in measured.reports)
    busy = max(report["cpu_share"] for report in measured.reports)
    return Figure(
        name=f"From the written `]` to the action, p50 / p99, {load.streams:,} streams",
        goal=goal,
        ours=str(ours),
        peers=peers,
        floors={"watching Protocol": str(floor)},
        ratios=ratios,
        met=met,
        note=(
            f"{ours.samples:,} messages; the client, on {loop_name()}, took "
            f"{statistics.median(ours.share):.0%} of its core, the server at most {busy:.0%} of another, "
            f"writing {late:.2f} ms late at p99"
        ),
    )


def _memory(measured: Measured) -> Figure:
    ours = measured.contenders[OURS].kilobytes
    peers = {}
    if PEER in measured.contenders:
        peers[PEER] = f"{statistics.median(measured.contenders[PEER].kilobytes):.0f} KB"
    value = statistics.median(ours)
    return Figure(
        name=f"Memory per stream, {measured.load.streams:,} streams",
        goal=f"≤ {GOAL_KB} KB",
        ours=f"{value:.0f} KB",
        peers=peers,
        floors={"watching Protocol": f"{statistics.median(measured.contenders[FLOOR].kilobytes):.0f} KB"},
        met=value <= GOAL_KB if value > 0 else None,
    )


def run(quick: bool) -> list[Figure]:
    """Measure each load."""
    missing = ""
    try:
        with pixi_bot():
            pass  # Set up here, so that no measurement waits for it.
    except PeerMissing as error:
        missing = str(error)
    figures = []
    for load in QUICK if quick else FULL:
        progress(f"latency, {load.streams:,} streams")
        measured = _measure(load, 1 if quick else 3, bool(missing))
        figures.append(_figure(measured, missing))
        if load.streams > 1:
            figures.append(_memory(measured))
    return figures


def loop_name() -> str:
    """What the clients run on."""
    loop, name = new_event_loop()
    loop.close()
    return name
