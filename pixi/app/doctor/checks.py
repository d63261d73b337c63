"""The checks of `pixi-persona doctor`, in the order of its report."""

import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pixi.app.doctor.servers import (
    Finding,
    check_discord,
    check_embedding_model,
    check_found_models,
    check_gifs,
    check_mcp,
    check_model,
    check_other_models,
    check_web_pages,
    check_web_search,
    check_wikis,
)
from pixi.core.errors import ConfigError, PixiError, Reporter, StoreError, silent
from pixi.core.spending import KINDS, UsageEntry, cost_of, day_of, first_of_month, next_month

_SCOPES = (("each person", "person"), ("each channel", "channel"), ("each guild", "guild"))

if TYPE_CHECKING:
    from pixi.app.databases import DatabaseState
    from pixi.core.persona import Persona
    from pixi.personas.files import LoadedPersona
    from pixi.settings import Settings
    from pixi.store.store import Store


Check = Callable[["Settings"], AsyncIterator[Finding]]


async def check_settings(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell where the settings come from. Reading them has already checked them."""
    count = len(settings.sources)
    origin = f"no pixi.toml here ({Path.cwd()})" if settings.origin is None else str(settings.origin)
    yield Finding(True, "settings", f"{origin}, {count or 'nothing'} set{'' if count else ', all defaults'}")


async def check_key(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that there is a key if one is needed. Whether it is accepted is seen with the model."""
    from pixi.settings.model_choice import key_name, runs_here

    model = settings.model
    if runs_here(model):
        yield Finding(True, "key", "a model on this machine needs none")
    elif model.api_key is not None:
        yield Finding(True, "key", f"set by {settings.sources['model.api_key']}")
    elif urlsplit(model.base_url).hostname == "api.openai.com" or key_name(model) != "OPENAI_API_KEY":
        yield Finding(False, "key", f"there is none: set {key_name(model)} in the environment or in .env")
    else:
        yield Finding(True, "key", "none set; a server of your own may need none")


async def check_personas(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that each persona's file can be read and that it could answer; tell who answers by default.

    Of those that come with Pixi only the default one must find all that it names.
    """
    from pixi.app.checking import find_missing
    from pixi.core.persona import on_bundled
    from pixi.core.untrusted import display_path
    from pixi.models.weights import SMOLLM2
    from pixi.personas.files import shipped_folder

    loaded, broken, default, faults = _find_personas(settings)
    remarks = sum(len(each.remarks) for each in loaded)
    readable = [*loaded, *broken]
    for each, missing in zip(readable, await find_missing(settings, readable), strict=True):
        if each.persona != default and each.path.parent == shipped_folder():
            remarks += len(missing)
            continue
        faults.extend(f"{display_path(each.path)}:{remark.line}: {remark.text}" for remark in missing)
        default = None if missing and each.persona == default else default
    for fault in faults:
        yield Finding(False, "personas", fault)
    if default is not None:
        names = ", ".join(each.persona.name for each in loaded)
        more = (
            f"; {remarks} {'remark' if remarks == 1 else 'remarks'}, see `pixi-persona personas`"
            if remarks
            else ""
        )
        tiny = f"; {on_bundled(default, SMOLLM2.languages)}" if settings.model.name == "local" else ""
        yield Finding(True, "personas", f"{names}; {default.name} answers by default{more}{tiny}")


def _find_personas(
    settings: "Settings",
) -> "tuple[list[LoadedPersona], list[LoadedPersona], Persona | None, list[str]]":
    """Read all personas: the fine ones, what can be read of broken ones, the default one, all faults."""
    from pixi.app.personas import folders_of
    from pixi.personas.files import (
        BrokenPersona,
        LoadedPersona,
        PersonaError,
        find_persona,
        list_personas,
        load_persona,
    )

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


async def check_databases(settings: "Settings", progress: Reporter = silent) -> AsyncIterator[Finding]:
    """Check that each database can be read. A large one is read for a moment, not to its end."""
    from pixi.app.databases import database_refs, inspect_all

    try:
        refs = database_refs(settings)
    except ConfigError as error:
        yield Finding(False, "databases", str(error))
        return
    async for each in inspect_all(refs, progress):
        yield _database_found(each)


def _database_found(each: "DatabaseState") -> Finding:
    from pixi.core.untrusted import display_line

    name = display_line(each.ref.name)
    if each.trouble:
        return Finding(False, "databases", f"{name}: {each.trouble}")
    told = f"{name}: {each.entries:,} {'entry' if each.entries == 1 else 'entries'}"
    if each.waiting != 0:
        left = (
            "it was not read yet" if each.waiting is None else f"{each.waiting:,} files are still to be read"
        )
        told += f"; {left}"
    if not each.files:
        told += f"; put documents into {each.ref.folder}"
    if not each.faults:
        return Finding(True, "databases", display_line(told))
    first, more = each.faults[0], len(each.faults) - 1
    told += f"; set aside: {first.path or name}: {first.reason.rstrip('.')}"
    if more:
        told += f"; and {more:,} more, see `pixi-persona databases`"
    return Finding(False, "databases", display_line(told, longest=1_000))


async def check_addons(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that each addon registers what it brings, as at a start: its file is run."""
    if not settings.addons and not settings.addon:
        return
    from pixi.addons.loading import load_addon, named
    from pixi.app.addons import AddonSettingsReader
    from pixi.toolbox.addon import Addon, basics
    from pixi.toolbox.commands import CommandRegistry
    from pixi.toolbox.tools import Toolbox

    commands, tools = CommandRegistry(), Toolbox()
    read = AddonSettingsReader(settings, tools)
    basics(Addon(commands, tools))
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


async def check_confinement(_: "Settings") -> AsyncIterator[Finding]:
    """Check how the processes that read strangers' documents are confined, and who may read our keys.

    One such process is started and asked.
    """
    from pixi.documents.readers import Readers

    try:
        async with Readers(workers=1) as readers:
            kept = await readers.confinement()
    except ConfigError as error:
        yield Finding(False, "readers", str(error))
        return
    fences = {"Landlock": bool(kept.landlock), "seccomp": kept.seccomp}
    there = [name for name, holds in fences.items() if holds]
    lacking = [name for name, holds in fences.items() if not holds]
    if not lacking:
        told = (
            "documents are read by processes that the kernel keeps from everything else (Landlock, seccomp)"
        )
    elif sys.platform != "linux":
        told = "documents are read by processes that Python keeps from files and the network; Linux does more"
    else:
        told = (
            f"this kernel keeps processes that read documents by {' and '.join(there) or 'neither'}; without "
            f"{' and '.join(lacking)}, a document that takes one over could do harm: see docs/databases.md"
        )
    # One of the two is what some systems have; nobody can mend it, so it is told and no fault.
    yield Finding(bool(there) or sys.platform != "linux", "readers", told)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        root = "Pixi runs as root, so MCP servers do, and can read its keys; run it as a user of its own"
        yield Finding(True, "user", root)


async def check_store(settings: "Settings") -> AsyncIterator[Finding]:
    """Check that the store opens and is whole, and list the files beside it. Make no missing file."""
    from pixi.store.opening import file_of, is_postgres, open_existing

    url, told = settings.store.url, list[str]()
    try:
        store = await open_existing(url, told.append)
        if store is not None:
            name, trouble = store.name, await _store_trouble(store)
            again = await open_existing(url, told.append) if trouble else None
            if again is not None:  # a file is set aside by now, as any start would have done
                await again.close()
            if not told:
                yield Finding(not trouble, "store", trouble or f"{name} is whole")
        elif is_postgres(url):
            from pixi.store.postgres.address import read_address

            yield Finding(True, "store", f"{read_address(url)}: its tables will be made at the first talk")
        elif (path := file_of(url)) is None:
            yield Finding(True, "store", "in memory: talks are forgotten at the end")
        else:
            yield _store_to_be_made(path)
    except PixiError as error:
        yield Finding(False, "store", str(error))
    for line in told:
        yield Finding(False, "store", line)
    for finding in _beside_the_store(url):
        yield finding


async def _store_trouble(store: "Store") -> str:
    """Return what is wrong with a store, "" if it is whole; close the store."""
    try:
        await store.check()
    except StoreError as error:
        return str(error)
    finally:
        await store.close()
    return ""


def _beside_the_store(url: str) -> Iterator[Finding]:
    """Yield files that were set aside, and a file that others may read."""
    from pixi.store.opening import file_of, is_postgres
    from pixi.store.sqlite.damage import set_aside_before

    try:
        path = None if is_postgres(url) else file_of(url)
    except ConfigError:
        return  # which was told
    if path is None:
        return
    for file in set_aside_before(path):
        told = f"{file} was set aside because it is damaged; delete it when you have what you need"
        yield Finding(True, "store", told)
    if os.name == "posix" and path.is_file() and path.stat().st_mode & 0o077:
        yield Finding(False, "store", f"others on this machine may read {path}: chmod 600 {path}")


def _store_to_be_made(path: Path) -> Finding:
    if not path.parent.is_dir():
        return Finding(False, "store", f"there is no folder {path.parent}; make it.")
    if not os.access(path.parent, os.W_OK):
        return Finding(False, "store", f"the folder {path.parent} may not be written; mend its permissions.")
    return Finding(True, "store", f"{path} will be made at the first talk")


async def check_limits(settings: "Settings") -> AsyncIterator[Finding]:
    """Tell the budgets, the month's dollars spent, and which models have no price."""
    yield await _month_found(settings)
    if days := "; ".join(_days(settings)):
        yield Finding(True, "limits", f"in a day {days}")
    if unknown := _unpriced(settings):
        yield Finding(True, "limits", f"no price is known for {', '.join(unknown)}: see [prices]")


async def _month_found(settings: "Settings") -> Finding:
    stop, today = settings.limits.month_dollars, day_of(time.time())
    try:
        month = await _used(settings, today)
    except PixiError:
        return Finding(True, "limits", "what was used is not known: see the store")
    if stop is None:
        return Finding(True, "limits", f"{cost_of(month)} this month, and no stop is set (month_dollars)")
    told = f"{cost_of(month)} of ${stop:,.2f} this month ({month.cost / stop:.0%})"
    if month.cost < stop:
        return Finding(True, "limits", told)
    told += f": nobody is answered until {next_month(today)}; raise month_dollars to go on"
    return Finding(False, "limits", told)


async def _used(settings: "Settings", today: int) -> UsageEntry:
    from pixi.store.opening import open_existing

    store = await open_existing(settings.store.url, silent)  # its faults are told by `store`
    if store is None:
        return UsageEntry()
    try:
        (month,) = await store.usage(first_of_month(today), today)
        return month
    finally:
        await store.close()


def _days(settings: "Settings") -> Iterator[str]:
    for words, scope in _SCOPES:
        numbers = [(getattr(settings.limits, f"{scope}_{kind}"), kind) for kind in KINDS]
        told = ", ".join(f"{number:,} {kind}" for number, kind in numbers if number is not None)
        if told:
            yield f"{words}: {told}"


def _unpriced(settings: "Settings") -> list[str]:
    """Return names of models at servers whose price nobody told."""
    from pixi.settings.model_choice import runs_here

    models = [settings.model, *settings.models.values(), settings.helper_model]
    every = [each for model in models for each in (model, *model.fallback)]
    unknown = [each for each in every if each.prices is None and not runs_here(each)]
    names = [each.name or "the only model there" for each in unknown]
    if settings.embedding_model is not None and settings.embedding_model.prices is None:
        names.append(settings.embedding_model.name)
    return list(dict.fromkeys(names))


def checks(progress: Reporter = silent, *, cluster: bool = False) -> tuple[Check, ...]:
    """Give the checks in the order of the report. Each gives any number of findings, and raises nothing.

    Args:
        progress: told what takes long, and "" when nothing does any more.
        cluster: whether to look at gateways and workers.
    """
    of_cluster: tuple[Check, ...] = ()
    if cluster:
        from pixi.app.doctor.cluster import check_cluster

        of_cluster = (check_cluster,)
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
        # Before the store is opened, which brings its tables up to date.
        *of_cluster,
        check_store,
        check_limits,
        check_discord,
    )
