"""The engine: messages in, replies performed, each conversation by itself."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from types import TracebackType
from typing import Any, Self

from pixi.core.channel import Channel, OpenChannel, OpenQuestion
from pixi.core.errors import ChannelElsewhere, LeaseHeld, PixiError
from pixi.core.events import TurnReport
from pixi.core.llm import Line, Prices, Usage
from pixi.core.message import Abilities, Message
from pixi.core.persona import PaceSetting, Persona
from pixi.core.reading import ProsePolicy
from pixi.core.spending import Budgets, Limits, QuotaUsage, UsageReport, UsageScope
from pixi.engine.capabilities import NO_ABILITIES, capabilities_of
from pixi.engine.context import (
    EngineContext,
    EngineSettings,
    LookUp,
    PersonaResolver,
    PersonaSession,
    Role,
    local_now,
    tell_observers,
)
from pixi.engine.conversation import CLOSE_SECONDS, LiveConversation
from pixi.engine.history import Helper, Summarizer
from pixi.engine.usage import UsageLedger
from pixi.models.model import Model
from pixi.store.kept import LookedBack, TurnRecord
from pixi.store.store import Store
from pixi.toolbox.addon import Addon, Setup, basics
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.foreign import foreign
from pixi.toolbox.tools import Toolbox

_log = logging.getLogger("pixi.engine")

_RESUMED_AT_ONCE = 8  # conversations
_LEASE_PAUSE = 0.2  # seconds between two looks whether a turn elsewhere has ended


class Engine:
    """Answers messages as a persona, on a model.

    Use it as a context manager, or `close` it. It closes the store that it opened itself, and no other;
    the model is its builder's to close.

    Args:
        model: who writes the replies.
        persona: who they are.
        store: where conversations are kept; None: in memory.
        limits: how much one turn may do.
        budgets: how much may be used in a day and a month; None: as much as anybody likes.
        addons: functions that register commands and tools, as `setup` of an addon does.
        prose: what becomes of text outside commands: `auto` sends it as one message if the turn had no
            command at all, `send` sends each stretch of it, `drop` none.
        gather_seconds: how long to wait for more messages before answering the first.
        clock: the local time, which messages are stamped with.
        resolver: gives the role of a conversation by its address, asked anew for each turn; None: `persona`
            on `model`, everywhere.
        pace: how fast messages follow each other, in channels that keep a pace.
        finish_seconds: how old a message may be for what an earlier process left half-done to be finished.
        on_turn: told what each turn came to. Must not block.
        helper: gives the model that writes down what falls out of a talk too long for `model`; None: it is
            forgotten. It is not closed here.
        keep: how many conversations stay in memory while they are idle.
        look_up: gives what the databases of a persona say on a message, for a model that calls no tools;
            None: such a model is told nothing of them.

    Attributes:
        addon: the door through which commands and tools come in, as `setup` of an addon is given it.
        command: decorator that registers `async def name(context, argument)` as an inline command.
        tool: decorator that registers `async def name(context, ...)` as a tool. A persona uses the
            tools that it names.
        commands: the registered commands.
        tools: the registered tools.
        settings: limits, budgets, prose and pace, which may be set anew: turns that begin later go by them.
        on_forget: told of a person who was forgotten, here or by another process, and of a conversation that
            was reset: the id of the person or "", and the addresses of conversations that lost words.
    """

    def __init__(
        self,
        *,
        model: Model,
        persona: Persona,
        store: Store | None = None,
        limits: Limits | None = None,
        budgets: Budgets | None = None,
        addons: Iterable[Setup] = (),
        prose: ProsePolicy = "auto",
        gather_seconds: float = 0.0,
        clock: Callable[[], datetime] = local_now,
        resolver: PersonaResolver | None = None,
        pace: PaceSetting = "persona",
        finish_seconds: float = 900.0,
        on_turn: Callable[[TurnReport], None] | None = None,
        helper: Helper | None = None,
        keep: int = 64,
        look_up: LookUp | None = None,
    ) -> None:
        self.commands = CommandRegistry()
        self.tools = Toolbox()
        self.addon = Addon(self.commands, self.tools)
        self.command = self.addon.command
        self.tool = self.addon.tool
        for setup in (basics, *addons):
            setup(self.addon)
        self.settings = EngineSettings(limits or Limits(), prose, pace, gather_seconds, finish_seconds)
        self.settings.budgets = budgets or Budgets()
        self.on_forget: list[Callable[[str, Sequence[str]], None]] = []
        self._role = Role(persona, model)
        self._resolver = resolver
        self._store = store
        self._owns_store = store is None
        self._clock = clock
        self._on_turn = on_turn
        self._summarizer = Summarizer(helper) if helper else None
        self._keep = keep
        self._look_up = look_up
        self._ledger = None if store is None else self._ledger_in(store)
        self._opening = asyncio.Lock()
        self._shared: EngineContext | None = None  # once the store is open
        self._live: OrderedDict[str, LiveConversation] = OrderedDict()  # in memory; the last used is the last
        self._closed = False
        # Of the store: up to which nothing that was forgotten is held here, and up to which listeners know.
        self._revision = self._told = 0

    @property
    def persona(self) -> Persona:
        """The persona, unless a resolver says otherwise."""
        return self._role.persona

    @persona.setter
    def persona(self, persona: Persona) -> None:
        """Have another answer, in turns that begin from now on."""
        self._role = Role(persona, self._role.model)

    @property
    def model(self) -> Model:
        """The model, unless a resolver says otherwise."""
        return self._role.model

    def check(self, persona: Persona) -> None:
        """Check that a persona could answer here.

        Raises:
            ConfigError: it names a command or a tool that is not registered.
        """
        capabilities_of(persona, self.commands, self.tools, small=False)

    @property
    def talking(self) -> int:
        """Conversations in which a reply is under way."""
        return sum(live.talking for live in self._live.values())

    @property
    def waiting_replies(self) -> int:
        """Conversations in which messages wait to be answered, and no turn was begun yet."""
        return sum(live.waiting for live in self._live.values())

    @property
    def draining(self) -> bool:
        """True if messages are only recorded, for the next process; see `drain`."""
        return self._shared is not None and self._shared.draining

    @property
    def busy(self) -> tuple[str, ...]:
        """The conversations in which something is being done."""
        return tuple(name for name, live in self._live.items() if not live.idle)

    @property
    def asked(self) -> tuple[OpenQuestion, ...]:
        """The questions to people that wait for an answer, the oldest first."""
        return tuple(self._shared.asked.values()) if self._shared else ()

    @property
    def kept(self) -> int:
        """Conversations in memory."""
        return len(self._live)

    def count(self, model: str, usage: Usage, prices: Prices | None) -> None:
        """Record model usage that belongs to no person (summaries, embeddings)."""
        if self._ledger:
            self._ledger.count(model, usage, prices)

    async def bill(self) -> UsageReport:
        """Return everybody's use of today and of this month.

        Raises:
            StoreError: it could not be read.
        """
        ledger = (await self._ready()).ledger
        return await ledger.bill()

    async def turns(self, conversation: str, limit: int) -> tuple[TurnRecord, ...]:
        """Return the last turns of a conversation, oldest first.

        Raises:
            StoreError: they could not be read.
        """
        store = (await self._ready()).store
        return await store.turns(conversation, limit)

    async def look_back(self, turn: int) -> LookedBack | None:
        """Return a turn that is over, with what stands on record of how it was asked; None: there is none.

        Raises:
            StoreError: it could not be read.
        """
        store = (await self._ready()).store
        return await store.look_back(turn)

    async def session(self, conversation: str, abilities: Abilities = NO_ABILITIES) -> PersonaSession:
        """Return the session of a conversation now, ready to answer, in a place of such abilities.

        Raises:
            StoreError: the store could not be opened.
        """
        return (await self._ready()).session(conversation, abilities)

    async def shares(self, payer: UsageScope) -> tuple[QuotaUsage, ...]:
        """Return today's use of all limits of somebody where they are.

        Raises:
            StoreError: it could not be read.
        """
        ledger = (await self._ready()).ledger
        return await ledger.shares(payer)

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record, and answers it beside. A known one is ignored.

        Raises:
            StoreError: it could not be recorded, and will not be answered.
            ConfigError: the persona names a command or a tool that is not registered.
        """
        await (await self._at(message.conversation)).receive(message, channel)

    async def edit(self, conversation: str, message_id: str, text: str) -> None:
        """Take another text of a message. A reply of which nothing was seen is begun again.

        Raises:
            StoreError: it could not be recorded.
        """
        shared = await self._ready()
        if live := self._live.get(conversation):
            await live.change(message_id, text)
        else:
            await shared.store.revise(conversation, message_id, text)

    async def withdraw(self, conversation: str, message_id: str) -> None:
        """Take note that a message was deleted: a reply to it ends at once, or is never begun.

        Raises:
            StoreError: it could not be recorded.
        """
        shared = await self._ready()
        if live := self._live.get(conversation):
            await live.change(message_id, None)
        else:
            await shared.store.withdraw(conversation, message_id)

    async def prefix(self, message: Message) -> tuple[Line, ...]:
        """Return the lines that a model will be shown before this message: a server can read them beforehand.

        Raises:
            StoreError: the conversation could not be read.
            ConfigError: the persona names a command or a tool that is not registered.
        """
        return await (await self._at(message.conversation)).lines_before(message)

    async def settled(self, conversation: str | None = None) -> None:
        """Return when nothing is left to be answered, in this conversation or in all."""

        def known() -> list[LiveConversation]:
            if conversation is None:
                return list(self._live.values())
            return [self._live[conversation]] if conversation in self._live else []

        # Whoever a turn's end woke comes before its report, and what they say then is waited for.
        await asyncio.sleep(0)
        while busy := [live for live in known() if not live.idle]:
            for live in busy:
                await live.settled()
            await asyncio.sleep(0)

    async def stop(self, conversation: str) -> bool:
        """Stop the reply that is being written; what was delivered stands. Returns when its turn ended.

        False: there was none.
        """
        live = self._live.get(conversation)
        return live is not None and await live.cancel()

    async def reset(self, conversation: str) -> None:
        """Forget a conversation: its history, and what still waits for an answer.

        Raises:
            StoreError: it could not be forgotten.
        """
        await (await self._at(conversation)).reset()
        self._let_go_of(conversation)
        self._tell_forgotten("", [conversation])

    async def rewind(self, conversation: str, turn: int) -> None:
        """Take a turn and all after it out of a conversation; a reply that is being written is stopped.

        What was said in them stays on record beside it, see `Store.rewind`.

        Raises:
            LeaseHeld: another process is answering there.
            StoreError: it could not be recorded.
        """
        await (await self._at(conversation)).rewind(turn)

    async def take_back(self, conversation: str) -> tuple[Message, ...]:
        """Take the last messages to the persona out of a conversation, with their answer and all after it.

        A reply that is being written is stopped. Messages that nobody has answered yet are withdrawn; else
        what was said stays on record beside the conversation, see `Store.rewind`.

        Gives the messages, those that one turn answered together, oldest first: to be said again, or not.
        None: nobody has said anything.

        Raises:
            LeaseHeld: another process is answering there.
            StoreError: it could not be recorded.
        """
        return await (await self._at(conversation)).take_back()

    async def branches(self, conversation: str) -> tuple[str, ...]:
        """Return the addresses where turns are kept that were taken out of a conversation, oldest first.

        `turns` tells of them; of those that were forgotten no words are left.

        Raises:
            StoreError: they could not be read.
        """
        store = (await self._ready()).store
        return await store.branches(conversation)

    async def restore(self, conversation: str, branch: str) -> None:
        """Put turns back that were taken out of a conversation, in place of what came since then.

        That is taken out, as by `take_back`, and can be put back in its turn. A reply that is being written
        is stopped.

        Raises:
            LeaseHeld: another process is answering there.
            StoreError: nothing is kept under that address, or it could not be recorded.
        """
        await (await self._at(conversation)).restore(branch)

    async def last_asked(self, conversation: str) -> tuple[Message, ...]:
        """Give the messages that `take_back` would.

        Raises:
            StoreError: they could not be read.
        """
        store = (await self._ready()).store
        _, messages = await store.last_asked(conversation)
        return messages

    async def forget(self, person: str) -> int:
        """Forget a person everywhere, by the id of the author; gives how many conversations changed.

        Raises:
            StoreError: it could not be forgotten.
        """
        shared = await self._ready()
        await asyncio.gather(*(live.part_with(person) for live in self._live.values()))
        changed = await shared.ledger.forget(person)
        self._tell_forgotten(person, changed)
        for name in changed:
            self._let_go_of(name)
            if live := self._live.get(name):
                await live.outdated()
        return len(changed)

    async def forgotten(self, person: str) -> None:
        """Drop the words of a person whom another process has just forgotten.

        Raises:
            StoreError: it could not be found out which conversations lost words.
        """
        shared = await self._ready()
        # From where the listeners know, as `evict` may have found some of it before, or be asked while a
        # later person is forgotten. Replies under way that say such words end before the listeners are told.
        found = await shared.store.forgotten(self._told)
        await self.evict()
        self._told = max(self._told, found.revision)
        self._tell_forgotten(person, found.conversations)

    async def evict(self) -> int:
        """Drop words that were taken out of the store, be it by another process; gives its revision.

        No turn begins with them in any case. Asked now and then, they do not stay in memory either, and a
        reply to somebody who was forgotten ends.

        Raises:
            StoreError: it could not be found out what was taken.
        """
        store = (await self._ready()).store
        found = await store.forgotten(self._revision)
        for name in found.conversations:
            self._let_go_of(name)
            if live := self._live.get(name):
                await live.evict(found.turns)
        self._revision = max(self._revision, found.revision)
        return self._revision

    async def export(self, person: str) -> dict[str, Any]:
        """Export the data of a person, by the id of the author, as plain data.

        Raises:
            StoreError: it could not be read.
        """
        store = (await self._ready()).store
        return await store.export(person)

    async def resume(self, prefix: str, since: float, open_channel: OpenChannel) -> None:
        """Finish what processes left half-done that have ended, and answer what still waits.

        Returns when that is done, which takes as long as the replies do; messages can be received meanwhile.
        What is answered here already is not waited for.

        Args:
            prefix: what the addresses of the conversations begin with.
            since: messages that were sent before, in seconds since the epoch, are not answered by themselves.
            open_channel: builds the channel of an address. Where it is gone, what was half-done is laid
                down as far as it is known, and nothing is answered; where it is another process's,
                everything is left as it is.

        Raises:
            StoreError: it could not be found out what waits.
        """
        shared = await self._ready()
        gate = asyncio.Semaphore(_RESUMED_AT_ONCE)

        async def resume(address: str) -> None:
            if not shared.draining:
                with suppress(ChannelElsewhere):
                    channel = await open_channel(address)
                    await (await self._at(address)).resume(channel, since)

        async def resume_in_turn(address: str) -> None:
            try:
                with foreign(f"resuming {address}"):
                    async with gate:
                        live = self._live.get(address)
                        if live is None or not live.talking:
                            return await resume(address)
                    await resume(address)  # it already waits for the end of a reply, and is not counted
            except PixiError as error:
                _log.warning("conversation %s could not be resumed: %s", address, error)

        addresses = await shared.store.unanswered(prefix, since)
        await asyncio.gather(*(resume_in_turn(address) for address in addresses))

    async def answer(self, conversation: str, since: float, open_channel: OpenChannel) -> None:
        """Have a conversation, and do in it what `resume` does; returns when nothing is left to be done.

        For a process that was given the conversation, as a worker is by a queue: whoever owned it is to be
        taken for dead. What that process still writes there is refused, see `take_over`.

        Raises:
            PixiError: it could not be opened, read or recorded.
        """
        shared = await self._ready()
        channel = await open_channel(conversation)
        if not shared.draining:
            await (await self._at(conversation)).resume(channel, since, take=True)

    async def look(self, conversation: str) -> None:
        """Take what another process has recorded in a conversation in which something is being done here.

        Newer messages, other texts and deletions then mean what they do in `receive`, `edit` and `withdraw`.

        Raises:
            StoreError: it could not be read.
        """
        await self._ready()
        if live := self._live.get(conversation):
            await live.look()

    async def waiting(self, conversation: str) -> tuple[Message, ...]:
        """Give the messages that wait for an answer in a conversation, oldest first.

        Raises:
            StoreError: they could not be read.
        """
        store = (await self._ready()).store
        waiting = await store.waiting(conversation)
        return tuple(message for message in waiting if message.addressed)

    # Conversations that several processes share. Each has one owner at a time.

    async def owned_elsewhere(self, conversation: str) -> bool:
        """Tell whether another living process owns a conversation, be it under way or at rest.

        Raises:
            StoreError: it could not be found out.
        """
        store = (await self._ready()).store
        return await store.owned_elsewhere(conversation)

    async def own(self, conversation: str, *, seconds: float = 0.0) -> None:
        """Own a conversation, so that what other processes are asked there waits for what is asked here.

        Another owner without a turn under way yields at once; the end of a turn is waited for, so long.

        Raises:
            LeaseHeld: the turn has not ended by then.
            StoreError: the conversation could not be read.
        """
        store = (await self._ready()).store
        until = time.monotonic() + seconds
        while True:
            try:
                await store.lease(conversation)
                return
            except LeaseHeld:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_LEASE_PAUSE)

    async def take_over(self, conversation: str) -> None:
        """Own a conversation at once, whatever is under way elsewhere: that turn is cut, and says no more.

        What it left half-done is finished by the next turn, or by `resume`.

        Raises:
            StoreError: it could not be recorded.
        """
        store = (await self._ready()).store
        await store.lease(conversation, take=True)
        if live := self._live.get(conversation):
            await live.outdated()

    # The end.

    async def drain(self, seconds: float) -> None:
        """Take nothing more for answering; later messages are only recorded, for the next process.

        A message that people see being written is finished and posted, what would come after is dropped.
        Replies of which nobody saw anything are requeued: their messages wait in the store. What is not
        done within the time is left on record, and the next process goes on with it.
        """
        if self._shared is None:
            return
        self._shared.draining = True
        conversations = list(self._live.values())
        busy = [live for live in conversations if live.talking]
        for live in conversations:
            live.drain()
        ends = [asyncio.create_task(live.settled()) for live in busy]
        await asyncio.gather(*(live.compaction.cancel() for live in self._live.values()))
        if ends:
            await asyncio.wait(ends, timeout=max(seconds - CLOSE_SECONDS, seconds / 2))
        await self._close_conversations()
        for end in ends:
            end.cancel()

    async def close(self) -> None:
        """End all replies at once and give back what the engine opened. Calling it twice does no harm.

        What is under way is left on record, and the next process goes on with it.
        """
        self._closed = True
        await self._close_conversations()
        if self._ledger:
            await self._ledger.close()
        if self._owns_store and self._store is not None:
            await self._store.close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _let_go_of(self, conversation: str) -> None:
        """Tell the observers that words of a conversation were forgotten."""
        tell_observers(self.settings.observers, {"event": "forgotten", "conversation": conversation})

    def _tell_forgotten(self, person: str, conversations: Sequence[str]) -> None:
        for listener in self.on_forget:
            listener(person, conversations)

    async def _close_conversations(self) -> None:
        """End all replies, for good."""
        await asyncio.gather(*(live.close() for live in self._live.values()))

    async def _at(self, conversation: str) -> LiveConversation:
        """Return the conversation of this address. Idle ones beyond the `keep` used last are let go."""
        shared = await self._ready()
        live = self._live.get(conversation)
        if live is None:
            surplus = max(0, len(self._live) + 1 - self._keep)
            idle = (name for name, each in self._live.items() if each.idle and not each.compaction.busy)
            for name in list(islice(idle, surplus)):
                del self._live[name]
            live = self._live[conversation] = LiveConversation(conversation, shared, self._summarizer)
        self._live.move_to_end(conversation)
        return live

    async def _ready(self) -> EngineContext:
        """Return what conversations share; opens the store first, where none was given."""
        if self._closed:
            raise PixiError("The engine is closed.")
        if (shared := self._shared) is None:
            async with self._opening:
                shared = self._shared or await self._open()
        if self._resolver is None:  # a persona that names what is not there is told of here
            _ = shared.session("").capabilities
        return shared

    async def _open(self) -> EngineContext:
        if self._store is None:
            from pixi.store.sqlite import SqliteStore

            self._store = await SqliteStore.open(":memory:")
        self._ledger = self._ledger or self._ledger_in(self._store)
        self._shared = EngineContext(
            self._store,
            self.commands,
            self.tools,
            self.settings,
            clock=self._clock,
            ledger=self._ledger,
            resolver=self._resolver or (lambda _: self._role),
            on_turn=self._on_turn,
            look_up=self._look_up,
        )
        return self._shared

    def _ledger_in(self, store: Store) -> UsageLedger:
        return UsageLedger(store, lambda: self.settings.budgets, self._clock)
