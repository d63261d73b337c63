"""The part of `doctor` that looks at MCP servers: what each runs, whether it starts, which tools it has."""

import asyncio
from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError, PixiError
from pixi.core.figures import how_many

if TYPE_CHECKING:
    from pixi.mcp.lock import Approved, Sifted
    from pixi.mcp.offers import ToolServer
    from pixi.mcp.where import Where
    from pixi.settings import McpSettings, Settings

SECONDS = 60.0
"""How long a server may take to start and list its tools; a program may have to be fetched first."""

Told = list[tuple[str, bool, str]]


async def look_at_mcp(settings: "Settings") -> Told:
    """For each server what is fine (True) and what is not, a line each, behind its subject.

    Servers are started side by side, as far as they were approved. Nothing is recorded.
    """
    if not settings.mcp:
        return []
    from pixi.app.mcp_settings import lock_of, places, require_sdk

    try:
        require_sdk()
        wheres = places(settings)
        lock = lock_of(settings)
        approved = {name: await lock.approved(name) for name in wheres}
    except ConfigError as error:
        return [("mcp", False, str(error))]
    looks = (_look(name, where, approved[name], settings.mcp[name]) for name, where in wheres.items())
    return [line for lines in await asyncio.gather(*looks) for line in lines]


async def _look(name: str, where: "Where", approved: "Approved | None", its: "McpSettings") -> Told:
    from pixi.mcp.connection import connected
    from pixi.mcp.lock import sifted
    from pixi.mcp.where import visible

    subject = f"mcp.{name}"
    if approved is not None and approved.mark != where.mark:
        mend = f"approved was {visible(approved.shown)}; if that is meant: pixi-persona approve {name}"
        return [(subject, False, f"{where.shown}: waits for consent, so that it is not started; {mend}")]
    try:
        async with connected(name, where, SECONDS) as connection:
            listing = await connection.list()
            found = sifted(approved, listing.tools)
            left_out = _left_out(connection, found, its)
    except PixiError as error:
        return [(subject, False, f"{where.shown}: {error}")]
    new = "; used for the first time" if approved is None else ""
    told = [(subject, True, f"{where.shown}: {how_many(len(found.fit), 'tool')}{new}")]
    told += [(subject, False, remark) for remark in listing.remarks]
    if found.changed:
        names = ", ".join(visible(tool.name) for tool in found.changed)
        mend = f"if that is meant: pixi-persona approve {name}"
        told.append((subject, False, f"described otherwise than approved, so left out: {names}; {mend}"))
    return told + [(subject, False, line) for line in left_out]


def _left_out(server: "ToolServer", found: "Sifted", its: "McpSettings") -> list[str]:
    """Why which tools cannot be offered: tried with a toolbox of its own."""
    from pixi.addons.mcp import register
    from pixi.toolbox.tools import Toolbox

    return [" ".join(line.split()) for line in register(found.fit, server, Toolbox(), its)]
