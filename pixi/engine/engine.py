"""The engine: messages in, replies performed, each conversation by itself."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self

from pixi.channels.channel import Channel
from pixi.core.errors import PixiError
from pixi.core.limits import Limits
from pixi.core.lines import Line
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.reading import ProsePolicy
from pixi.engine.conversation import LiveConversation
from pixi.engine.stage import Stage, local_now
from pixi.models.model import Model
from pixi.store.store import Store
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

_KEPT = 64  # idle conversations whose history stays in memory

Setup = Callable[[Addon], object]


class Engine:
    """Answers messages as a persona, on a model.

    Use it as a context manager, or `close` it. It closes the store that it opened itself, and no other;
    the model is its builder's to close.

    Args:
        model: who writes the replies.
        persona: who they are.
        store: where conversations are kept; None: in memory.
        limits: how much one turn may do.
        addons: functions that register commands and tools, as `setup` of an addon does.
        prose: what becomes of text outside commands: `auto` sends it as one message if the turn had no
            command at all, `send` sends each stretch of it, `drop` none.
        gather_seconds: how long to wait for more messages before answering the first.
        clock: the local time, which messages are stamped with.

    Attributes:
        command: decorator that registers `async def name(context, argument)` as an inline command.
        tool: decorator that registers `async def name(context, ...)` as a tool. A persona uses the
            tools that it names.
        commands: the registered commands.
        tools: the registered tools.
    """

    def __init__(
        self,
        *,
        model: Model,
        persona: Persona,
        store: Store | None = None,
        limits: Limits | None = None,
        addons: Iterable[Setup] = (),
        prose: ProsePolicy = "auto",
        gather_seconds: float = 0.0,
        clock: Callable[[], datetime] = local_now,
    ) -> None:
        from pixi.addons import basics

        self.commands = CommandRegistry()
        self.tools = Toolbox()
        addon = Addon(self.commands, self.tools)
        self.command = addon.command
        self.tool = addon.tool
        for setup in (basics.setup, *addons):
            setup(addon)
        self._model = model
        self._persona = persona
        self._store = store
        self._owns_store = store is None
        self._limits = limits or Limits()
        self._prose: ProsePolicy = prose
        self._gather_seconds = gather_seconds
        self._clock = clock
        self._opening = asyncio.Lock()
        self._stage: Stage | None = None
        self._conversations: OrderedDict[str, LiveConversation] = OrderedDict()
        self._closed = False

    @property
    def persona(self) -> Persona:
        """Who answers."""
        return self._persona

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record, and answers it beside. A known one is ignored.

        Raises:
            StoreError: it could not be recorded, and will not be answered.
            ConfigError: the persona names a command or a tool that is not registered.
        """
        stage = await self._ready()
        await self._conversation(message.conversation, stage).receive(message, channel)

    async def prefix(self, message: Message) -> tuple[Line, ...]:
        """The lines that a model will be shown before this message: a server can read them beforehand.

        Raises:
            StoreError: the conversation could not be read.
            ConfigError: the persona names a command or a tool that is not registered.
        """
        stage = await self._ready()
        return await self._conversation(message.conversation, stage).lines_before(message)

    async def settled(self, conversation: str | None = None) -> None:
        """Return when nothing is left to be answered, in this conversation or in all."""
        while busy := [live for live in self._live(conversation) if not live.idle]:
            for live in busy:
                await live.settled()
            await asyncio.sleep(0)

    async def stop(self, conversation: str) -> None:
        """Stop the reply that is being written; what was delivered stands. Returns when its turn ended."""
        for live in self._live(conversation):
            await live.stop()

    async def reset(self, conversation: str) -> None:
        """Forget a conversation: its history, and what still waits for an answer.

        Raises:
            StoreError: it could not be forgotten.
        """
        await self._conversation(conversation, await self._ready()).reset()

    async def close(self) -> None:
        """Stop all replies and give back what the engine opened. Calling it twice does no harm."""
        self._closed = True
        await asyncio.gather(*(live.close() for live in self._live(None)))
        self._conversations.clear()
        if self._owns_store and self._store is not None:
            await self._store.close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ready(self) -> Stage:
        """What conversations share; opens the store first, where none was given."""
        if self._closed:
            raise PixiError("The engine is closed.")
        if self._stage is None:
            async with self._opening:
                await self._set_the_stage()
        assert self._stage is not None
        _ = self._stage.repertoire  # a persona that names what is not there is told of here
        return self._stage

    async def _set_the_stage(self) -> None:
        if self._stage is not None:
            return  # another message was quicker
        if self._store is None:
            from pixi.store.sqlite import SqliteStore

            self._store = await SqliteStore.open(":memory:")
        self._stage = Stage(
            model=self._model,
            persona=self._persona,
            store=self._store,
            commands=self.commands,
            toolbox=self.tools,
            limits=self._limits,
            prose=self._prose,
            gather_seconds=self._gather_seconds,
            clock=self._clock,
        )

    def _conversation(self, name: str, stage: Stage) -> LiveConversation:
        live = self._conversations.get(name)
        if live is None:
            self._let_go()
            live = self._conversations[name] = LiveConversation(name, stage)
        self._conversations.move_to_end(name)
        return live

    def _let_go(self) -> None:
        """Keep the idle conversations that were used last; the others are read again when needed."""
        surplus = len(self._conversations) + 1 - _KEPT
        if surplus > 0:
            idle = [name for name, live in self._conversations.items() if live.idle][:surplus]
            for name in idle:
                del self._conversations[name]

    def _live(self, conversation: str | None) -> list[LiveConversation]:
        if conversation is None:
            return list(self._conversations.values())
        live = self._conversations.get(conversation)
        return [] if live is None else [live]
