"""A whole bot over real sockets: five hundred conversations at once."""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.processes import Worker, cores, worker
from benchmarks.report import Figure, progress

COMMAND = "python -m benchmarks discord"
RATE = 30.0
GOAL_MS = 10.0
GOAL_LAG_MS = 50.0
GOAL_KB = 20.0


@contextmanager
def whole_bot(channels: int) -> Iterator[tuple[Worker, Worker]]:
    """The far ends, and a bot that is connected to them; each in a process and on a core of its own."""
    bot_core, server_core = cores()
    with (
        tempfile.TemporaryDirectory() as folder,
        worker([sys.executable, "-m", "benchmarks.discord_server"], server_core) as server,
        worker([sys.executable, "-m", "benchmarks.discord_bot"], bot_core) as bot,
    ):
        opened = server.ask({"do": "open", "channels": channels})
        bot.ask({**opened, "folder": folder})
        server.ask({"do": "ready"})
        yield server, bot


def _measure(conversations: int, chunks: int) -> dict[str, Any]:
    """Warm up in as many channels as are then measured in others, all at once."""
    with whole_bot(2 * conversations) as (server, bot):
        talk = {"do": "talk", "count": conversations, "chunks": chunks, "rate": RATE}
        first = server.ask({**talk, "first": 0})
        before = bot.ask({})
        told = server.ask({**talk, "first": conversations})
        after = bot.ask({})
    return {
        "first": first,
        "told": told,
        "lag_ms": after["lag_p99"] * 1e3,
        "kilobytes": (after["kilobytes"] - before["kilobytes"]) / conversations,
        "share": after["cpu_share"],
    }


def _p99(values: list[float]) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[len(ordered) * 99 // 100]


def run(quick: bool) -> list[Figure]:
    """Measure."""
    conversations, chunks = (20, 40) if quick else (500, 120)
    progress(f"discord, {conversations} conversations at once")
    told = _measure(conversations, chunks)
    asked = told["first"]["asked"] + told["told"]["asked"]
    complete = told["first"]["complete"] + told["told"]["complete"]
    delays = told["told"]["delays"]
    p99 = _p99(delays) * 1e3
    note = (
        f"{len(delays):,} messages; the bot took {told['share']:.0%} of its core, and the model wrote "
        f"{told['told']['late_p99'] * 1e3:.1f} ms late at p99"
    )
    size = f"{conversations:,} conversations at once"
    return [
        Figure(
            name=f"Discord: turns completed, {size}",
            command=COMMAND,
            goal="all",
            ours=f"{complete:,} of {asked:,}",
            met=complete == asked,
        ),
        Figure(
            name=f"Discord: from the written `]` to the REST request, p50 / p99, {size}",
            command=COMMAND,
            goal=f"p99 ≤ {GOAL_MS:g} ms",
            ours=f"{statistics.median(delays) * 1e3 if delays else 0:.1f} / {p99:.1f} ms",
            met=bool(delays) and p99 <= GOAL_MS,
            note=note,
        ),
        Figure(
            name=f"Discord: how late the loop is, p99, {size}",
            command=COMMAND,
            goal=f"≤ {GOAL_LAG_MS:g} ms",
            ours=f"{told['lag_ms']:.1f} ms",
            met=told["lag_ms"] <= GOAL_LAG_MS,
        ),
        Figure(
            name="Discord: memory per idle conversation",
            command=COMMAND,
            goal=f"≤ {GOAL_KB:g} KB",
            ours=f"{told['kilobytes']:.1f} KB",
            met=told["kilobytes"] <= GOAL_KB,
            note="what the second five hundred added, when all were silent again",
        ),
    ]
