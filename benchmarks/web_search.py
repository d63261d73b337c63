"""The provider's own search of the web against Pixi's, at the same one: `python -m benchmarks web_search`.

Both are asked the same questions through the Responses API of one scripted server, over real sockets. It
takes a while before it writes, each time it is asked, and a search takes as long wherever it is made. It
counts what it is really sent; to a search of its own it adds what the results come to, which are the same
five that Pixi's search at a scripted SearXNG server gives.
"""

import asyncio
import json
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from benchmarks.report import Figure
from pixi.addons.web import EngineSearch, web_search_tool
from pixi.core.events import TurnReport
from pixi.core.masking import SecretRedactor
from pixi.core.persona import Persona
from pixi.engine import Engine
from pixi.fetching.web import Web
from pixi.models.dialects.responses import Responses
from pixi.models.model import Traits
from pixi.models.server_model import ServerModel
from pixi.testing import RecordingChannel
from pixi.web.search_engines import SearXNG
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen, Wait, answer
from tests.servers.scripted_responses import call, completed, message, responses, searched

THINKING = 0.4
"""Seconds until the provider writes."""

SEARCHING = 0.3
"""Seconds that a search takes."""

QUESTIONS = tuple(
    f"What is new about {thing}?"
    for thing in [
        "pancakes",
        "creepers",
        "ferries",
        "teas",
        "maps",
        "cranes",
        "glazes",
        "moths",
        "tides",
        "ink",
    ]
)
_CHARACTERS_PER_TOKEN = 4
_SNIPPET = "What people wrote of it lately, in some sentences that say a little of everything. " * 3
_PERSONA = Persona("Pixi", "You are Pixi, an art student who loves pancakes.")
_SAID = "[SEND: It was in the news last week, and people liked it very much.]"


@dataclass(frozen=True, slots=True)
class Way:
    """What one way came to: for each question the requests to the model and, in a report, the turn."""

    requests: int
    searches: int
    turns: tuple[TurnReport, ...]

    @property
    def calls(self) -> float:
        """Requests to the model for a question."""
        return self.requests / len(self.turns)

    @property
    def read(self) -> float:
        """Tokens read for a question."""
        return statistics.mean(turn.usage.prompt_tokens for turn in self.turns)

    @property
    def written(self) -> float:
        """Tokens written for a question."""
        return statistics.mean(turn.usage.completion_tokens for turn in self.turns)

    @property
    def seconds(self) -> float:
        """From the question to the end of the answer, in the median."""
        return statistics.median(turn.seconds for turn in self.turns)


def results_for(query: str) -> list[Json]:
    """The five pages that a search gives."""
    return [
        {"url": f"https://news.example/{number}", "title": f"{query} ({number})", "content": _SNIPPET}
        for number in range(1, 6)
    ]


def provider(seen: Seen) -> Reply:
    """A model that searches by itself where it may, and else with the tool; then it answers."""
    asked = seen.json()
    tools = {tool.get("name", tool["type"]): tool["type"] for tool in asked.get("tools", [])}
    read = _tokens(asked)
    question = next(item for item in reversed(asked["input"]) if item.get("role") == "user")
    query = _words(question)
    if tools.get("web_search") == "web_search":
        read += _tokens(results_for(query))
        says = message(_SAID, index=1)
        return responses(Wait(THINKING), Wait(SEARCHING), searched(query), says, _counted(read, _SAID))
    if asked["input"][-1].get("type") == "function_call_output":
        return responses(Wait(THINKING), message(_SAID), _counted(read, _SAID))
    arguments = json.dumps({"query": query})
    return responses(Wait(THINKING), call("web_search", arguments), _counted(read, arguments))


def _counted(read: int, written: str) -> Json:
    return completed(
        input_tokens=read,
        input_tokens_details={"cached_tokens": 0},
        output_tokens=len(written) // _CHARACTERS_PER_TOKEN,
    )


def _tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // _CHARACTERS_PER_TOKEN


def _words(item: Json) -> str:
    return str(item["content"] if isinstance(item["content"], str) else item["content"][-1]["text"])[-60:]


async def measure(questions: Sequence[str], *, native: bool) -> Way:
    """Ask every question, one after the other, each in a conversation of its own."""
    turns: list[TurnReport] = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedOpenAI(choose=provider))
        found = answer(200, {"query": "", "results": results_for("news")})
        searxng = await stack.enter_async_context(ScriptedOpenAI(Reply((Wait(SEARCHING), *found.steps))))
        web = await stack.enter_async_context(Web())
        traits = Traits(searches=native)
        model = ServerModel("scripted", Responses(), base_url=server.base_url, traits=traits, search=native)
        stack.push_async_callback(model.close)
        way = EngineSearch(SearXNG(web, searxng.base_url.removesuffix("/v1")))
        tool = web_search_tool(way, SecretRedactor(), results=5, price=0.0, personas=None, reads_pages=False)
        engine = Engine(model=model, persona=_PERSONA, addons=[tool], on_turn=turns.append)
        await stack.enter_async_context(engine)
        for number, question in enumerate(questions):
            channel = RecordingChannel(f"talk:{number}")
            await engine.receive(channel.message(question, author="Mo"), channel)
            await engine.settled()
            assert channel.sent, question
        searches = sum(turn.usage.searches for turn in turns) + len(searxng.requests)
        return Way(len(server.requests), searches, tuple(turns))


def run(quick: bool) -> list[Figure]:
    """The figures, for the table."""
    questions = QUESTIONS[:2] if quick else QUESTIONS
    native, own = (asyncio.run(measure(questions, native=way)) for way in (True, False))
    return [
        Figure(
            name="Searching the web: the provider's own search against Pixi's, for a question",
            goal="told side by side",
            ours=_told(own),
            peers={"native": _told(native)},
            ratios={
                "calls, own / native": f"{own.calls / native.calls:.2f}",
                "tokens read": f"{own.read / native.read:.2f}",
                "time": f"{own.seconds / native.seconds:.2f}",
            },
            note=(
                f"{len(questions)} questions; the scripted provider takes {THINKING:g} s before it writes; "
                f"a search takes {SEARCHING:g} s; tokens are a quarter of the characters sent, and no "
                "prefix is cached"
            ),
        )
    ]


def _told(way: Way) -> str:
    return (
        f"{way.calls:g} calls, {way.searches / len(way.turns):g} searches, {way.read:,.0f} tokens read, "
        f"{way.written:,.0f} written, {way.seconds:.2f} s"
    )
