"""People who talk, and an engine or workers that answer; on one store."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from pixi.app.cluster.queue import ConversationQueue
from pixi.app.cluster.worker import Worker
from pixi.app.service import BotService
from pixi.channels.engine import Intake
from pixi.core.channel import Channel
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.engine import Engine
from pixi.models.breaker import Breakers
from pixi.settings.rules import Rules
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from tests.engine.scene import PIXI
from tests.waiting import until

TALK = "discord:1:2:pixi"


@dataclass
class Service:
    """What a worker needs of a service."""

    engine: Engine
    store: Store
    personas: Mapping[str, Persona] = field(default_factory=lambda: {"pixi": PIXI})
    # What waits for a worker is answered all the same.
    rules: Rules = field(default_factory=lambda: Rules(catch_up_minutes=0))
    breakers: Breakers = field(default_factory=Breakers)

    async def ready_models(self, conversation: str) -> None: ...

    async def read_places(self) -> None: ...


@dataclass
class House:
    """Where people talk: what takes their messages, who answers, and what is kept."""

    intake: Intake
    store: Store
    model: ScriptedModel
    channels: dict[str, RecordingChannel] = field(default_factory=dict)

    def channel(self, conversation: str = TALK) -> RecordingChannel:
        return self.channels.setdefault(conversation, RecordingChannel(conversation=conversation))

    async def say(self, text: str, *, by: str = "7", conversation: str = TALK) -> Message:
        message = Message(
            id=str(len(self.channel(conversation).posts) + time.monotonic_ns()),
            conversation=conversation,
            author=Author(by, f"Person {by}"),
            text=text,
            sent_at=time.time(),
            addressed=True,
        )
        await self.intake.receive(message, self.channel(conversation))
        return message

    def said(self, conversation: str = TALK) -> list[str]:
        return self.channel(conversation).sent

    async def rests(self, conversation: str = TALK) -> None:
        """Wait until nothing waits there, and no turn is under way."""

        async def at_rest() -> bool:
            saved = await self.store.load(conversation)
            return not saved.unfinished and not any(message.addressed for message in saved.waiting)

        await until(at_rest)

    def asked(self, request: int = -1) -> str:
        """The last line that the model was shown."""
        return str(self.model.requests[request].lines[-1])


@asynccontextmanager
async def working(
    engine: Engine, store: Store, queue: ConversationQueue, house: House, *, concurrency: int = 4
) -> AsyncGenerator[Worker, None]:
    async def open_channel(conversation: str) -> Channel | None:
        return house.channel(conversation)

    worker = Worker(
        cast("BotService", Service(engine, store)), queue, open_channel, "discord:1:", lambda *_: None
    )
    running = asyncio.create_task(worker.run(concurrency=concurrency))
    yield worker
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
