"""The MCP servers for the screen Health: how each does, what waits for consent, and the consent itself."""

from collections.abc import Sequence

from msgspec import Struct

from pixi.app.mcp_integration import changed_tools, lock_of, require_sdk, server_addresses, told_changes
from pixi.app.service import BotService
from pixi.app.studio.rows import operator_route
from pixi.core.errors import ConfigError, PixiError
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.untrusted import escaped_lines
from pixi.mcp.offers import Broken, Closed, ForeignTool, LockFile, Ready, Waiting, Where, approval_of, visible

_SERVER = "/api/studio/mcp/{name}"


class McpEntry(Struct):
    """An MCP server.

    Attributes:
        name: of its section.
        shown: its command line or its address, without secrets.
        state: `starting`, `ready`, `waiting` (for consent), `broken` or `closed`.
        why: what is wrong; "" where nothing is.
        tools: names of those that may be offered.
        changed: names of those that wait for consent.
    """

    name: str
    shown: str
    state: str
    why: str
    tools: list[str]
    changed: list[str]


class ToolChange(Struct):
    """A tool that is described otherwise than approved. `lines`: what differs, as of a diff."""

    name: str
    mark: str
    lines: list[str]


class McpWaiting(Struct):
    """A server's changes that wait for consent.

    Attributes:
        waits: something does.
        approved: the command that was approved; "" where the same one is run now.
        now: the command, as it would be run.
        mark: of that command.
        tools: those that changed. They are known once the command is approved.
    """

    name: str
    waits: bool
    approved: str
    now: str
    mark: str
    tools: list[ToolChange]


class ConsentRequest(Struct, forbid_unknown_fields=True):
    """Consent to what was seen: the marks of the command and, by their names, of the tools."""

    mark: str
    tools: dict[str, str] = {}


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes. A server is started to be asked for its tools, but only as it was approved."""

    async def waiting(caller: Caller, asked: None) -> McpWaiting:
        told, _ = await _look(service, caller.path["name"])
        return told

    async def approve(caller: Caller, asked: ConsentRequest) -> McpWaiting:
        """Approve exactly what was seen, and answer with what waits then."""
        name = caller.path["name"]
        told, changed = await _look(service, name)
        where, lock = _place(service, name)
        seen = {tool.name: tool.mark for tool in told.tools}
        if asked.mark != where.mark or asked.tools != seen:
            raise RouteError(409, "It changed again", "Look at what waits now, then approve that.")
        if told.waits:
            await lock.approve(name, where, changed)
        if told.approved:
            return await waiting(caller, None)
        return McpWaiting(name, False, "", told.now, told.mark, [])

    return (
        operator_route("GET", _SERVER, waiting, "See what waits for consent"),
        operator_route("POST", f"{_SERVER}/approve", approve, "Consent to it"),
    )


async def mcp_entries(service: BotService) -> list[McpEntry]:
    """Tell of each server that the settings name."""
    try:
        wheres = server_addresses(service.settings)
    except ConfigError as error:
        return [McpEntry(name, "", "broken", str(error), [], []) for name in service.settings.mcp]
    servers = service.integrations.mcp_servers
    entries = []
    for name, where in wheres.items():
        server = servers.get(name)
        state = Closed() if server is None else server.state
        why = state.why if isinstance(state, Broken | Waiting) else ""
        changed = state.changed if isinstance(state, Ready) else ()
        entries.append(
            McpEntry(
                name,
                where.shown,
                type(state).__name__.lower(),
                escaped_lines(service.mask.redact(why)),
                [visible(tool.name) for tool in (() if server is None else server.tools)],
                [visible(tool.name) for tool in changed],
            )
        )
    return entries


def _place(service: BotService, name: str) -> tuple[Where, LockFile]:
    try:
        require_sdk()
        where = server_addresses(service.settings).get(name)
    except ConfigError as error:
        raise RouteError(409, "The settings cannot hold", str(error)) from error
    if where is None:
        raise RouteError(404, "No such server", f"There is no [mcp.{name}] in the settings.")
    return where, lock_of(service.settings)


async def _look(service: BotService, name: str) -> tuple[McpWaiting, tuple[ForeignTool, ...]]:
    """Look at what waits; gives the tools of it, too.

    Raises:
        RouteError: there is no such server, or it cannot be asked.
    """
    where, lock = _place(service, name)
    try:
        approved = await lock.approved(name)
        if approved is None:
            return McpWaiting(name, False, "", where.shown, where.mark, []), ()
        if approved.mark != where.mark:
            return McpWaiting(name, True, visible(approved.shown), where.shown, where.mark, []), ()
        changed = await changed_tools(name, where, approved)
    except PixiError as error:
        detail = escaped_lines(service.mask.redact(str(error)))
        raise RouteError(409, "The server cannot be asked", detail) from error
    tools = [ToolChange(tool.name, approval_of(tool).mark, told_changes(tool, approved)) for tool in changed]
    return McpWaiting(name, bool(changed), "", where.shown, where.mark, tools), changed
