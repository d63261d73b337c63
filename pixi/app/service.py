"""The service behind Discord and HTTP: the engine, the store, the personas and the models."""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from pixi.addons.loading import AddonContents
from pixi.app.addons import load_memory, open_addons, tell_of_unnamed
from pixi.app.building import configure_engine, import_parts, make_engine, working_beside
from pixi.app.databases import DatabasePool
from pixi.app.health import LoopMonitor, Vitals, bot_status, reporting_stalls, unready_store, vitals_of
from pixi.app.integrations import Integrations
from pixi.app.live_hub import LiveHub
from pixi.app.logs import log_turn
from pixi.app.metrics import Metrics
from pixi.app.models import ModelPool, chosen_models, wants_native
from pixi.app.personas import PersonaSet, fitting, read_personas
from pixi.app.retention import evict_forgotten, forget_daily
from pixi.app.slot_saver import saved_slot
from pixi.app.tracing import tracing
from pixi.channels.discord.backend import ALL_ADDRESSES, BotStatus, ConversationAddress, parse_address
from pixi.core.channel import Channel, OpenChannel
from pixi.core.errors import PixiError, Reporter, silent
from pixi.core.llm import Prices, Request, SystemLine, Usage, UserLine
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.core.routes import AddonRoute
from pixi.core.spending import UsageScope
from pixi.engine.context import Role
from pixi.engine.engine import Engine
from pixi.models.breaker import Breakers
from pixi.models.model import Model, ask
from pixi.settings import Settings
from pixi.settings.rules import Rules
from pixi.settings.secret import ambient_secrets, secrets_in
from pixi.store.kept import ChannelConfig
from pixi.store.opening import open_store
from pixi.store.store import Store

_TASK = "You do small tasks for a chat program. Answer with what is asked for, and nothing else."
_TASK_CHARACTERS = 4_800  # of an answer; more is not read to its end
_ALL_TALKS = "all"  # a bot's model has one slot: what is kept is the talk that it wrote in last


class BotService:
    """A `BotBackend` for Discord and an `HttpBackend`, made by `open_service`; `change` applies new settings.

    Args:
        settings: what the operator wants.
        persona_set: the personas, and what is wrong with files of them.
        models: the default one is open.
        store: open; closed by whoever opened it.
        places: what people chose, as the store has it.
        engine: answers.
        library: holds the databases that personas name.
        integrations: what personas can reach beyond the chat.

    Attributes:
        version: of Pixi.
        routes: what addons answer over HTTP.
        breakers: of the servers that models run on.
        hub: where what happens comes together, for pages that look on.
        metrics: what Prometheus is told, once they are begun.
        loop_monitor: how late the event loop was.
        reload: reads settings and personas again, and gives why nothing changed, or ""; None: nobody watches
            the files.
        closing: what is put on it is closed before the service is.
        mask: hides secrets of all settings, of addons and of the environment, in what tools give and in what
            operators are shown.
    """

    def __init__(
        self,
        settings: Settings,
        persona_set: PersonaSet,
        *,
        models: ModelPool,
        store: Store,
        places: Mapping[str, ChannelConfig],
        engine: Engine,
        library: DatabasePool,
        integrations: Integrations,
    ) -> None:
        self.engine = engine
        self.library = library
        self.integrations = integrations
        self.settings = settings
        self.persona_set = persona_set
        self.routes: tuple[AddonRoute, ...] = ()
        self.hub = LiveHub(engine.tools.mask)
        self.breakers = models.breakers
        self.metrics = Metrics(engine, lambda: self.loop_monitor, lambda: models.breakers.open)
        self.loop_monitor = LoopMonitor()
        self.reload: Callable[[], Awaitable[str]] | None = None
        self.closing = AsyncExitStack()
        self.mask = engine.tools.mask
        self.mask.learn(ambient_secrets() | secrets_in(settings))
        engine.settings.finish_seconds = settings.discord.catch_up_minutes * 60
        self._models = models
        self.store = store
        self._places = dict(places)
        self.version = version("pixi-persona")
        self._began = time.monotonic()

    @property
    def rules(self) -> Rules:
        """The operator's rules."""
        return self.settings.discord

    @property
    def personas(self) -> Mapping[str, Persona]:
        """The personas, by the names of their files."""
        return self.persona_set.personas

    @property
    def default_persona(self) -> str:
        """The name of the one who answers where nobody chose another."""
        return self.persona_set.default

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that a channel may choose from; the first is the default."""
        return self._models.names

    @property
    def model(self) -> Model:
        """The one who answers where nobody chose another."""
        return self._models.default

    def sees(self, channel: str) -> bool:
        """Return whether the model that writes in that channel can be shown pictures."""
        return self._models.get(self.place(channel).model).traits.vision

    def role(self, conversation: str) -> Role:
        """Return the persona of a conversation, and its model.

        The default persona stands in for one whose file is gone. Elsewhere than on Discord
        its name stands last in the address.
        """
        if conversation.startswith(ALL_ADDRESSES):
            name = parse_address(conversation).persona
        else:
            name = conversation.split(":", 2)[-1]
        persona = self.persona_set.personas.get(name) or self.persona_set.personas[self.persona_set.default]
        return Role(persona, self._models.get(self.place(self.chosen_at(conversation)).model))

    async def admit(self, persona_set: PersonaSet, before: PersonaSet | None = None) -> PersonaSet:
        """Return those of a set who could answer here, once the databases that they name are open.

        Args:
            before: who there was until now: a persona that could not answer stays as it was.

        Raises:
            PixiError: the default persona could not answer, or what they name cannot be opened.
        """
        await self.library.want(name for each in persona_set.personas.values() for name in each.databases)
        self.library.register(self.engine.addon)

        def check(persona: Persona) -> None:
            self.library.check(persona)
            self.engine.check(persona)

        return fitting(persona_set, check, before)

    async def extend(self, settings: Settings) -> None:
        """Open the integrations that new settings want, so that personas can name their tools.

        Raises:
            ConfigError: they cannot hold.
        """
        self.mask.learn(secrets_in(settings))
        await self.integrations.apply(settings)

    async def change(self, settings: Settings, persona_set: PersonaSet) -> None:
        """Go by new settings and personas from now on; turns under way end as they began.

        Raises:
            PixiError: a model that is to answer or to read cannot be opened. Then everything stays as it was.
        """
        before = self.settings
        await self._exchange_models(settings)
        try:
            await self.library.change(settings, self._models.default)
        except PixiError:
            await self._exchange_models(before)
            raise
        self.settings, self.persona_set = settings, persona_set
        configure_engine(self.engine, settings)
        self.engine.settings.finish_seconds = self.rules.catch_up_minutes * 60

    async def _exchange_models(self, settings: Settings) -> None:
        native = wants_native(settings)
        await self._models.exchange(chosen_models(settings), settings.limits.seconds, native=native)

    # Talking.

    async def receive(self, message: Message, channel: Channel) -> None:
        """Take a message; returns once it is on record. One that is known already is ignored."""
        await self.ready_models(message.conversation)
        await self.engine.receive(message, channel)

    async def helper_answer(self, prompt: str) -> str | None:
        """Answer a task of a program by the helper model; None: there is none but the persona's own.

        What it uses is recorded as that of `task (MODEL)`.

        Raises:
            PixiError: it could not answer.
        """
        if "helper_model.name" not in self.settings.sources:
            return None
        model = await self.library.helper()
        if model.traits.small:
            return None

        def count(name: str, usage: Usage, prices: Prices | None) -> None:
            self.engine.count(f"task ({name})", usage, prices)

        request = Request((SystemLine(_TASK), UserLine(prompt)))
        return (await ask(model, request, count, longest=_TASK_CHARACTERS)).strip() or None

    def model_of(self, conversation: str, /) -> str:
        """Return the name of the model that writes in a conversation."""
        return self.role(conversation).model.name

    async def resume(self, prefix: str, open_channel: OpenChannel) -> None:
        """Finish what processes left half-done that have ended, and answer what still waits."""
        for place in list(self._places.values()):
            await self._models.want(place.model)
        since = time.time() - self.rules.catch_up_minutes * 60
        await self.engine.resume(prefix, since, open_channel)

    # Being watched.

    def vitals(self) -> Vitals:
        """Return the figures of the process. To be called on the loop that the service runs on."""
        up = time.monotonic() - self._began
        return vitals_of(self.engine, self.loop_monitor, version=self.version, up_seconds=up)

    async def unready(self) -> str:
        """Say why no reply can be begun just now, in a line; "" where one can.

        The model is not asked for this: its server is away while the breaker keeps requests from it.
        """
        if self.engine.draining:
            return "It is about to end: what is under way is finished, and nothing new is begun."
        if why := await unready_store(self.store):
            return why
        return "" if self._models.answers else "The model's server does not answer."

    async def scraped(self, accept: str, /) -> tuple[bytes, str]:
        """Return the metrics in the form that an `Accept` header asks for, and the type of that form."""
        return await self.metrics.rendered(accept)

    # What people chose for a channel, or for one talk elsewhere.

    def chosen_at(self, conversation: str) -> str:
        """Return the address that people choose a model for: on Discord a channel, else the talk itself."""
        if not conversation.startswith(ALL_ADDRESSES):
            return conversation
        address = parse_address(conversation)
        return str(ConversationAddress(address.bot, address.channel))

    def place(self, channel: str) -> ChannelConfig:
        """Return the settings of a channel; the default ones where nobody chose."""
        return self._places.get(channel, ChannelConfig())

    async def set_place(self, channel: str, place: ChannelConfig) -> None:
        """Keep what somebody chose for a channel."""
        await self.store.set_place(channel, place)
        if place == ChannelConfig():
            self._places.pop(channel, None)
        else:
            self._places[channel] = place
        await self._models.want(place.model)

    async def ready_models(self, conversation: str) -> None:
        """See that the model is open that was chosen for a conversation."""
        await self._models.want(self.place(self.chosen_at(conversation)).model)

    async def read_places(self) -> None:
        """Go by what people chose in another process.

        Raises:
            StoreError: it could not be read.
        """
        self._places = await self.store.places()

    # Records.

    async def overspent(self) -> str:
        """Say that the month's dollars are spent, for the operator; "" while they are not."""
        bill = await self.engine.bill()
        if bill.month_dollars is None or bill.month.cost < bill.month_dollars:
            return ""
        return f"The ${bill.month_dollars:,.2f} of this month are spent: raise month_dollars to go on."

    async def status(self, payer: UsageScope) -> BotStatus:
        """Return the state of the program, and what is left for whoever asks."""
        engine = self.engine
        return await bot_status(engine, self.store, payer, began=self._began, talking=engine.talking)


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    part: str = "",
    addons: Sequence[Path] = (),
    progress: Reporter = silent,
    report: Reporter = silent,
) -> AsyncGenerator[BotService, None]:
    """Build what answers for a bot, with all personas and models; close all in reverse order at the end.

    Args:
        settings: what the operator wants.
        part: the command that runs, as others see it among the processes on one PostgreSQL server.
        addons: files of addons besides those of the settings.
        progress: told what takes long, and "" when nothing does any more.
        report: told what the operator should know, in one line: an addon that was left out.

    Raises:
        ConfigError: the settings, the personas and the parts do not fit together, or one of `addons` fails.
        PixiError: a part cannot be opened.
    """
    progress("starting")
    await import_parts(settings.model)
    persona_set = await asyncio.to_thread(read_personas, settings)
    async with AsyncExitStack() as stack:
        store = await open_store(settings.store.url, report, part=part)
        stack.push_async_callback(store.close)
        breakers = Breakers()
        native, seconds = wants_native(settings), settings.limits.seconds
        models = ModelPool(chosen_models(settings), seconds, progress, breakers, native=native)
        stack.push_async_callback(models.close)
        await models.open_default()
        slot_saver = await stack.enter_async_context(
            saved_slot(settings.store.url, store, lambda: models.default, _ALL_TALKS)
        )

        # The service comes after: who can answer follows from the commands and tools of the engine.
        library = DatabasePool(settings, models.default, follow=True, progress=progress, breakers=breakers)
        engine = make_engine(
            settings,
            Role(persona_set.personas[persona_set.default], models.default),
            store,
            library,
            resolver=lambda conversation: service.role(conversation),  # noqa: PLW0108 - it is made below
            on_turn=log_turn,
        )
        brought, loaded = await open_addons(settings, addons, engine, store, stack, report=report)
        await load_memory(store, engine)
        stack.push_async_callback(library.close)
        integrations = Integrations(engine.addon, engine.tools, engine.settings, library, report)
        stack.push_async_callback(integrations.close)
        await integrations.apply(settings)
        service = BotService(
            settings,
            persona_set,
            models=models,
            store=store,
            places=await store.places(),
            engine=engine,
            library=library,
            integrations=integrations,
        )
        service.routes = tuple(brought.routes)
        await _admit(service, persona_set, loaded, report)
        await stack.enter_async_context(tracing(engine, lambda: service.settings))
        await stack.enter_async_context(engine)
        forgetting = forget_daily(store, lambda: service.settings.store.keep_days)
        await stack.enter_async_context(
            working_beside(evict_forgotten(engine, slot_saver.follow), forgetting)
        )
        progress("")
        gc.freeze()  # what was imported and built lives as long as the process: no garbage to be looked for
        service.loop_monitor = stack.enter_context(reporting_stalls())
        async with service.closing:
            yield service


async def _admit(
    service: BotService, persona_set: PersonaSet, loaded: Sequence[AddonContents], report: Reporter
) -> None:
    """Let personas answer; tell of those that cannot, and of what addons brought that no persona names."""
    service.persona_set = await service.admit(persona_set)
    for fault in service.persona_set.faults:
        report(fault)
    for each in loaded:
        tell_of_unnamed(each, service.persona_set.personas.values(), service.engine, report)
