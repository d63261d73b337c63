"""Checks personas as a start would: against every command, tool and database that the settings bring."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout

from pixi.addons import basics, memory
from pixi.app.addons import load_all
from pixi.app.library import Library
from pixi.app.reach import Reach
from pixi.app.reach.part import Grounds
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.engine.capabilities import Missing, missing_names
from pixi.engine.context import EngineSettings
from pixi.personas.faults import Remark
from pixi.personas.files import Loaded
from pixi.settings import Settings
from pixi.store.sqlite import SqliteStore
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox


async def find_missing(settings: Settings, loaded: Sequence[Loaded]) -> list[tuple[Remark, ...]]:
    """List the names in each persona's file that a start would not find: line and mend, by line.

    Addons are loaded, as at a start; one that fails is left out, and what they print goes to standard error.
    No model and no server is asked, and no MCP server is started: any tool that may be one of its counts as
    there.
    """
    commands, tools = CommandRegistry(), Toolbox()
    addon = Addon(commands, tools)
    basics.setup(addon)
    with redirect_stdout(sys.stderr):
        load_all(settings, (), commands, tools, _ignore)
    store = await SqliteStore.open(":memory:")
    library = Library(settings, None, progress=_ignore)
    reach = Reach(Grounds(addon, tools, EngineSettings(settings.limits), library, _ignore))
    try:
        memory.setup_with(store)(addon)
        for name in settings.mcp:
            tools.announce(f"mcp:{name}")
        reached = True
        try:
            await reach.go_by(dataclasses.replace(settings, mcp={}))
        except ConfigError:  # which stops a start, and is told by whoever checks that part
            reached = False

        def missing(persona: Persona) -> Iterator[Missing]:
            for each in missing_names(dataclasses.replace(persona, databases=()), commands, tools):
                if reached or each.key != "tools":
                    yield each
            yield from (Missing("databases", fault) for fault in library.missing(persona))

        remarks = [
            [Remark(each.lines.get(it.key, 1), it.text) for it in missing(each.persona)] for each in loaded
        ]
        return [tuple(sorted(each, key=lambda remark: remark.line)) for each in remarks]
    finally:
        await reach.close()
        await library.close()
        await store.close()


def _ignore(_: str) -> None: ...
