"""Builds what answers from the settings, and closes it again in reverse order."""

import asyncio
import gc
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.app.addons import load_memory, open_addons, tell_of_unnamed
from pixi.app.integrations import Integrations
from pixi.app.models import open_model, wants_native
from pixi.app.personas import PersonaFollower, PersonaSet, find_persona
from pixi.app.retention import evict_forgotten, forget_daily
from pixi.app.slot_saver import local_model, saved_slot
from pixi.core.control_words import broken
from pixi.core.errors import ModelError, Reporter, silent
from pixi.core.events import TurnReport
from pixi.core.llm import Line
from pixi.core.message import Message
from pixi.core.persona import Persona
from pixi.models.breaker import Breakers
from pixi.settings import ModelSettings, Settings, load
from pixi.settings.model_choice import runs_here
from pixi.settings.secret import secrets_in

if TYPE_CHECKING:
    from pixi.addons.loading import AddonContents
    from pixi.app.databases import DatabasePool
    from pixi.app.service import BotService
    from pixi.engine.context import PersonaResolver, Role
    from pixi.engine.engine import Engine
    from pixi.models.model import Model
    from pixi.store.store import Store
    from pixi.toolbox.addon import Setup

_log = logging.getLogger("pixi")

_ALL_TALKS = "all"  # a bot's model has one slot: what is kept is the talk that it wrote in last


@asynccontextmanager
async def open_engine(
    settings: Settings | Mapping[str, object] | Path | str | None = None,
    persona: Persona | None = None,
    *,
    addons: "Sequence[Path | Setup]" = (),
    warm_for: Message | None = None,
    warm_beside: bool = True,
    progress: Reporter = silent,
    report: Reporter = _log.warning,
    remark: Reporter = _log.info,
    watch: "Callable[[Model], Model] | None" = None,
    follow_persona: bool = False,
) -> AsyncGenerator["Engine", None]:
    """Build an engine with its model, store, databases and addons; close all in reverse order at the end.

    Args:
        settings: the settings, the path of a settings file, or a dict with what would stand in one:
            `{"model": {"name": "qwen3:8b", "base_url": "http://localhost:11434/v1"}}`. None: `pixi.toml` of
            the working directory. The environment and `.env` count as they do for the program.
        persona: who answers; None: the persona that the settings name.
        addons: files of addons, or their `setup` functions, besides those of the settings. What they bring is
            offered in this talk, also where the persona's file does not name it.
        warm_for: a message as it will be written first: a model that runs here reads beforehand all that
            stands before it.
        warm_beside: while the caller goes on already; False: first.
        progress: told what takes long, and "" when nothing does any more.
        report: told what a person should know, in one line: an addon that was left out. Else it is logged.
        remark: told what changes nothing for the talk, in one line: another model answers.
        watch: given the model, returns the one that writes in its place: it, with somebody looking on.
        follow_persona: the file of the persona is read again when it changes; `remark` is told.

    Raises:
        ConfigError: the settings, the persona and the parts do not fit together, or one of `addons` fails.
        PixiError: a part cannot be opened.
    """
    progress("starting")
    if not isinstance(settings, Settings):
        settings = load(Path(settings) if isinstance(settings, str) else settings)
    if persona is None:
        persona = await asyncio.to_thread(find_persona, settings)
    await import_parts(settings.model)
    from pixi.app.databases import DatabasePool
    from pixi.engine.context import Role
    from pixi.store.opening import open_store

    async with AsyncExitStack() as stack:
        store = await open_store(settings.store.url, report)
        stack.push_async_callback(store.close)
        breakers = Breakers()
        native, seconds = wants_native(settings), settings.limits.seconds
        model = await open_model(settings.model, seconds, progress, breakers, remark, native=native)
        stack.push_async_callback(model.close)
        talk = warm_for.conversation if warm_for else ""
        kept = await stack.enter_async_context(saved_slot(settings.store.url, store, lambda: model, talk))
        tools = model.traits.tools  # without them it is shown passages, and nobody need read entries for it
        library = DatabasePool(
            settings, model, follow=True, reads=tools, progress=progress, breakers=breakers
        )
        library.check(persona)
        engine = _engine(settings, Role(persona, watch(model) if watch else model), store, library)
        library.count = engine.count
        _, loaded = await open_addons(settings, addons, engine, store, stack, report=report)
        stack.push_async_callback(library.close)
        follower = PersonaFollower(engine, store, library, loaded)
        await follower.open(persona, remark)
        integrations = Integrations(engine.addon, engine.tools, engine.settings, library, report)
        stack.push_async_callback(integrations.close)
        await integrations.apply(settings, tools=tools)
        await stack.enter_async_context(engine)
        forgetting = forget_daily(store, lambda: settings.store.keep_days)
        await stack.enter_async_context(_beside(evict_forgotten(engine, kept.follow), forgetting))
        if follow_persona:
            await stack.enter_async_context(_beside(follower.follow(settings, remark)))
        progress("")
        if warm_for:
            warming = _warm(model, await engine.prefix(warm_for), progress)
            await stack.enter_async_context(_beside(warming, first=not warm_beside))
        yield engine


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    part: str = "",
    addons: Sequence[Path] = (),
    progress: Reporter = silent,
    report: Reporter = silent,
) -> AsyncGenerator["BotService", None]:
    """Build everything that answers for a bot, with all personas and models; see `open_engine`.

    `part` is the command that runs, as others are to see it among the processes on one server.

    Raises:
        ConfigError: the settings, the personas and the parts do not fit together, or one of `addons` fails.
        PixiError: a part cannot be opened.
    """
    progress("starting")
    await import_parts(settings.model)
    from pixi.app.databases import DatabasePool
    from pixi.app.health import reporting_stalls
    from pixi.app.logs import log_turn
    from pixi.app.models import ModelPool, chosen_models
    from pixi.app.personas import read_personas
    from pixi.app.service import BotService
    from pixi.app.tracing import tracing
    from pixi.engine.context import Role
    from pixi.store.opening import open_store

    persona_set = await asyncio.to_thread(read_personas, settings)
    async with AsyncExitStack() as stack:
        store = await open_store(settings.store.url, report, part=part)
        stack.push_async_callback(store.close)
        breakers = Breakers()
        native, seconds = wants_native(settings), settings.limits.seconds
        models = ModelPool(chosen_models(settings), seconds, progress, breakers, native=native)
        stack.push_async_callback(models.close)
        await models.open_default()
        kept = await stack.enter_async_context(
            saved_slot(settings.store.url, store, lambda: models.default, _ALL_TALKS)
        )

        # The service comes after: who can answer follows from the commands and tools of the engine.
        library = DatabasePool(settings, models.default, follow=True, progress=progress, breakers=breakers)
        engine = _engine(
            settings,
            Role(persona_set.personas[persona_set.default], models.default),
            store,
            library,
            resolver=lambda conversation: service.role(conversation),  # noqa: PLW0108 - it is made below
            on_turn=log_turn,
            finish_seconds=settings.discord.catch_up_minutes * 60,
        )
        library.count = engine.count
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
        await stack.enter_async_context(tracing(service))
        await stack.enter_async_context(engine)
        forgetting = forget_daily(store, lambda: service.settings.store.keep_days)
        await stack.enter_async_context(_beside(evict_forgotten(engine, kept.follow), forgetting))
        progress("")
        gc.freeze()  # what was imported and built lives as long as the process: no garbage to be looked for
        service.loop_monitor = stack.enter_context(reporting_stalls())
        async with service.closing:
            yield service


async def _admit(
    service: "BotService", persona_set: PersonaSet, loaded: Sequence["AddonContents"], report: Reporter
) -> None:
    """Let personas answer; tell of those that cannot, and of what addons brought that no persona names."""
    service.persona_set = await service.admit(persona_set)
    for fault in service.persona_set.faults:
        report(fault)
    for each in loaded:
        tell_of_unnamed(each, service.persona_set.personas.values(), service.engine, report)


def _engine(
    settings: Settings,
    default: "Role",
    store: "Store",
    library: "DatabasePool",
    *,
    resolver: "PersonaResolver | None" = None,
    on_turn: "Callable[[TurnReport], None] | None" = None,
    finish_seconds: float = 900.0,
) -> "Engine":
    from pixi.engine.engine import Engine

    engine = Engine(
        model=default.model,
        persona=default.persona,
        store=store,
        limits=settings.limits,
        budgets=settings.limits.budgets,
        prose=settings.reply.prose,
        pace=settings.reply.pace,
        gather_seconds=settings.reply.gather_seconds,
        finish_seconds=finish_seconds,
        resolver=resolver,
        on_turn=on_turn,
        helper=library.helper,
        look_up=library.look_up,
    )
    engine.settings.gather_messages = settings.reply.gather_messages
    engine.settings.waiting_messages = settings.reply.waiting_messages
    engine.settings.summarize = settings.history.summarize
    engine.settings.summary_tokens = settings.history.summary_tokens
    engine.tools.mask.learn(secrets_in(settings))
    return engine


async def _warm(model: "Model", lines: tuple[Line, ...], progress: Reporter) -> None:
    if local := local_model(model):
        # Whatever is wrong with the model is told with the first message.
        with suppress(ModelError):
            await local.warm(lines)
        progress("")


@asynccontextmanager
async def _beside(*works: Coroutine[None, None, None], first: bool = False) -> AsyncGenerator[None, None]:
    """Do each in a task of its own, which is cancelled at the end; `first`: wait for them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        if first:
            await asyncio.wait(tasks)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def import_parts(model: ModelSettings) -> None:
    """Import what every talk needs, beside the loop."""
    door = "pixi.models.llama" if runs_here(model) else "pixi.models.server_model"
    await import_beside("pixi.engine.engine", "pixi.store.sqlite", "pixi.addons.loading", door)
    await asyncio.to_thread(broken, "")  # compiles what the first message would wait for


async def import_beside(*modules: str) -> None:
    """Import what is heavy in a thread: somebody may be typing, or served, already."""
    for module in modules:
        await asyncio.to_thread(importlib.import_module, module)
