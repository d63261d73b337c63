"""Returning to a talk of twelve turns on the bundled model: the first word with and without what was saved.

Each start is a new process of llama.cpp, which loads the weights and is asked the next message of the talk.
"""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from benchmarks.report import Figure, progress
from benchmarks.rounds import Rounds, interleave
from benchmarks.tokens import TALK, Watched, talk
from pixi.core.llm import Finished, Request, Text
from pixi.models.llama import LocalModel, check_runtime
from pixi.models.saved_slots import SavedSlots, slots_folder

GOAL_SECONDS = 3.0
NAME = "Return to a talk of {} turns, bundled model: from the start to the first word; tokens read"
TURNS = 12
ROUNDS = 3
KEY = "benchmark"


@dataclass(slots=True)
class Saved:
    """What saving the talk cost, and the requests around it."""

    last: Request
    following: Request
    milliseconds: float
    megabytes: float


async def have(slots: SavedSlots, turns: int) -> Saved:
    """Have the talk and save it. The turn after it is known too: what is asked on the return."""
    model = await LocalModel.open(progress=progress)
    watched = Watched(model)
    try:
        await talk(watched, TALK[: turns + 1])
        last, following = (asked.request for asked in watched.asked[-2:])
        async for _ in model.stream(last):  # so far the talk was when it was left
            pass
        before = time.perf_counter()
        await model.save_slot(slots, KEY)
        milliseconds = (time.perf_counter() - before) * 1e3
    finally:
        await model.close()
    size = max(path.stat().st_size for path in slots_folder().iterdir())
    return Saved(last, following, milliseconds, size / 1e6)


async def first_word(slots: SavedSlots | None, request: Request, read: list[int]) -> float:
    """Seconds from the start of the process to the first word; `read` gets the tokens evaluated."""
    before = time.perf_counter()
    model = await LocalModel.open()
    spent = 0.0
    try:
        if slots is not None:
            await model.restore_slot(slots, KEY)
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Text):
                    spent = spent or time.perf_counter() - before
                elif isinstance(delta, Finished):
                    read.append(delta.usage.prompt_tokens - delta.usage.cached_tokens)
    finally:
        await model.close()
    return spent


def measure(turns: int, rounds: int) -> Figure:
    """Have the talk once, and come back to it again and again."""
    slots = SavedSlots("benchmarks")
    with_it: list[int] = []
    without: list[int] = []
    try:
        saved = asyncio.run(have(slots, turns))
        progress(f"returning to {turns} turns")
        spent: Rounds = interleave(
            {
                "saved": lambda: asyncio.run(first_word(slots, saved.following, with_it)),
                "anew": lambda: asyncio.run(first_word(None, saved.following, without)),
            },
            rounds=rounds,
        )
    finally:
        slots.drop()
    seconds = spent.median("saved")
    return Figure(
        NAME.format(turns),
        f"≤ {GOAL_SECONDS:g} s",
        f"{seconds:.1f} s; {max(with_it)}",
        peers={"read anew": f"{spent.median('anew'):.1f} s; {max(without)}"},
        ratios={"anew / saved": f"{spent.ratio('anew', 'saved'):.1f}"},
        met=seconds <= GOAL_SECONDS,
        note=f"saving took {saved.milliseconds:.0f} ms and {saved.megabytes:.0f} MB",
    )


def run(quick: bool) -> list[Figure]:
    """Measure it, where llama.cpp and the weights are at hand."""
    check_runtime()
    return [measure(2, 1) if quick else measure(TURNS, ROUNDS)]
