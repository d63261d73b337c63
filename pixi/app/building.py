"""Builds an engine from the settings, and closes it again in reverse order."""

import asyncio
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.app.addons import open_addons
from pixi.app.integrations import Integrations
from pixi.app.models import open_model, wants_native
from pixi.app.personas import PersonaFollower, find_persona
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
    from pixi.app.databases import DatabasePool
    from pixi.engine.context import PersonaResolver, Role
    from pixi.engine.engine import Engine
    from pixi.models.model import Model
    from pixi.store.store import Store
    from pixi.toolbox.addon import Setup

_log = logging.getLogger("pixi")


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
        slot_saver = await stack.enter_async_context(
            saved_slot(settings.store.url, store, lambda: model, talk)
        )
        tools = model.traits.tools  # without them it is shown passages, and nobody need read entries for it
        library = DatabasePool(
            settings, model, follow=True, reads=tools, progress=progress, breakers=breakers
        )
        library.check(persona)
        engine = make_engine(settings, Role(persona, watch(model) if watch else model), store, library)
        _, loaded = await open_addons(settings, addons, engine, store, stack, report=report)
        stack.push_async_callback(library.close)
        follower = PersonaFollower(engine, store, library, loaded)
        await follower.open(persona, remark)
        integrations = Integrations(engine.addon, engine.tools, engine.settings, library, report)
        stack.push_async_callback(integrations.close)
        await integrations.apply(settings, tools=tools)
        await stack.enter_async_context(engine)
        forgetting = forget_daily(store, lambda: settings.store.keep_days)
        upkeep = working_beside(evict_forgotten(engine, slot_saver.follow), forgetting)
        await stack.enter_async_context(upkeep)
        if follow_persona:
            await stack.enter_async_context(working_beside(follower.follow(settings, remark)))
        progress("")
        if warm_for:
            warming = _warm(model, await engine.prefix(warm_for), progress)
            await stack.enter_async_context(working_beside(warming, first=not warm_beside))
        yield engine


def make_engine(
    settings: Settings,
    default: "Role",
    store: "Store",
    library: "DatabasePool",
    *,
    resolver: "PersonaResolver | None" = None,
    on_turn: "Callable[[TurnReport], None] | None" = None,
) -> "Engine":
    """Return an engine that goes by the settings; what `library` uses is counted there."""
    from pixi.engine.engine import Engine

    engine = Engine(
        model=default.model,
        persona=default.persona,
        store=store,
        resolver=resolver,
        on_turn=on_turn,
        helper=library.helper,
        look_up=library.look_up,
    )
    configure_engine(engine, settings)
    library.count = engine.count
    return engine


def configure_engine(engine: "Engine", settings: Settings) -> None:
    """Let turns that begin from now on go by the settings."""
    its = engine.settings
    its.limits, its.budgets = settings.limits, settings.limits.budgets
    its.prose, its.pace = settings.reply.prose, settings.reply.pace
    its.gather_seconds = settings.reply.gather_seconds
    its.gather_messages = settings.reply.gather_messages
    its.waiting_messages = settings.reply.waiting_messages
    its.summarize = settings.history.summarize
    its.summary_tokens = settings.history.summary_tokens
    engine.tools.mask.learn(secrets_in(settings))


async def _warm(model: "Model", lines: tuple[Line, ...], progress: Reporter) -> None:
    if local := local_model(model):
        # Whatever is wrong with the model is told with the first message.
        with suppress(ModelError):
            await local.warm(lines)
        progress("")


@asynccontextmanager
async def working_beside(
    *works: Coroutine[None, None, None], first: bool = False
) -> AsyncGenerator[None, None]:
    """Run coroutines in tasks, which are cancelled when the block is left; `first`: wait for them before."""
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
    model_module = "pixi.models.llama" if runs_here(model) else "pixi.models.server_model"
    await import_beside("pixi.engine.engine", "pixi.store.sqlite", "pixi.addons.loading", model_module)
    await asyncio.to_thread(broken, "")  # compiles what the first message would wait for


async def import_beside(*modules: str) -> None:
    """Import what is heavy in a thread: somebody may be typing, or served, already."""
    for module in modules:
        await asyncio.to_thread(importlib.import_module, module)
