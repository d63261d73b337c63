"""The store: what it takes to keep a turn however long the talk is, and how long the loop stands still."""

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.contenders import new_event_loop
from benchmarks.peers import PIXI_BOT, PeerMissing, pixi_bot
from benchmarks.processes import Worker
from benchmarks.report import Figure, progress
from benchmarks.rounds import Rounds, interleave
from benchmarks.talks import AT_ONCE, SAID, Talks, heartbeat
from pixi.cli.running import tune
from pixi.store.opening import open_store

T = TypeVar("T")

GOAL_US = 100.0
GOAL_STALL_MS = 0.2
HISTORIES = (100, 1_000, 10_000)
TURNS = 60
"""Of one round, in one conversation."""
_PIXI, _POSTGRES, _PEER, _FLOOR = "Pixi", "Pixi, PostgreSQL", f"pixi-bot {PIXI_BOT}", "JSONL append"
_WORK = ("turns", "reading")


class Places:
    """Where turns are kept; the methods that measure are for `interleave`."""

    def __init__(self, run: asyncio.Runner, quick: bool) -> None:
        self._run = run
        self._turns = 10 if quick else TURNS
        self._talks: dict[str, Talks] = {}

    def open(self, name: str, url: str, history: int) -> None:
        """Open a store and fill it."""
        store = self._do(open_store(url))
        talks = self._talks[name] = Talks(store, history)
        self._do(talks.fill())
        # What lives long is not looked at by the collector, as in a program that runs for hours.
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """Close them all."""
        for talks in self._talks.values():
            self._do(talks.store.close())

    @property
    def names(self) -> list[str]:
        """Of those that are open."""
        return list(self._talks)

    def at_once(self, name: str) -> Callable[[], float]:
        """See `Talks.at_once`."""
        return lambda: self._do(self._talks[name].at_once(max(1, self._turns // 6)))

    def alone(self, name: str) -> Callable[[], float]:
        """See `Talks.alone`."""
        return lambda: self._do(self._talks[name].alone(self._turns))

    def stall_of_turns(self, name: str) -> Callable[[], float]:
        """See `Talks.stall_of_turns`."""
        return lambda: self._do(self._talks[name].stall_of_turns(self._turns))

    def stall_of_loading(self, name: str) -> Callable[[], float]:
        """See `Talks.stall_of_loading`."""
        return lambda: self._do(self._talks[name].stall_of_loading())

    def stall_of_nothing(self) -> float:
        """The same of a loop on which nothing else is done: what the machine and the interpreter take."""

        async def idle() -> float:
            async with heartbeat() as gaps:
                await asyncio.sleep(0.05)
            return max(gaps) * 1e3

        return self._do(idle())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._run.run(work)


def _append(file: Path, turns: int) -> Callable[[], float]:
    """The floor: two lines of JSON at the end of a file, on the loop."""

    def measure() -> float:
        seconds = []
        with file.open("a", encoding="utf-8") as log:
            for _ in range(turns):
                before = time.process_time()
                for role in ("user", "assistant"):
                    log.write(json.dumps({"role": role, "content": SAID, "at": before}) + "\n")
                log.flush()
                seconds.append(time.process_time() - before)
        return statistics.median(seconds) * 1e6

    return measure


def _saving(peer: Worker, history: int) -> Callable[[], float]:
    turns = 5 if history >= 10_000 else 20

    def measure() -> float:
        told = peer.ask({"do": "save", "messages": history, "turns": turns})
        seconds: list[float] = told["seconds"]
        return statistics.median(seconds) * 1e6

    return measure


@contextmanager
def _postgres() -> Iterator[str]:
    """The URL of a server; "" where the package that brings one is missing."""
    try:
        from tests.servers.postgres import Postgres
    except ImportError:
        yield ""
        return
    server = Postgres()
    try:
        yield server.url()
    finally:
        server.close()


@dataclass(slots=True)
class _Measured:
    """Of one length of history."""

    turns: Rounds
    alone: Rounds
    stalls: Rounds


def _measure(history: int, quick: bool, peer: Worker | None, server: str) -> _Measured:
    progress(f"store, {history:,} messages of history")
    rounds = 2 if quick else 5
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=lambda: new_event_loop()[0]) as run,
    ):
        places = Places(run, quick)
        places.open(_PIXI, f"sqlite:///{folder}/pixi.db", history)
        if server:
            places.open(_POSTGRES, f"{server}&schema=history_{history}", history)
        others = {_FLOOR: _append(Path(folder) / "log.jsonl", 100)}
        if peer is not None:
            others[_PEER] = _saving(peer, history)
        turns = interleave({name: places.at_once(name) for name in places.names} | others, rounds)
        alone = interleave({name: places.alone(name) for name in places.names}, rounds)
        stalls = {"nothing": places.stall_of_nothing}
        for name in places.names:
            stalls[f"{name}, turns"] = places.stall_of_turns(name)
            stalls[f"{name}, reading"] = places.stall_of_loading(name)
        measured = _Measured(turns, alone, interleave(stalls, rounds))
        places.close()
        gc.unfreeze()
    return measured


def run(quick: bool) -> list[Figure]:
    """Measure."""
    tune()
    histories = HISTORIES[:2] if quick else HISTORIES
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        try:
            peer: Worker | None = stack.enter_context(pixi_bot())
        except PeerMissing as reason:
            peer = None
            missing[_PEER] = str(reason)
        server = stack.enter_context(_postgres())
        if not server:
            missing[_POSTGRES] = "not installed"
        found = {history: _measure(history, quick, peer, server) for history in histories}
    table, lengths = _Table(found, missing), " / ".join(f"{history:,}" for history in found)
    return [table.side_by_side(lengths), table.alone(lengths), table.stalls(lengths)]


@dataclass(frozen=True, slots=True)
class _Table:
    """What was measured, by the length of the history, and what could not be."""

    found: dict[int, _Measured]
    missing: dict[str, str]

    def row(self, value: Callable[[_Measured], float], unit: str = "", digits: int = 0) -> str:
        """A value for each length."""
        values = " / ".join(f"{value(each):,.{digits}f}" for each in self.found.values())
        return f"{values} {unit}".strip()

    def has(self, name: str) -> bool:
        """Whether somebody took part."""
        return name not in self.missing

    def side_by_side(self, lengths: str) -> Figure:
        """A turn among others."""
        peers = {
            name: self.row(lambda each, name=name: each.turns.median(name), "µs")  # type: ignore[misc]
            if self.has(name)
            else self.missing[name]
            for name in (_PEER, _POSTGRES)
        }
        ratios = {}
        if self.has(_PEER):
            ratios[f"{_PEER} / Pixi"] = self.row(lambda each: each.turns.ratio(_PEER, _PIXI), digits=1)
        ratios[f"Pixi / {_FLOOR}"] = self.row(lambda each: each.turns.ratio(_PIXI, _FLOOR), digits=1)
        return Figure(
            name=f"Store: processor time for a turn, {AT_ONCE} talks at once, each of {lengths} messages",
            goal=f"≤ {GOAL_US:.0f} µs",
            ours=self.row(lambda each: each.turns.median(_PIXI), "µs"),
            peers=peers,
            floors={_FLOOR: self.row(lambda each: each.turns.median(_FLOOR), "µs")},
            ratios=ratios,
            met=all(each.turns.median(_PIXI) <= GOAL_US for each in self.found.values()),
            note="five calls, each on record before the next is made, but for what became of the message, "
            "which goes with the turn's end; of loop and thread together; pixi-bot saves its whole file, on "
            "the loop; of PostgreSQL the server's own time is not counted, and it runs without fsync, as "
            "SQLite does in WAL mode between checkpoints",
        )

    def alone(self, lengths: str) -> Figure:
        """A turn that shares its transactions with nobody."""
        peers = {_POSTGRES: self.missing.get(_POSTGRES, "")}
        if self.has(_POSTGRES):
            peers = {_POSTGRES: self.row(lambda each: each.alone.median(_POSTGRES), "µs")}
        return Figure(
            name=f"Store: time for a turn of one talk alone, of {lengths} messages",
            goal=f"≤ {GOAL_US:.0f} µs",
            ours=self.row(lambda each: each.alone.median(_PIXI), "µs"),
            peers=peers,
            met=all(each.alone.median(_PIXI) <= GOAL_US for each in self.found.values()),
            note="four transactions, and eight times one thread wakes the other",
        )

    def stalls(self, lengths: str) -> Figure:
        """How long the loop stands still."""

        def longest(each: _Measured, what: str) -> float:
            return each.stalls.median(f"{_PIXI}, {what}")

        worst = max(longest(each, what) for each in self.found.values() for what in _WORK)
        peers = {}
        if self.has(_PEER):
            peers[_PEER] = self.row(lambda each: each.turns.median(_PEER) / 1e3, "ms, each turn", 2)
        return Figure(
            name=f"Store: longest stall of the loop: {TURNS} turns; reading a talk; {lengths} messages",
            goal=f"≤ {GOAL_STALL_MS:g} ms",
            ours="; ".join(
                self.row(lambda each, what=what: longest(each, what), "ms", 2)  # type: ignore[misc]
                for what in _WORK
            ),
            peers=peers,
            floors={"an idle loop": self.row(lambda each: each.stalls.median("nothing"), "ms", 2)},
            met=worst <= GOAL_STALL_MS,
            note="medians of the longest in each round, on a loop that never sleeps",
        )
