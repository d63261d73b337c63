"""What the engine's tests play on: an engine with a scripted model and a channel that records."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from pixi.core.events import TurnReport
from pixi.core.llm import AssistantLine, Line, UserLine
from pixi.core.message import Author, Message
from pixi.core.persona import PaceSetting, Persona
from pixi.core.reading import ProsePolicy
from pixi.core.spending import Budgets, Limits
from pixi.engine import Engine
from pixi.engine.compaction import Helper
from pixi.engine.context import Role
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from tests.waiting import until

__all__ = ["PIXI", "Parts", "Scene", "scene", "until"]

PIXI = Persona("Pixi", "You are Pixi, an art student who loves pancakes.", when_broken=("brb, ink spilled",))


@dataclass
class Scene:
    """An engine that runs, and what it talks to."""

    engine: Engine
    model: ScriptedModel
    channel: RecordingChannel

    async def say(self, text: str, *, author: Author | str = "Mo", addressed: bool = True) -> Message:
        """Somebody writes; returns once it is on record."""
        message = self.channel.message(text, author=author, addressed=addressed)
        await self.engine.receive(message, self.channel)
        return message

    async def talk(self, *texts: str) -> None:
        """Somebody writes, and each message is answered before the next."""
        for text in texts:
            await self.say(text)
            await self.engine.settled()

    def history(self, request: int = -1) -> tuple[Line, ...]:
        """The lines after the prefix that the model was asked with."""
        lines = self.model.requests[request].lines
        first = next(number for number, line in enumerate(lines) if isinstance(line, UserLine))
        return lines[first:]

    def replies(self, request: int = -1) -> list[str]:
        """What the model was told that the persona had said."""
        return [line.text for line in self.history(request) if isinstance(line, AssistantLine)]

    def kinds(self) -> list[str]:
        """The names of the events that were shown."""
        return [type(event).__name__ for event in self.channel.events]


class Parts(TypedDict, total=False):
    """What an engine may be given besides."""

    store: Store | None
    limits: Limits | None
    budgets: Budgets | None
    addons: Iterable[Callable[[Addon], object]]
    prose: ProsePolicy
    gather_seconds: float
    resolver: Callable[[str], Role] | None
    pace: PaceSetting
    finish_seconds: float
    on_turn: Callable[[TurnReport], None] | None
    helper: Helper | None
    keep: int


@asynccontextmanager
async def scene(
    model: ScriptedModel,
    *,
    persona: Persona = PIXI,
    channel: RecordingChannel | None = None,
    growing: bool = False,
    clock: Callable[[], datetime] = lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),
    **parts: Unpack[Parts],
) -> AsyncGenerator[Scene, None]:
    """Play; and see at the end that nothing is left running and no stream open."""
    engine = Engine(model=model, persona=persona, clock=clock, **parts)
    before = asyncio.all_tasks()
    async with engine:
        yield Scene(engine, model, channel or RecordingChannel(growing=growing))
    assert model.streaming == 0
    left = asyncio.all_tasks() - before
    assert not left, left
