"""Checks personas as a start would: against every command, tool and database that the settings bring."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pixi.addons import memory
from pixi.app.addons import load_all
from pixi.app.databases import DatabasePool
from pixi.app.integrations import Integrations
from pixi.core.errors import ConfigError, silent
from pixi.core.persona import Persona
from pixi.core.untrusted import display_path
from pixi.engine.capabilities import MissingName, missing_names
from pixi.engine.context import EngineSettings
from pixi.personas.files import BrokenPersona, Found, LoadedPersona
from pixi.personas.front_matter import LintWarning
from pixi.settings import Settings
from pixi.store.sqlite import SqliteStore
from pixi.toolbox.addon import Addon, basics
from pixi.toolbox.commands import BY_SETTING, CommandRegistry
from pixi.toolbox.tools import Toolbox


async def find_missing(settings: Settings, loaded: Sequence[LoadedPersona]) -> list[tuple[LintWarning, ...]]:
    """List the names in each persona's file that a start would not find: line and mend, by line.

    Addons are loaded, as at a start; one that fails is left out, and what they print goes to standard error.
    No model and no server is asked, and no MCP server is started: any tool that may be one of its counts as
    there.
    """
    commands, tools = CommandRegistry(), Toolbox()
    addon = Addon(commands, tools)
    basics(addon)
    with redirect_stdout(sys.stderr):
        load_all(settings, (), commands, tools, silent)
    store = await SqliteStore.open(":memory:")
    library = DatabasePool(settings, None, progress=silent)
    integrations = Integrations(addon, tools, EngineSettings(settings.limits), library, silent)
    try:
        memory.setup_with(store)(addon)
        for name in settings.mcp:
            tools.announce(f"mcp:{name}")
        reached = True
        try:
            await integrations.apply(dataclasses.replace(settings, mcp={}))
        except ConfigError:  # which stops a start, and is told by whoever checks that part
            reached = False

        return [missing_in(each, commands, tools, library, reached=reached) for each in loaded]
    finally:
        await integrations.close()
        await library.close()
        await store.close()


def missing_in(
    loaded: LoadedPersona,
    commands: CommandRegistry,
    tools: Toolbox,
    library: DatabasePool,
    *,
    reached: bool = True,
) -> tuple[LintWarning, ...]:
    """List the names in a persona's file that are not there: line and mend, by line.

    `reached`: all is there that the settings bring; else a tool may be missing for another reason.
    """

    def missing(persona: Persona) -> Iterator[MissingName]:
        for each in missing_names(replace(persona, databases=()), commands, tools):
            if reached or each.key != "tools":
                yield each
        yield from (MissingName("databases", fault) for fault in library.missing(persona))

    remarks = [LintWarning(loaded.lines.get(it.key, 1), it.text) for it in missing(loaded.persona)]
    return tuple(sorted(remarks, key=lambda remark: remark.line))


def with_missing(found: Found, missing: Sequence[LintWarning], settings: Settings) -> Found:
    """Return a file with the names that a start would not find among its remarks, or its faults."""
    if isinstance(found, BrokenPersona):
        return BrokenPersona(found.path, (*found.faults, *placed(found.path, missing)), found.loaded)
    remarks = (*missing, *_unset_commands(found, settings), *found.remarks)
    return replace(found, remarks=tuple(sorted(remarks, key=lambda remark: remark.line)))


def _unset_commands(found: LoadedPersona, settings: Settings) -> Iterator[LintWarning]:
    """Yield a remark for each command that the persona names and that a setting would bring."""
    is_set = {"gif": settings.gifs.engine != "off", "sticker": settings.discord.stickers}
    for name, setting in BY_SETTING.items():
        if name in (found.persona.commands or ()) and not is_set[name]:
            text = f"it goes without the command {name}, which {setting} would bring"
            yield LintWarning(found.lines.get("commands", 1), text)


def placed(path: Path, remarks: Sequence[LintWarning]) -> list[str]:
    """Return remarks as lines that name their places: `personas/wren.md:3: …`."""
    return [f"{display_path(path)}:{remark.line}: {remark.text}" for remark in remarks]


class PersonaForm(Struct):
    """A file as `pixi-persona personas --json` tells of it; of a broken one only the faults are known."""

    name: str | None
    file: str
    about: str | None
    language: str | None
    databases: tuple[str, ...] | None
    tools: tuple[str, ...] | None
    examples: int | None
    faults: tuple[str, ...] = ()
    remarks: tuple[LintWarning, ...] = ()


def persona_form(found: Found) -> PersonaForm:
    """Tell of a file."""
    if isinstance(found, BrokenPersona):
        return PersonaForm(None, display_path(found.path), None, None, None, None, None, tuple(found.faults))
    it = found.persona
    return PersonaForm(
        name=it.name,
        file=display_path(found.path),
        about=it.about,
        language=it.language,
        databases=it.databases,
        tools=it.tools,
        examples=len(it.examples),
        remarks=tuple(found.remarks),
    )
