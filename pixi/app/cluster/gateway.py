"""A gateway: hears Discord, decides whom messages are for, records them, and has workers answer."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import msgspec
import psycopg

from pixi.app.cluster.queue import ConversationQueue, Signal, open_queue, still_answered
from pixi.app.cluster.shared_rates import SharedRates
from pixi.app.cluster.state import ClusterGauges, gateway_label
from pixi.app.health import LoopMonitor, bot_status, reporting_stalls, unready_store
from pixi.app.metrics import OF_GATEWAYS, Exposition, Values, process_gauges
from pixi.app.models import chosen_models
from pixi.app.personas import PersonaSet, read_personas
from pixi.app.tracing import tracing_heard
from pixi.channels.discord.backend import ALL_ADDRESSES, BotStatus
from pixi.channels.discord.bot import Bot
from pixi.channels.discord.outgoing.approvals import Approvals, SharedQuestion
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import ConfigError, Reporter, StoreError
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.spending import UsageScope
from pixi.engine.context import local_now
from pixi.engine.usage import UsageLedger
from pixi.settings import Settings
from pixi.settings.rules import Rules
from pixi.store.kept import ChannelConfig
from pixi.store.opening import open_store
from pixi.store.postgres.address import read_address, store_error
from pixi.store.rates import Rates
from pixi.store.store import Store

_log = logging.getLogger("pixi.queue")

_CLAIM_SECONDS = 10.0  # in which the gateway before this one may end
_CLAIM_PAUSE = 0.5
_CHECK_SECONDS = 5.0  # between two looks whether the locks are there
_STOP_SECONDS = 5.0  # in which a turn that was told to stop has ended
_STOP_PAUSE = 0.05


class Recorder:
    """The `Intake` of a process that answers nothing itself: records what people do, for workers.

    Everything is put on record first, then its conversation on the queue.

    Args:
        store: open; closed by whoever opened it.
        queue: from which workers take conversations.
        recorded: called for each message that was put on record.

    Attributes:
        draining: the program is about to end.
        hearing: makes a context for each message that is to be answered, while it is recorded and queued.
    """

    def __init__(
        self, store: Store, queue: ConversationQueue, recorded: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._queue = queue
        self._recorded = recorded
        self.draining = False
        self.hearing: Callable[[], AbstractContextManager[None]] = nullcontext

    async def receive(self, message: Message, channel: Channel) -> None:
        """Record a message, and have it answered if it is addressed. A known one is not recorded again.

        Raises:
            StoreError: it could not be recorded or queued, and may be given again.
        """
        with self.hearing() if message.addressed else nullcontext():
            if await self._store.receive(message) is not None:
                self._recorded()
            if message.addressed:
                await self._queue.put(message.conversation)

    async def edit(self, conversation: str, message_id: str, text: str) -> None:
        """Record that a message was edited. A reply of which nothing was seen is begun again.

        Raises:
            StoreError: it could not be recorded.
        """
        if await self._store.revise(conversation, message_id, text):
            await self._queue.signal("look", conversation)

    async def withdraw(self, conversation: str, message_id: str) -> None:
        """Record that a message was deleted: a reply to it ends at once, or is never begun.

        Raises:
            StoreError: it could not be recorded.
        """
        if await self._store.withdraw(conversation, message_id):
            await self._queue.signal("look", conversation)

    async def stop(self, conversation: str) -> bool:
        """Stop the reply that is being written, or have none begun. False: there was none.

        Returns when its turn has ended, or after seconds: its worker may have died.

        Raises:
            StoreError: it could not be read or recorded.
        """
        saved = await self._store.load(conversation, 0)
        if not saved.unfinished:
            waiting = [message.id for message in saved.waiting if message.addressed]
            await self._store.only_hear(conversation, waiting)
            await self._queue.signal("stop", conversation)  # to a worker that is about to begin
            return bool(waiting)
        await self._queue.signal("stop", conversation)
        until = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(_STOP_PAUSE)
            if not (await self._store.load(conversation, 0)).unfinished:
                break
        return True

    async def reset(self, conversation: str) -> None:
        """Forget a conversation. What is being written there has no effect any more, and is stopped.

        Raises:
            StoreError: it could not be forgotten.
        """
        await self._store.reset(conversation)
        await self._queue.signal("stop", conversation)

    async def forget(self, person: str) -> int:
        """Forget a person everywhere: the store tells all processes.

        Raises:
            StoreError: it could not be forgotten.
        """
        return len(await self._store.forget(person))

    async def drain(self, seconds: float) -> None:
        """Note that the program ends. All is on record, and workers go on."""
        self.draining = True


class GatewayService:
    """A `BotBackend` that asks no model and loads no addon. Made by `open_gateway`.

    Attributes:
        engine: records, in place of an engine.
        store: keeps everything, for the workers too.
        reload: reads settings and personas again, as that of `BotService`.
        metrics: what Prometheus is told.
        loop_monitor: how late the event loop was.
        rates: counts requests to Discord, with those of the workers.
    """

    def __init__(
        self,
        settings: Settings,
        persona_set: PersonaSet,
        store: Store,
        queue: ConversationQueue,
        places: Mapping[str, ChannelConfig],
    ) -> None:
        self.metrics = Exposition(OF_GATEWAYS, self._gauges)
        self.loop_monitor = LoopMonitor()
        self.metrics.shared = ClusterGauges(queue).gauges
        self.engine = Recorder(store, queue, lambda: self.metrics.count("pixi_messages_recorded"))
        self.settings = settings
        self.persona_set = persona_set
        self.reload: Callable[[], Awaitable[str]] | None = None
        self.rates = Rates()
        self.rates.shared = SharedRates(queue.session, queue.address).use
        self.store = store
        self._queue = queue
        self._places = dict(places)
        self._bot: Bot | None = None  # which hears, while answers are passed
        self._ledger = UsageLedger(store, lambda: self.settings.limits.budgets, local_now)
        self._began = time.monotonic()

    @property
    def rules(self) -> Rules:
        """The rules of `[discord]`."""
        return self.settings.discord

    @property
    def personas(self) -> Mapping[str, Persona]:
        """All there are, by the names of their files."""
        return self.persona_set.personas

    @property
    def default_persona(self) -> str:
        """The name of the one who answers where nobody chose another."""
        return self.persona_set.default

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that a channel may choose from; the first is the default."""
        return tuple(chosen_models(self.settings))

    def sees(self, channel: str) -> bool:
        """Return whether the settings say that the model of a channel sees pictures."""
        return chosen_models(self.settings).get(self.place(channel).model, self.settings.model).vision

    # Talking.

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record and its conversation on the queue."""
        await self.engine.receive(message, channel)

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        """Put everything on the queue that waits, should that have failed when it came."""
        for conversation in await self.store.unanswered(prefix, still_answered(self.rules)):
            await self._queue.move(conversation)
            await self._queue.put(conversation)

    @asynccontextmanager
    async def heeding(self, bot: Bot) -> AsyncGenerator[None, None]:
        """Follow the signals of other processes until the block is left.

        Workers ask people, and the bot hears the clicks. A person whom one process forgets, all forget.

        Raises:
            StoreError: the queue does not answer.
        """

        async def heed(signal: Signal, text: str) -> None:
            match signal:
                case "forgot":
                    bot.forget(text)
                case "places":
                    self._places = dict(await self.store.places())
                case "look" if not text:  # signals may have been missed, of who was forgotten too
                    bot.forget(None)
                    self._places = dict(await self.store.places())
                case "asked" if bot.approvals is not None:
                    await self._expect(text, bot.approvals)

        self._bot = bot
        async with self._queue.hearing(heed):
            yield

    async def _expect(self, text: str, approvals: Approvals) -> None:
        """Hear the click on a worker's question, and tell what was clicked."""
        try:
            shared = msgspec.json.decode(text, type=SharedQuestion)
        except msgspec.MsgspecError as error:
            _log.warning("a worker's question is not understood; is it of another version? %s", error)
            return
        click = asyncio.create_task(approvals.expect(shared))
        try:
            await self._queue.signal_all("expected", shared.token)
            said = await click
        finally:
            click.cancel()
        if said != "nobody":
            await self._queue.signal_all("said", f"{shared.token} {said}")

    # What people chose for a channel.

    def place(self, channel: str) -> ChannelConfig:
        """Return the choices for a channel; the defaults where nobody chose."""
        return self._places.get(channel, ChannelConfig())

    async def set_place(self, channel: str, place: ChannelConfig) -> None:
        """Keep what somebody chose, and tell the workers."""
        await self.store.set_place(channel, place)
        self._places[channel] = place
        await self._queue.signal_all("places")

    # Records.

    def _gauges(self) -> Mapping[str, Values]:
        return process_gauges(self.loop_monitor, draining=self.engine.draining)

    async def unready(self) -> str:
        """Say why nothing is heard just now, in a line; "" where people are heard."""
        if self.engine.draining:
            return "It is about to end, and hears nothing any more."
        if why := await unready_store(self.store):
            return why
        return "" if self._bot is not None and self._bot.connected else "Discord is not connected."

    async def status(self, payer: UsageScope) -> BotStatus:
        """Return the state of the bot, and the budget that is left for the person who asks."""
        waiting = await self.store.unanswered(ALL_ADDRESSES, still_answered(self.rules))
        return await bot_status(self._ledger, self.store, payer, began=self._began, talking=len(waiting))

    # Settings that change. They are `BotService`'s names, for `pixi.app.reload`.

    async def extend(self, settings: Settings) -> None:
        """Do nothing: what settings want reached, workers reach."""

    async def admit(self, persona_set: PersonaSet, before: PersonaSet | None = None) -> PersonaSet:
        """Take all of them: whether they can answer, workers know."""
        return persona_set

    async def change(self, settings: Settings, persona_set: PersonaSet) -> None:
        """Go by new settings and personas from now on."""
        self.settings, self.persona_set = settings, persona_set


@asynccontextmanager
async def open_gateway(settings: Settings, report: Reporter) -> AsyncGenerator[GatewayService, None]:
    """Open the store and the queue, and read the personas.

    Raises:
        ConfigError: the settings do not hold, or the store cannot be opened.
        StoreError: the queue cannot be used.
    """
    persona_set = await asyncio.to_thread(read_personas, settings)
    for fault in persona_set.faults:
        report(fault)
    store = await open_store(settings.store.url, report)
    try:
        async with open_queue(settings.store.url, settings.discord.queues) as queue:
            gateway = GatewayService(settings, persona_set, store, queue, await store.places())
            async with tracing_heard(settings) as gateway.engine.hearing:
                with reporting_stalls() as gateway.loop_monitor:
                    yield gateway
    finally:
        await store.close()


class ShardClaim:
    """The right to run shards of a bot, which one gateway at a time has: locks that go with its connection.

    Args:
        url: of the store.
        bot: what tells bots apart that share a store; it is not shown.
        shards: their numbers, and how many there are in all; None: all there are.
    """

    def __init__(self, url: str, bot: str, shards: tuple[Sequence[int], int] | None) -> None:
        self._address = read_address(url)
        self._all = f"{self._address.schema}:{bot}"
        self._shards = shards
        self._label = gateway_label(self._address, bot, shards)
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def take(self) -> None:
        """Take the locks; another gateway may take some seconds to end.

        Raises:
            ConfigError: another gateway runs one of the shards.
            StoreError: the server does not answer.
        """
        until = time.monotonic() + _CLAIM_SECONDS
        while (taken := await self._try()) is not None:
            await self.release()
            if time.monotonic() >= until:
                raise ConfigError(
                    f"Another gateway runs this bot{taken}: end it, or give this one other shards, "
                    "as in --shards 0-3/8."
                )
            await asyncio.sleep(_CLAIM_PAUSE)

    async def _try(self) -> str | None:
        """Try once; gives what another one holds, None: all is ours."""
        try:
            if (taken := await self._try_locks()) is None and self._connection is not None:
                named = "SELECT set_config('application_name', %s, false)"  # for whoever asks who runs them
                await self._connection.execute(named, (self._label,))
            return taken
        except psycopg.Error as error:
            await self.release()
            raise store_error(error, self._address) from None

    async def _try_locks(self) -> str | None:
        self._connection = await psycopg.AsyncConnection.connect(self._address.conninfo, autocommit=True)
        if self._shards is None:
            return None if await self._lock("pg_try_advisory_lock", self._all) else ""
        if not await self._lock("pg_try_advisory_lock_shared", self._all):
            return ", with all shards"
        ids, count = self._shards
        if (other := await self._other_count(count)) is not None:
            return f", with shards of {other}"  # which are other parts of the same guilds
        for number in ids:
            if not await self._lock("pg_try_advisory_lock", f"{self._all}:{number}/{count}"):
                return f", with shard {number} of {count}"
        return None

    async def _other_count(self, count: int) -> int | None:
        """Note how many shards there are in all; return the number of another gateway that differs."""
        assert self._connection is not None
        name = f"pixi:{self._all}:counts"
        shown = "SELECT pg_advisory_lock_shared(hashtext(%s), %s)"
        await self._connection.execute(shown, (name, count))
        asked = (
            "SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND classid = hashtext(%s)::oid AND objid <> %s::int::oid LIMIT 1"
        )
        found = await (await self._connection.execute(asked, (name, count))).fetchone()
        return None if found is None else int(str(found[0]))

    async def _lock(self, how: str, name: str) -> bool:
        assert self._connection is not None
        asked = f"SELECT {how}(hashtextextended(%s, 0))".encode()
        found = await (await self._connection.execute(asked, (f"pixi:{name}",))).fetchone()
        return found == (True,)

    async def keep(self) -> None:
        """Keep the locks until cancelled; where the connection is lost, take them again.

        Raises:
            ConfigError: another gateway was quicker.
        """
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                if self._connection is None:
                    await self.take()
                else:
                    await self._connection.execute("SELECT 1")
            except (psycopg.Error, StoreError):  # the server is away, and nobody else can take them
                await self.release()

    async def release(self) -> None:
        """Give the locks back."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
