"""The checks of `pixi-persona doctor`, in the order of its report."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError, ModelError, PixiError

if TYPE_CHECKING:
    from pixi.app.inspecting import Inspected
    from pixi.core.persona import Persona
    from pixi.personas.files import LoadedPersona
    from pixi.settings import ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: `ok subject — text`, or `fail …` where `text` names the mend."""

    ok: bool
    subject: str
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.split())  # an error may have a second line for its mend
        return f"{'ok  ' if self.ok else 'fail'} {self.subject} — {text}"


Check = Callable[["Settings"], AsyncIterator[Finding]]
Tell = Callable[[str], None]


def _silent(_: str) -> None: ...


async def check_settings(settings: "Settings") -> AsyncIterator[Finding]:
    """Where the settings come from. That they hold was seen when they were read."""
    count = len(settings.sources)
    origin = f"no pixi.toml here ({Path.cwd()})" if settings.origin is None else str(settings.origin)
    yield Finding(True, "settings", f"{origin}, {count or 'nothing'} set{'' if count else ', all defaults'}")


async def check_key(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether there is a key where one is needed. Whether it is accepted is seen with the model."""
    from pixi.app import runs_here
    from pixi.settings.own_keys import key_name

    model = settings.model
    if runs_here(model):
        yield Finding(True, "key", "a model on this machine needs none")
    elif model.api_key is not None:
        yield Finding(True, "key", f"set by {settings.sources['model.api_key']}")
    elif urlsplit(model.base_url).hostname == "api.openai.com" or key_name(model) != "OPENAI_API_KEY":
        yield Finding(False, "key", f"there is none: set {key_name(model)} in the environment or in .env")
    else:
        yield Finding(True, "key", "none set; a server of your own may need none")


async def check_model(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether the model is there to be asked, and each that stands by it."""
    async for finding in _models_found("model", settings.model):
        yield finding


async def check_found_models(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell which models are there to be chosen: at servers of this machine, and for keys that are set."""
    from pixi.app.doctor.models import look_for_models

    for line in await look_for_models():
        yield Finding(True, "found", line)
    if not settings.model_is_set:
        yield Finding(True, "found", "no model is set: `pixi-persona chat` on a terminal asks for one, once")


async def check_other_models(settings: "Settings") -> AsyncIterator[Finding]:
    """The same of the models that have a section of their own: that of the reader, and those by name."""
    others = {"helper_model": settings.helper_model} | {
        f"models.{name}": model for name, model in settings.models.items()
    }
    for subject, model in others.items():
        if model != settings.model:
            async for finding in _models_found(subject, model):
                yield finding


async def check_embedding_model(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether it turns a word into a vector; nothing where there is none."""
    import asyncio

    from pixi.app.doctor.models import LISTING_SECONDS
    from pixi.app.library import open_embedder
    from pixi.knowledge.vectors import require_numpy

    chosen = settings.embedding_model
    if chosen is None:
        return
    try:
        require_numpy()
        embedder = open_embedder(chosen)
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                (vector,) = await embedder.embed(["pancake"])
        finally:
            await embedder.close()
    except TimeoutError:
        yield Finding(False, "embedding_model", f"{chosen.base_url} sent no vector in {LISTING_SECONDS:g} s")
    except (ModelError, ConfigError) as error:
        yield Finding(False, "embedding_model", str(error))
    else:
        yield Finding(True, "embedding_model", f"{chosen.name}: vectors of {len(vector):,} dimensions")


async def _models_found(subject: str, model: "ModelSettings") -> AsyncIterator[Finding]:
    """A model, then those that are asked in its place, by their numbers."""
    yield await _model_found(subject, model)
    for number, stand_in in enumerate(model.fallback, start=1):
        yield await _model_found(f"{subject}.fallback {number}", stand_in)


async def _model_found(subject: str, model: "ModelSettings") -> Finding:
    from pixi.app.doctor.models import look_at_model

    fine, text = await look_at_model(model)
    return Finding(fine, subject, text)


async def check_personas(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that each persona's file can be read and that it could answer; tell who answers by default.

    Of those that come with Pixi only the default one must find all that it names.
    """
    from pixi.app.checking import find_missing
    from pixi.core.shortcomings import on_bundled
    from pixi.models.weights import SMOLLM2
    from pixi.personas.files import shown
    from pixi.personas.shelf import shipped_folder

    loaded, broken, default, faults = _find_personas(settings)
    remarks = sum(len(each.remarks) for each in loaded)
    readable = [*loaded, *broken]
    for each, missing in zip(readable, await find_missing(settings, readable), strict=True):
        if each.persona != default and each.path.parent == shipped_folder():
            remarks += len(missing)
            continue
        faults.extend(f"{shown(each.path)}:{remark.line}: {remark.text}" for remark in missing)
        default = None if missing and each.persona == default else default
    for fault in faults:
        yield Finding(False, "personas", fault)
    if default is not None:
        names = ", ".join(each.persona.name for each in loaded)
        more = f"; {remarks} remarks, see `pixi-persona personas`" if remarks else ""
        tiny = f"; {on_bundled(default, SMOLLM2.languages)}" if settings.model.name == "local" else ""
        yield Finding(True, "personas", f"{names}; {default.name} answers by default{more}{tiny}")


def _find_personas(
    settings: "Settings",
) -> "tuple[list[LoadedPersona], list[LoadedPersona], Persona | None, list[str]]":
    """Read all personas: the fine ones, what can be read of broken ones, the default one, all faults."""
    from pixi.app.cast import folders_of
    from pixi.personas.files import LoadedPersona, PersonaError, load_persona
    from pixi.personas.shelf import BrokenPersona, find_persona, list_personas

    try:
        folders = folders_of(settings)
        found = list_personas(folders)
    except ConfigError as error:
        return [], [], None, [*error.faults]
    loaded = [each for each in found if isinstance(each, LoadedPersona)]
    broken = [each.loaded for each in found if isinstance(each, BrokenPersona) and each.loaded is not None]
    faults = [fault for each in found if isinstance(each, BrokenPersona) for fault in each.faults]
    default = None
    try:
        default = find_persona(settings.persona.default, folders)
        if all(each.persona != default for each in loaded):  # named by its path
            loaded.append(load_persona(Path(settings.persona.default).expanduser()))
    except ConfigError as error:
        new = [fault for fault in error.faults if fault not in faults]
        if new and isinstance(error, PersonaError) and error.loaded is not None:
            broken.append(error.loaded)
        faults += new
    return loaded, broken, default, faults


async def check_databases(settings: "Settings", progress: Tell = _silent) -> AsyncIterator[Finding]:
    """Whether each database can be read. A large one is read for a moment, not to its end."""
    from pixi.app.inspecting import inspect_all
    from pixi.app.library import shelved_databases

    try:
        shelved = shelved_databases(settings)
    except ConfigError as error:
        yield Finding(False, "databases", str(error))
        return
    async for each in inspect_all(shelved, progress):
        yield _database_found(each)


def _database_found(each: "Inspected") -> Finding:
    from pixi.core.untrusted import display_line

    name = display_line(each.shelved.name)
    if each.trouble:
        return Finding(False, "databases", f"{name}: {each.trouble}")
    told = f"{name}: {each.entries:,} {'entry' if each.entries == 1 else 'entries'}"
    if each.waiting != 0:
        left = (
            "it was not read yet" if each.waiting is None else f"{each.waiting:,} files are still to be read"
        )
        told += f"; {left}"
    if not each.files:
        told += f"; put documents into {each.shelved.folder}"
    if not each.faults:
        return Finding(True, "databases", display_line(told))
    first, more = each.faults[0], len(each.faults) - 1
    told += f"; set aside: {first.path or name}: {first.reason.rstrip('.')}"
    if more:
        told += f"; and {more:,} more, see `pixi-persona databases`"
    return Finding(False, "databases", display_line(told, longest=1_000))


async def check_confinement(settings: "Settings") -> AsyncIterator[Finding]:
    """Check how the processes that read strangers' documents are confined, and who may read our keys."""
    from pixi.app.doctor.confinement import look_at_confinement

    for fine, subject, text in await look_at_confinement():
        yield Finding(fine, subject, text)


async def check_addons(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that each addon registers what it brings, as at a start: its file is run."""
    if not settings.addons and not settings.addon:
        return
    from pixi.addons.loading import load_addon, named
    from pixi.app.addons import AddonSettingsReader
    from pixi.toolbox import basics
    from pixi.toolbox.addon import Addon
    from pixi.toolbox.commands import CommandRegistry
    from pixi.toolbox.tools import Toolbox

    commands, tools = CommandRegistry(), Toolbox()
    read = AddonSettingsReader(settings, tools)
    basics.setup(Addon(commands, tools))
    for path in settings.addons:
        try:
            with redirect_stdout(sys.stderr):  # the report is what stands on standard output
                contents = load_addon(named(path), commands, tools, None, read)
        except PixiError as error:
            yield Finding(False, "addons", f"{path}: {error}")
        else:
            names = ", ".join((*contents.commands, *contents.tools))
            yield Finding(True, "addons", f"{path}: {names or 'it registers nothing'}")
    for remark in read.unread():
        yield Finding(False, "addons", remark)


async def check_mcp(settings: "Settings") -> AsyncIterator[Finding]:
    """What each MCP server runs, whether it starts, which tools it has, and what waits for consent."""
    from pixi.app.doctor.mcp import look_at_mcp

    for subject, fine, text in await look_at_mcp(settings):
        yield Finding(fine, subject, text)


async def check_web_pages(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether pages of the web can be read, where they are to be."""
    pages = settings.web_pages
    if not pages.read:
        return
    from pixi.app.reach.web_pages import check_installed

    try:
        check_installed()
    except ConfigError as error:
        yield Finding(False, "web_pages", str(error))
    else:
        robots = "robots.txt is heeded" if pages.robots else "robots.txt is not looked at"
        yield Finding(True, "web_pages", f"read_page: pages of up to {pages.megabytes:g} MB; {robots}")


async def check_web_search(settings: "Settings") -> AsyncIterator[Finding]:
    """Who searches the web, if anybody is to."""
    from pixi.app.doctor.web_search import look_at_web_search

    found = await look_at_web_search(settings)
    if found is not None:
        yield Finding(found[0], "web_search", found[1])


async def check_wikis(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether each wiki can be asked."""
    from pixi.app.doctor.wikis import look_at_wikis

    if settings.wiki:
        async for fine, section, text in look_at_wikis(settings):
            yield Finding(fine, section, text)


async def check_gifs(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether there are pictures to be found, where they are wanted."""
    from pixi.app.doctor.gifs import look_at_gifs

    found = await look_at_gifs(settings)
    if found is not None:
        yield Finding(found[0], "gifs", found[1])


async def check_store(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether the store can be opened and is whole. A missing file is not made."""
    from pixi.app.doctor.store import look_at_store

    async for fine, text in look_at_store(settings.store.url):
        yield Finding(fine, "store", text)


async def check_limits(settings: "Settings") -> AsyncIterator[Finding]:
    """What may be used, and how much of the month's dollars is gone."""
    from pixi.app.doctor.limits import look_at_limits

    for fine, text in await look_at_limits(settings):
        yield Finding(fine, "limits", text)


async def check_discord(settings: "Settings") -> AsyncIterator[Finding]:
    """Whether a bot could go on Discord; that it is not set up is no fault."""
    from pixi.app.doctor.discord import look_at_discord

    for fine, text in await look_at_discord(settings):
        yield Finding(fine, "discord", text)


def checks(progress: Tell = _silent) -> tuple[Check, ...]:
    """Give the checks in the order of the report. Each gives any number of findings, and raises nothing.

    Args:
        progress: told what takes long, and "" when nothing does any more.
    """
    return (
        check_settings,
        check_key,
        check_model,
        check_found_models,
        check_other_models,
        check_embedding_model,
        check_personas,
        partial(check_databases, progress=progress),
        check_confinement,
        check_addons,
        check_mcp,
        check_web_pages,
        check_web_search,
        check_wikis,
        check_gifs,
        check_store,
        check_limits,
        check_discord,
    )
