"""What the engine's tests play on: an engine with a scripted model and a channel that records."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from pixi.core.channel import Channel
from pixi.core.events import TurnReport
from pixi.core.llm import AssistantLine, Line, ToolCall, UserLine
from pixi.core.message import Author, Message
from pixi.core.persona import PaceSetting, Persona
from pixi.core.reading import ProsePolicy
from pixi.core.spending import Budgets, Limits
from pixi.engine import Engine
from pixi.engine.context import Role
from pixi.engine.history import Helper
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.waiting import until

__all__ = ["PIXI", "Parts", "Scene", "scene", "until"]

PIXI = Persona("Pixi", "You are Pixi, an art student who loves pancakes.", when_broken=("brb, ink spilled",))

ROLL = ToolCall("1", "dice", "{}")
GAMBLER = Persona("Pixi", "x", tools=("dice",), when_broken=("brb",))


class Dice:
    """A tool that counts its rolls, and gives six once it may.

    Attributes:
        rolls: how many were begun.
        may: set for rolls to end.
    """

    def __init__(self, *, held: bool = False, writes: bool = False) -> None:
        self.rolls = 0
        self.may = asyncio.Event()
        if not held:
            self.may.set()
        self._writes = writes

    def setup(self, addon: Addon) -> None:
        @addon.tool(writes=self._writes)
        async def dice(context: Context) -> str:
            """roll"""
            self.rolls += 1
            await self.may.wait()
            return "six"


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

    async def resume(self, channel: Channel | None = None) -> None:
        """Finish what an earlier process left half-done, in this channel or in another one."""

        async def open_channel(address: str) -> Channel | None:
            return channel or self.channel

        await self.engine.resume("test:", 0.0, open_channel)

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
    left = asyncio.all_tasks() - before - {asyncio.current_task()}  # of a fixture, it is another one
    assert not left, left
