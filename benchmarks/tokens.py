"""Prompt tokens that llama.cpp really evaluates each turn, in a talk with the bundled model."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
from msgspec.structs import replace

from benchmarks.contenders import Recording
from benchmarks.report import Figure, progress
from pixi.core.llm import Delta, Finished, Request, SystemLine, Usage
from pixi.core.message import Author, Message
from pixi.engine import Engine
from pixi.models.connections import open_session
from pixi.models.llama import LocalModel, check_runtime
from pixi.models.llama_process import LlamaProcess, ServerSettings
from pixi.models.model import Model, Traits
from pixi.models.server_model import ServerModel
from pixi.models.weights import bundled_weights
from pixi.personas.files import find_persona, shipped_folder

GOAL_ABOVE = 30

CLOCK_EVERY = 4
TALK: tuple[str, ...] = (
    "hi! who are you?",
    "what do you do all day on your island?",
    "i had pancakes this morning, with blueberries",
    "do you have a cat?",
    "what colour is it",
    "i am learning to draw, any advice for a beginner?",
    "my lines are always wobbly",
    "what should i draw first?",
    "ok i will try a teapot. wish me luck",
    "it looks like an elephant, but a happy one",
    "do you sell your pictures?",
    "what is the weather like where you are",
    "it is raining here and i have to go to work",
    "i work in a library, mostly with old maps",
    "someone once drew a whole island that does not exist",
    "would you like to live on an invented island?",
    "which book are you reading?",
    "recommend me something short",
    "thank you, you are kind",
    "good night, talk to you tomorrow",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the talk, and how the server counted it."""

    request: Request
    usage: Usage

    @property
    def evaluated(self) -> int:
        """Prompt tokens that were not in the server's cache."""
        return self.usage.prompt_tokens - self.usage.cached_tokens


class Watched:
    """A model that remembers what it was asked."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.asked: list[Asked] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def traits(self) -> Traits:
        return self._model.traits

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        async for delta in self._model.stream(request):
            if isinstance(delta, Finished):
                self.asked.append(Asked(request, delta.usage))
            yield delta

    async def close(self) -> None:
        """It is closed by whoever opened it."""


async def talk(model: Watched, messages: Sequence[str]) -> None:
    """Let Pixi answer the messages one after the other, on the real engine."""
    channel = Recording([])
    # The bundled model is offered no tools, so here they need not be there.
    persona = replace(find_persona("pixi", (shipped_folder(),)), databases=(), tools=())
    async with Engine(model=model, persona=persona) as engine:
        for number, text in enumerate(messages):
            author = Author("1", "Mo")
            await engine.receive(Message(str(number), "talk", author, text, time.time()), channel)
            await engine.settled()
    if any("stop" not in wrong and "length" not in wrong for wrong in channel.wrong):
        raise AssertionError(channel.wrong)
    if len(model.asked) != len(messages):
        raise AssertionError(f"{len(model.asked)} requests for {len(messages)} messages")


class Second:
    """llama.cpp once more, in a process of its own, so that no cache is shared: it counts and replays."""

    def __init__(self, process: LlamaProcess, session: aiohttp.ClientSession, traits: Traits) -> None:
        self._process = process
        self._session = session
        self._model = ServerModel(
            "bundled",
            base_url=f"{process.address}/v1",
            api_key=process.api_key,
            traits=traits,
            session=session,
            # What is generated does not matter here: the talk is given.
            extra_body={"max_tokens": 1, "temperature": 0},
        )

    async def count(self, text: str) -> int:
        """How many tokens a text has by itself."""
        headers = {"Authorization": f"Bearer {self._process.api_key}"}
        address = f"{self._process.address}/tokenize"
        async with self._session.post(address, json={"content": text}, headers=headers) as response:
            return len((await response.json())["tokens"])

    async def with_clock(self, asked: Sequence[Asked], every: int) -> dict[int, int]:
        """Tokens evaluated in some turns of the same talk, were the clock in the system prompt, by turn.

        All but the first part of the system prompt is evaluated anew whatever the turn before was, so it
        is enough to look at some; all of them would take minutes.
        """
        evaluated = {}
        for minute in range(0, len(asked), every):
            watched = Watched(self._model)
            first, *rest = asked[minute].request.lines
            assert isinstance(first, SystemLine)
            told = replace(first, text=f"{first.text}\n\nIt is 20:{minute:02}.")
            async for _ in watched.stream(Request((told, *rest))):
                pass
            evaluated[minute] = watched.asked[0].evaluated
        return evaluated


async def measure(messages: Sequence[str], max_tokens: int | None = None) -> Figure:
    """Have the talk, and replay it in the other layout. `max_tokens` of a reply: None as Pixi does."""
    weights = await bundled_weights(progress)
    async with AsyncExitStack() as stack:
        model = await LocalModel.open(progress=progress, max_tokens=max_tokens)
        stack.push_async_callback(model.close)
        settings = ServerSettings(str(weights), model.traits.context_tokens, threads=2)
        process = await LlamaProcess.start(settings)
        stack.push_async_callback(process.close)
        session = await stack.enter_async_context(open_session(force_close=True))
        second = Second(process, session, model.traits)
        watched = Watched(model)
        progress(f"tokens, a talk of {len(messages)} turns")
        await talk(watched, messages)
        progress("tokens, the same with a clock")
        clock = await second.with_clock(watched.asked, CLOCK_EVERY if len(messages) > CLOCK_EVERY else 1)
        own = [await second.count(message) for message in messages]
    return _figure([each.evaluated for each in watched.asked], clock, own)


def _figure(ours: list[int], clock: dict[int, int], own: list[int]) -> Figure:
    """The first turn is left out: there nothing can be cached yet."""
    above = [evaluated - message for evaluated, message in zip(ours[1:], own[1:], strict=True)]
    turns = [turn for turn in clock if turn]
    clock_above = [clock[turn] - own[turn] for turn in turns]
    return Figure(
        name="Prompt tokens evaluated beyond the new message, bundled model, per turn",
        goal=f"≤ {GOAL_ABOVE}",
        ours=f"median {statistics.median(above):.0f}, at most {max(above)}",
        peers={
            "clock in the system prompt": f"median {statistics.median(clock_above):.0f}, "
            f"at most {max(clock_above)}"
        },
        floors={"the new message itself": f"median {statistics.median(own[1:]):.0f} tokens"},
        ratios={"clock / Pixi": f"{statistics.median(clock[turn] / ours[turn] for turn in turns):.0f}"},
        met=max(above) <= GOAL_ABOVE,
        note=(
            f"{len(ours)} turns, {ours[0]:,} tokens in the first and then {' '.join(map(str, ours[1:]))}; "
            f"with the clock, in {len(turns)} of them, {' '.join(str(clock[turn]) for turn in turns)}"
        ),
    )


def run(quick: bool) -> list[Figure]:
    """Measure it, where llama.cpp and the weights are at hand."""
    check_runtime()
    return [asyncio.run(measure(TALK[:2], max_tokens=8) if quick else measure(TALK))]
