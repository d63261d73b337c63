"""A whole bot over real sockets: five hundred conversations at once, beside what discord.py takes alone.

All conversations run in step, so that five hundred messages close in the same moment and each waits for the
posts before it. The floor is discord.py alone, which posts as many messages at once.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.processes import Worker, WorkerFailed, cores, worker
from benchmarks.report import Figure, progress

RATE = 30.0
GOAL_MS = 10.0
GOAL_RATIO = 1.5
WAVES = 3
"""Posts in each channel, as many as a reply has messages; one more wave makes the connections."""
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


def _alone(channels: int) -> list[float]:
    """Seconds from the moment in which discord.py is asked for as many posts at once to each request."""
    bot_core, server_core = cores()
    delays: list[float] = []
    with (
        worker([sys.executable, "-m", "benchmarks.discord_server"], server_core) as server,
        worker([sys.executable, "-m", "benchmarks.discord_alone"], bot_core) as bot,
    ):
        opened = server.ask({"do": "open", "channels": channels})
        bot.ask(opened)
        for wave in range(1 + WAVES):
            began = bot.ask({"channels": opened["channels"]})["began"]
            asked = server.ask({"do": "posted"})["asked"]
            if len(asked) != channels:
                raise WorkerFailed(f"discord.py posted {len(asked)} of {channels} messages")
            delays += [at - began for at in asked] if wave else []
    return delays


def _in_ms(delays: list[float]) -> tuple[float, float]:
    """Give the median and the p99 of delays in seconds, in milliseconds."""
    ordered = sorted(delays) or [0.0]
    return statistics.median(ordered) * 1e3, ordered[len(ordered) * 99 // 100] * 1e3


def run(quick: bool) -> list[Figure]:
    """Measure."""
    conversations, chunks = (20, 40) if quick else (500, 120)
    progress(f"discord, {conversations} conversations at once")
    floor_p50, floor_p99 = _in_ms(_alone(conversations))
    told = _measure(conversations, chunks)
    asked = told["first"]["asked"] + told["told"]["asked"]
    complete = told["first"]["complete"] + told["told"]["complete"]
    delays = told["told"]["delays"]
    p50, p99 = _in_ms(delays)
    note = (
        f"{len(delays):,} messages; the bot took {told['share']:.0%} of its core, and the model wrote "
        f"{told['told']['late_p99'] * 1e3:.1f} ms late at p99"
    )
    size = f"{conversations:,} conversations at once"
    return [
        Figure(
            name=f"Discord: turns completed, {size}",
            goal="all",
            ours=f"{complete:,} of {asked:,}",
            met=complete == asked,
        ),
        Figure(
            name=f"Discord: from the written `]` to the REST request, p50 / p99, {size}",
            goal=f"p99 ≤ {GOAL_MS:g} ms, or ≤ {GOAL_RATIO} × discord.py alone",
            ours=f"{p50:.1f} / {p99:.1f} ms",
            floors={
                f"discord.py alone, {conversations:,} posts at once": f"{floor_p50:.1f} / {floor_p99:.1f} ms"
            },
            ratios={"Pixi / discord.py": f"{p50 / floor_p50:.1f} / {p99 / floor_p99:.1f}"},
            met=bool(delays) and p99 <= max(GOAL_MS, GOAL_RATIO * floor_p99),
            note=note,
        ),
        Figure(
            name=f"Discord: how late the loop is, p99, {size}",
            goal=f"≤ {GOAL_LAG_MS:g} ms",
            ours=f"{told['lag_ms']:.1f} ms",
            met=told["lag_ms"] <= GOAL_LAG_MS,
        ),
        Figure(
            name="Discord: memory per idle conversation",
            goal=f"≤ {GOAL_KB:g} KB",
            ours=f"{told['kilobytes']:.1f} KB",
            met=told["kilobytes"] <= GOAL_KB,
            note="what the second five hundred added, when all were silent again",
        ),
    ]
