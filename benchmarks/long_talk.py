"""Prompt tokens and the cached share over a talk of 200 turns, on the bundled model, with trimming.

The same talk is replayed, in some turns, with a window that slides: as full as can be, it loses its oldest
turn with each new one. Both windows have the same room.
"""

import asyncio
import statistics
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp

from benchmarks.report import Figure, progress
from benchmarks.tokens import TALK, Asked, Watched, talk
from pixi.core.llm import Line, Request, estimate_all
from pixi.models.deadlines import Deadlines
from pixi.models.llama import LocalModel, check_runtime
from pixi.models.llama_process import LlamaProcess, ServerSettings
from pixi.models.server_model import ServerModel
from pixi.models.weights import bundled_weights

GOAL_SHARE = 0.8
NAME = "A talk of {} turns, trimmed, bundled model: prompt tokens, median; evaluated of them; cached share"
GOAL = f"cached share ≥ {GOAL_SHARE:.0%}"

TURNS = 200
CONTEXT = 1_536  # small, so that the talk is trimmed every few turns
REPLY_TOKENS = 24
EVERY = 10  # of the turns, for the window that slides: each time nearly all of it is evaluated
_SPARKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Told:
    """What came of some turns."""

    prompts: list[int]
    cached: list[int]

    @property
    def evaluated(self) -> list[int]:
        """Tokens that were not in the server's cache, by turn."""
        return [prompt - cached for prompt, cached in zip(self.prompts, self.cached, strict=True)]

    @property
    def share(self) -> float:
        """Of the prompts' tokens, what was in the cache."""
        return sum(self.cached) / sum(self.prompts)

    @property
    def in_words(self) -> str:
        """For the table."""
        prompt, evaluated = statistics.median(self.prompts), statistics.mean(self.evaluated)
        return f"{prompt:,.0f}; {evaluated:.0f} on average; {self.share:.1%}"


def told(asked: Sequence[Asked]) -> Told:
    """How the server counted requests."""
    return Told([each.usage.prompt_tokens for each in asked], [each.usage.cached_tokens for each in asked])


def messages(turns: int) -> list[str]:
    """What the person writes: again and again the same talk, on another day."""
    return [f"{TALK[n % len(TALK)]} (day {n // len(TALK) + 1})" for n in range(turns)]


def sliding(asked: Sequence[Asked]) -> dict[int, Request]:
    """Some requests of the talk, by turn, were the window to slide."""
    first = asked[0].request
    prefix, said = first.lines[:-1], [each.request.lines[-1] for each in asked]
    # The reply to each message stands before the next one.
    past = [(each.request.lines[-3], each.request.lines[-2]) for each in asked[1:]]
    room = max(estimate_all(each.request.lines) for each in asked)  # what the talk itself took
    full = next((turn for turn in range(1, len(asked)) if _cut(asked, turn)), len(asked))
    requests = {}
    for turn in range(full, len(asked), EVERY):
        left = room - estimate_all((*prefix, said[turn]))
        history: list[Line] = []
        for lines in reversed(past[:turn]):
            left -= estimate_all(lines)
            if left < 0:
                break
            history[:0] = lines
        requests[turn] = Request((*prefix, *history, said[turn]), (), first.grammar)
    return requests


def _cut(asked: Sequence[Asked], turn: int) -> bool:
    """Whether the window was cut before this turn."""
    before, now = asked[turn - 1].request.lines, asked[turn].request.lines
    return now[: len(before)] != before


async def replayed(requests: Sequence[Request], weights: str, context: int) -> Told:
    """How another server, with a cache of its own, counts requests."""
    async with AsyncExitStack() as stack:
        process = await LlamaProcess.start(ServerSettings(weights, context, threads=2))
        stack.push_async_callback(process.close)
        connector = aiohttp.TCPConnector(force_close=True)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        model = Watched(
            ServerModel(
                "bundled",
                base_url=f"{process.address}/v1",
                api_key=process.api_key,
                session=session,
                deadlines=Deadlines(first=300.0, gap=60.0, turn=600.0),  # a whole prompt, on a busy machine
                extra_body={"max_tokens": 1, "temperature": 0},  # what is generated does not matter here
            )
        )
        for request in requests:
            async for _ in model.stream(request):
                pass
    return told(model.asked)


async def measure(turns: int) -> Figure:
    """Have the talk, and replay it."""
    weights = str(await bundled_weights(progress))
    model = await LocalModel.open(progress=progress, context_tokens=CONTEXT, max_tokens=REPLY_TOKENS)
    watched = Watched(model)
    try:
        progress(f"long_talk, {turns} turns")
        await talk(watched, messages(turns))
    finally:
        await model.close()
    requests = sliding(watched.asked)
    progress(f"long_talk, {len(requests)} turns of the same with a window that slides")
    peer = await replayed(list(requests.values()), weights, CONTEXT) if requests else None
    return _figure(watched.asked, list(requests), peer)


def _figure(asked: Sequence[Asked], turns: Sequence[int], peer: Told | None) -> Figure:
    """What slides had nothing in its cache at first: that turn is left out. So is ours, in the comparison."""
    ours = told(asked)
    cuts = sum(_cut(asked, turn) for turn in range(1, len(asked)))
    note = (
        f"context of {CONTEXT:,} tokens, cut {cuts} times; at most {max(ours.prompts):,} tokens; "
        f"prompt tokens by turn {sparks(ours.prompts, max)} "
        f"and cached share {sparks([c / p for c, p in zip(ours.cached, ours.prompts, strict=True)], min)}"
    )
    figure = Figure(NAME.format(len(asked)), GOAL, ours.in_words, note=note)
    if peer is None or len(turns) < 2:
        return figure
    slid = Told(peer.prompts[1:], peer.cached[1:])
    late = told(asked[turns[0] :])
    ratio = statistics.mean(slid.evaluated) / statistics.mean(late.evaluated)
    return Figure(
        figure.name,
        GOAL,
        figure.ours,
        peers={"a window that slides": slid.in_words},
        ratios={"sliding / Pixi, evaluated once full": f"{ratio:.1f}"},
        met=ours.share >= GOAL_SHARE,
        note=f"{note}; sliding looked at in {len(slid.prompts)} turns",
    )


def sparks(values: Sequence[float], pick: Callable[[Sequence[float]], float]) -> str:
    """The values as a row of bars, the largest full; `pick` chooses where several share a column."""
    size = -(-len(values) // _COLUMNS)
    columns = [pick(values[start : start + size]) for start in range(0, len(values), size)]
    most = max(columns) or 1
    return "".join(_SPARKS[round(value / most * (len(_SPARKS) - 1))] for value in columns)


def run(quick: bool) -> list[Figure]:
    """Measure it, where llama.cpp and the weights are at hand."""
    check_runtime()
    return [asyncio.run(measure(2 if quick else TURNS))]
