"""Processor time per streamed chunk, from the server to the performed action: microseconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from benchmarks.contenders import Contender, Floor, OpenAISDK, Pixi, new_event_loop
from benchmarks.processes import ServerAddress, WorkerFailed, cores, model_server, pinned
from benchmarks.replies import chunks_of_text
from benchmarks.report import Figure, progress
from benchmarks.rounds import Rounds, interleave
from pixi.cli.running import tune

GOAL_FAST_US = 4
GOAL_FAST_RATIO = 28
GOAL_PACED_RATIO = 2
RATE = 30.0
Kind = Callable[[Contender], Awaitable[float]]
PATIENCE = 120.0
"""Seconds after which a measurement is taken to hang."""

UNRECORDED, JOURNALLED, SDK, FLOOR = "Pixi, no journal", "Pixi, SQLite journal", "openai SDK loop", "Protocol"
CONTENDERS: Mapping[str, Callable[[], Contender]] = {
    UNRECORDED: lambda: Pixi(journal=False),
    JOURNALLED: Pixi,
    SDK: OpenAISDK,
    FLOOR: Floor,
}


async def fast(contender: Contender, server: ServerAddress, chunks: int) -> float:
    """Microseconds per chunk of one stream that comes as fast as it is taken."""
    await contender.open(server.fast(chunks))
    try:
        before = time.process_time()
        await contender.reply(0)
        return (time.process_time() - before) / chunks * 1e6
    finally:
        await contender.close()


async def paced(contender: Contender, server: ServerAddress, streams: int, seconds: float) -> float:
    """Microseconds per chunk while so many streams go on, each at `RATE` chunks a second.

    Only the middle counts: neither making the connections nor ending the turns. What was written
    meanwhile is asked of the server.
    """
    await contender.open(server.paced(streams, int(RATE * (seconds + 1)), RATE))
    try:
        replies = [asyncio.create_task(contender.reply(number)) for number in range(streams)]
        await server.writing()
        await asyncio.sleep(0.3)
        written = (await asyncio.to_thread(server.report))["writes"]
        before = time.process_time()
        await asyncio.sleep(seconds)
        spent = time.process_time() - before
        written = (await asyncio.to_thread(server.report))["writes"] - written
        await asyncio.gather(*replies)
        if not written:
            raise WorkerFailed("the client fell so far behind that the streams had ended before it looked")
        return spent / written * 1e6
    finally:
        await contender.close()


def _rounds(names: Sequence[str], kind: Kind, turns: int, runner: asyncio.Runner) -> Rounds:
    """Interleaved rounds of those contenders with one kind of stream."""

    def measured_by(make: Callable[[], Contender]) -> Callable[[], float]:
        async def measure() -> float:
            async with asyncio.timeout(PATIENCE):
                return await kind(make())

        return lambda: runner.run(measure())

    return interleave({name: measured_by(CONTENDERS[name]) for name in names}, turns)


def _figure(name: str, goal: str, ours: str, rounds: Rounds, *, met: bool, note: str) -> Figure:
    """One line of the table; `ours` is the contender that the goal is about."""
    peers = [peer for peer in rounds.values if peer not in (ours, FLOOR)]
    return Figure(
        name=name,
        goal=goal,
        ours=f"{rounds.median(ours):.1f} µs",
        peers={peer: f"{rounds.median(peer):.1f} µs" for peer in peers},
        floors={"counting Protocol": f"{rounds.median(FLOOR):.2f} µs"},
        ratios={
            "openai SDK / Pixi": f"{rounds.ratio(SDK, ours):.1f}",
            "Pixi / floor": f"{rounds.ratio(ours, FLOOR):.1f}",
        },
        met=met,
        note=note,
    )


def run(quick: bool) -> list[Figure]:
    """Measure both kinds of stream."""
    chunks = 1_000 if quick else 20_000
    streams, seconds = (5, 0.3) if quick else (100, 2.0)
    turns = 1 if quick else 3
    client_core, server_core = cores()
    loop, loop_name = new_event_loop()
    tune()  # as the program does
    with (
        pinned(client_core),
        model_server(server_core) as server,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        progress("client, one fast stream")
        everybody = list(CONTENDERS)
        coalesced = _rounds(everybody, lambda who: fast(who, server, chunks), 2 * turns - 1, runner)
        progress(f"client, {streams} paced streams")
        steady = _rounds(everybody, lambda who: paced(who, server, streams, seconds), turns, runner)
    acts = "".join(chunks_of_text(chunks)).count("]\n")
    fast_met = (
        coalesced.median(UNRECORDED) <= GOAL_FAST_US and coalesced.ratio(SDK, UNRECORDED) >= GOAL_FAST_RATIO
    )
    return [
        _figure(
            f"Client, processor time per chunk, one fast stream of {chunks:,}",
            f"≤ {GOAL_FAST_US} µs, ≥ {GOAL_FAST_RATIO} × the SDK",
            UNRECORDED,
            coalesced,
            met=fast_met,
            note=f"{acts:,} commands performed; on one core, all clients on {loop_name}",
        ),
        _figure(
            f"Client, processor time per chunk, {streams} streams of {RATE:.0f} chunks a second",
            f"≤ {GOAL_PACED_RATIO} × the floor",
            JOURNALLED,
            steady,
            met=steady.ratio(JOURNALLED, FLOOR) <= GOAL_PACED_RATIO,
            note="each stream at a moment of its own, so that hardly two chunks share a wake-up of the loop",
        ),
    ]
