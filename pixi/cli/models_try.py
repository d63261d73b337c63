"""`pixi-persona models try`: a model answers five lines as a persona, and what it made of them is shown."""

import asyncio
import io
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from pixi.channels.terminal.lines import LinesChannel, seat
from pixi.cli.exits import FAILED, FINE
from pixi.core.errors import ConfigError, Reporter
from pixi.core.events import Noted, Reacted, Sent, TurnEnded, TurnEvent
from pixi.core.language import CommandEnded, CommandStream, Prose
from pixi.core.llm import Delta, Finished, Request, Text, Usage
from pixi.core.spending import Count
from pixi.core.untrusted import json_line
from pixi.models.model import Model, Traits

if TYPE_CHECKING:
    from pixi.engine.engine import Engine

LINES = (
    "hi! who are you?",
    "my cat is called Biscuit, and she just learned to open the fridge",
    "ugh, I failed my driving test today. third time",
    "are you a real person?",
    "what should we do on a rainy sunday?",
)
"""A greeting, something to remember, something sad, an honest question, an open one."""


@dataclass(slots=True)
class WatchedModel:
    """A model that is watched while it writes.

    Attributes:
        text: what it wrote since `begin`, as it wrote it.
        first_seconds: from the question to the first word; None: there was none yet.
        writing_seconds: from the first word to the end, all requests together.
        usage: the tokens that it counted.
        progress: told what somebody waits for, and "" from the first word on.
    """

    model: Model
    progress: Reporter
    text: str = ""
    first_seconds: float | None = None
    writing_seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def begin(self) -> None:
        """Forget what was written for the line before, and wait for the first word."""
        self.progress("waiting for the first word")
        self.text, self.first_seconds, self.writing_seconds, self.usage = "", None, 0.0, Usage()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def traits(self) -> Traits:
        """Traits of the model, for the prompt."""
        return self.model.traits

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask the model, and watch its reply pass."""
        loop = asyncio.get_running_loop()
        asked, began = loop.time(), 0.0
        async with aclosing(self.model.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Text):
                    began = began or loop.time()
                    if self.first_seconds is None:
                        self.first_seconds = began - asked
                        self.progress("")
                    self.text += delta.text
                elif isinstance(delta, Finished):
                    self.usage += delta.usage
                    self.writing_seconds += loop.time() - began if began else 0.0
                yield delta

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one line.

    Attributes:
        events: what was done: notes, messages, reactions.
        valid: the reply was commands from its beginning to its end, each of them whole.
        first_seconds: until the first word; None: none came.
        tokens_per_second: while it wrote; None where the server counts no tokens, or wrote too few to tell.
    """

    line: str
    events: tuple[TurnEvent, ...]
    valid: bool
    first_seconds: float | None
    tokens_per_second: float | None

    def as_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "line": self.line,
            **_told_by_kind(self.events),
            "valid": self.valid,
            "first_seconds": _rounded(self.first_seconds),
            "tokens_per_second": _rounded(self.tokens_per_second),
        }


def _told_by_kind(events: Sequence[TurnEvent]) -> dict[str, list[str]]:
    return {
        "notes": [event.text for event in events if isinstance(event, Noted)],
        "sent": [event.text for event in events if isinstance(event, Sent)],
        "reactions": [event.emoji for event in events if isinstance(event, Reacted)],
    }


@dataclass(slots=True)
class _TryChannel(LinesChannel):
    """Prints as a pipe does, and keeps what happened."""

    events: list[TurnEvent] = field(default_factory=list)

    def show(self, event: TurnEvent) -> None:
        """Print what is to be seen of an event, and keep it."""
        self.events.append(event)
        LinesChannel.show(self, event)


async def attempt(
    config: Path | None, name: str, base_url: str | None, persona: str | None, *, as_json: bool
) -> int:
    """Have a model answer `LINES`, and print what it did; 1 where it did not answer all of them.

    Raises:
        ConfigError: there is no such model, or it cannot be asked.
        PixiError: it cannot be opened.
    """
    from pixi.app import find_persona, open_engine
    from pixi.cli.console import Printer, spinner
    from pixi.cli.store_access import recorded_usage
    from pixi.settings import load

    overrides, is_found = await _overrides(name, base_url)
    with tempfile.TemporaryDirectory(prefix="pixi-try-") as folder:
        own = load(config, overrides={**overrides, "persona.default": persona})
        model = replace(own.model, fallback=())  # no other answers in its place
        if is_found:  # any program may listen on a known port, and this one listed its models without a key
            model = replace(model, api_key=None)
        settings = replace(own, model=model, store=replace(own.store, url=f"sqlite:///{folder}/try.db"))
        # Neither databases nor tools: what is tried is the model, and nothing shall be indexed or looked up.
        who = structs.replace(find_persona(settings), databases=(), tools=())
        watched: list[WatchedModel] = []

        printer = Printer(own)
        async with recorded_usage(own) as count:
            with spinner() as progress:

                def watch(model: Model) -> Model:
                    watched.append(WatchedModel(model, progress))
                    return watched[0]

                async with open_engine(
                    settings,
                    who,
                    progress=printer.redacted(progress),
                    report=printer.complain,
                    remark=printer.complain,
                    watch=watch,
                ) as engine:
                    outcomes = await _answers(engine, watched[0], count, as_json=as_json)
    _sum_up(watched[0].name, outcomes, as_json=as_json)
    return FINE if all(outcome.first_seconds is not None for outcome in outcomes) else FAILED


async def _overrides(name: str, base_url: str | None) -> tuple[dict[str, str | None], bool]:
    """Return the settings that choose the model of a name, and whether its server was found, named by nobody.

    Raises:
        ConfigError: it is of the catalogue, and not here yet.
    """
    from pixi.models.hub import find_in_catalogue
    from pixi.models.machine import find_servers, holders_of

    if base_url or name == "local" or name.endswith(".gguf"):
        return {"model.name": name, "model.base_url": base_url}, False
    if model := find_in_catalogue(name):
        if not model.fetched:
            raise ConfigError(f"{model.name} is not here yet. Run: pixi-persona models get {model.name}")
        return {"model.name": str(model.path)}, False
    for server, listed in holders_of(name, await find_servers()):
        return {"model.name": listed, "model.base_url": server.base_url}, True
    return {"model.name": name}, False  # at the server of the settings


async def _answers(engine: "Engine", watched: WatchedModel, count: Count, *, as_json: bool) -> list[Outcome]:
    """Say the lines one after the other; print each with what came of it. `count`: told what each used."""
    place = seat(engine.persona.name, "somebody")
    names = engine.commands.names()
    outcomes = []
    for line in LINES:
        channel = _TryChannel(io.StringIO() if as_json else sys.stdout, sys.stderr, notes=True)
        if not as_json:
            print(f"> {line}", flush=True)
        watched.begin()
        channel.hear()
        await engine.receive(place.message(line), channel)
        await engine.settled(place.conversation)
        watched.progress("")
        wrote = watched.first_seconds is not None  # else what was said is the persona's excuse
        tokens, seconds = watched.usage.completion_tokens, watched.writing_seconds
        outcome = Outcome(
            line,
            tuple(event for event in channel.events if isinstance(event, Noted | Sent | Reacted) and wrote),
            _finished(channel.events) and is_valid(watched.text, names),
            watched.first_seconds,
            (tokens - 1) / seconds if tokens > 1 and seconds > 0 else None,
        )
        outcomes.append(outcome)
        count(watched.name, watched.usage, watched.traits.prices)
        print(json_line(outcome.as_json()) if as_json else f"  {_told(outcome)}\n", flush=True)
        if not wrote:
            break  # it would fail four times more
    return outcomes


def is_valid(reply: str, names: Mapping[str, Sequence[str]]) -> bool:
    """Return True if a reply keeps to the command language: whole commands, and nothing outside them."""
    stream = CommandStream(names)
    events = [*stream.feed(reply), *stream.close()]
    ended = [event for event in events if isinstance(event, CommandEnded)]
    outside = any(isinstance(event, Prose) and event.text.strip() for event in events)
    return bool(ended) and not outside and all(event.complete for event in ended)


def _finished(events: Sequence[TurnEvent]) -> bool:
    return any(isinstance(event, TurnEnded) and event.finish in ("stop", "length") for event in events)


def _told(outcome: Outcome) -> str:
    """Return a line for what an answer took, and whether it kept to the language."""
    parts = [
        "no word came" if outcome.first_seconds is None else f"first word {outcome.first_seconds:.1f} s",
        "" if outcome.tokens_per_second is None else f"{outcome.tokens_per_second:.1f} tokens/s",
        "valid" if outcome.valid else "not valid",
    ]
    return " · ".join(part for part in parts if part)


def _sum_up(name: str, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    first = _mean([each.first_seconds for each in outcomes])
    speed = _mean([each.tokens_per_second for each in outcomes])
    valid = sum(each.valid for each in outcomes)
    by_kind = _told_by_kind([event for each in outcomes for event in each.events])
    kinds = {kind: len(told) for kind, told in by_kind.items()}
    if as_json:
        told = {"model": name, "valid": valid, "of": len(LINES), **kinds}
        print(json_line({**told, "first_seconds": _rounded(first), "tokens_per_second": _rounded(speed)}))
        return
    from pixi.core.untrusted import escaped_line

    print(
        f"{escaped_line(name)}: {valid} of {len(LINES)} replies valid, {kinds['notes']} notes, "
        f"{kinds['sent']} messages, {kinds['reactions']} reactions"
    )
    if first is not None:
        pace = f", then {speed:.1f} tokens/s" if speed is not None else ""
        print(f"first word after {first:.1f} s{pace}, on average")


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 2)
