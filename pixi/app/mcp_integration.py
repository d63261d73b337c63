"""MCP servers as the settings want them: where they are, what they offer, and what changed since approval."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

from pixi.addons.mcp import register, written
from pixi.app.integrations import Integrations
from pixi.core.errors import ConfigError
from pixi.documents.watching import WatchedPaths, changes
from pixi.mcp.offers import (
    FILE_NAME,
    ApprovedServer,
    ForeignTool,
    LockFile,
    NetworkServer,
    Program,
    Where,
    approval_of,
    compare_with_approved,
    full_description,
    visible,
)
from pixi.mcp.server import McpServer
from pixi.settings import McpSettings, Settings

START_SECONDS = 60.0
"""Time for a server to start and list its tools; a program may have to be fetched first."""

_GRACE_SECONDS = 1.0  # that a start waits: quick servers are there for the first message, others join
_MOST_LINES = 100  # told of the tools of one server: the words of some are another each time
_MOST_DIFF_LINES = 2_000  # of what differs in one tool; more than what is kept of it can have in earnest
_OF_A_COMMAND = ("args", "env", "folder")
_OF_A_URL = ("headers", "type")


def require_sdk() -> None:
    """See that the SDK is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("mcp") is None:
        raise ConfigError('[mcp.NAME] needs the MCP SDK: pip install "pixi-persona[mcp]"')


def lock_of(settings: Settings) -> LockFile:
    """Return the lock file, which lies beside the settings file."""
    return LockFile((settings.origin or Path(FILE_NAME)).with_name(FILE_NAME))


def server_addresses(settings: Settings) -> dict[str, Where]:
    """Return where each MCP server is, by the names of their sections.

    Raises:
        ConfigError: a section cannot hold.
    """
    return {name: _address_of(f"[mcp.{name}]", its) for name, its in settings.mcp.items()}


def _address_of(title: str, its: McpSettings) -> Where:
    if its.command and its.url:
        raise ConfigError(f"{title} has a command and a url: it is one server, so keep one of them.")
    if its.command:
        _refuse_others(title, its, _OF_A_URL, "url")
        env = {name: secret.reveal() for name, secret in its.env.items()}
        return Program(its.command, its.args, env, its.folder)
    if not its.url:
        mend = "; type is about a url" if its.type != McpSettings().type else ""
        raise ConfigError(f"{title} has neither a command nor a url: add one of them{mend}.")
    _refuse_others(title, its, _OF_A_COMMAND, "command")
    for name, secret in its.headers.items():
        text = secret.reveal()
        if not (name.isascii() and text.isascii() and name.isprintable() and text.isprintable()):
            raise ConfigError(f"{title} headers: {name!r} holds what no header may; look for a line break.")
    return NetworkServer(
        its.url, its.type == "sse", {name: secret.reveal() for name, secret in its.headers.items()}
    )


def _refuse_others(title: str, its: McpSettings, keys: tuple[str, ...], home: str) -> None:
    for key in keys:
        if getattr(its, key) != getattr(McpSettings(), key):
            raise ConfigError(
                f"{title} {key} is for a server with a {home}, which this one has not: remove it."
            )


async def apply_mcp(integrations: Integrations, settings: Settings) -> None:
    """Connect the servers that the settings name, and leave the others; see `McpIntegration.apply`."""
    if settings.mcp or integrations.mcp_servers:
        await integrations.once("mcp", lambda: McpIntegration(integrations)).apply(settings)


class McpIntegration:
    """Connects MCP servers, and registers the tools that they list.

    Attributes:
        servers: that the settings name now.

    Raises:
        ConfigError: the SDK is not installed.
    """

    def __init__(self, integrations: Integrations) -> None:
        require_sdk()
        self._tools = integrations.tools
        self._report = integrations.report
        self.servers: dict[str, McpServer] = {}
        self._settings: dict[str, McpSettings] = {}  # by server, those that hold now
        # By server, what its tools are registered by; they are registered anew where that changes.
        self._offered: dict[str, tuple[tuple[ForeignTool, ...], McpSettings]] = {}
        self._lock: LockFile | None = None  # the one of the first settings
        self._watching: asyncio.Task[None] | None = None  # the lock file, once there was a server
        self._told: dict[str, set[str]] = {}  # by server, the lines that were reported of its tools

    async def apply(self, settings: Settings) -> None:
        """Bring servers and their tools in line with the settings. It waits a moment for those that start.

        Raises:
            ConfigError: a section cannot hold. Then nothing has changed.
        """
        wanted = server_addresses(settings)
        stay = {name for name, each in self.servers.items() if wanted.get(name) == each.where}
        await self._end(set(self.servers) - stay)
        lock = self._lock = self._lock or lock_of(settings)
        self._settings = dict(settings.mcp)
        started: list[McpServer] = []
        for name, where in wanted.items():
            self._tools.announce(_source(name))
            if name in stay:
                await self._offer(self.servers[name])
                continue
            server = McpServer(name, where, lock, offered=self._offer, tell=self._report)
            self.servers[name] = server
            server.start()
            started.append(server)
        if self.servers and self._watching is None:
            self._watching = asyncio.create_task(self._watch(lock))
        await _settled(started)

    async def close(self) -> None:
        """End all servers."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        await self._end(set(self.servers))

    async def _end(self, names: Iterable[str]) -> None:
        """Close servers side by side, and take their tools away."""
        gone = [self.servers.pop(name) for name in names]
        for server in gone:
            self._tools.remove(_source(server.name))
            self._offered.pop(server.name, None)
        await asyncio.gather(*(server.close() for server in gone))

    async def _offer(self, server: McpServer) -> None:
        """Register the tools of a server, if they are other ones by now. Those of one that is away stay."""
        name = server.name
        if self.servers.get(name) is not server:
            return  # it is being closed
        now = (server.tools, self._settings[name])
        if self._offered.get(name) == now or (not server.tools and name not in self._offered):
            return
        self._offered[name] = now
        schemas = await written(*now)
        if self._offered.get(name) is not now:
            return  # others are offered by now, or none any more
        tools, its = now
        try:
            lines = register(tools, server, self._tools, its, schemas)
        except ConfigError as error:
            lines = [str(error)]
        told = self._told.setdefault(name, set())
        for line in lines:
            if line not in told and len(told) < _MOST_LINES:
                told.add(line)
                self._report(line)

    async def _watch(self, lock: LockFile) -> None:
        """Look for consent again whenever the lock file changes."""
        async with aclosing(changes(lambda: WatchedPaths((lock.path,)))) as changed:
            async for _ in changed:
                for server in self.servers.values():
                    server.look_again()


def _source(name: str) -> str:
    """Return the source of a server's tools: a persona that names it gets them all."""
    return f"mcp:{name}"


async def _settled(servers: Iterable[McpServer]) -> None:
    """Wait for servers to be ready, or known not to be, but not long."""
    waiting = [asyncio.create_task(server.settled()) for server in servers]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=_GRACE_SECONDS)
        for task in late:
            task.cancel()


async def changed_tools(name: str, where: Where, approved: ApprovedServer) -> tuple[ForeignTool, ...]:
    """Start a server, as it was approved, and list its tools that are described otherwise than approved.

    Raises:
        PixiError: it cannot be started, or does not list its tools.
    """
    from pixi.mcp.connection import connected  # large, and of an extra that is not always there

    async with connected(name, where, START_SECONDS) as connection:
        return compare_with_approved(approved, (await connection.list()).tools).changed


def told_changes(tool: ForeignTool, approved: ApprovedServer) -> list[str]:
    """Tell what differs in a tool that was approved: lines as of a diff, fit to be shown."""
    before, now = approved.tools[tool.name], approval_of(tool)
    lines = [*_differing(before.description, now.description)]
    lines += _differing(_spread(before.schema), _spread(now.schema))
    if beyond := sum(map(len, full_description(tool))) - len(now.description) - len(now.schema):
        lines.append(f"  (what stands after that was not kept, and may differ too: {beyond:,} characters)")
    if not lines:
        lines = ["  (it differs far down, in what was not kept)"]
    more = len(lines) - _MOST_DIFF_LINES
    told = [visible(line) for line in lines[:_MOST_DIFF_LINES]]
    return told + ([f"  … and {more} lines more"] if more > 0 else [])


def _differing(before: str, now: str) -> Iterator[str]:
    from difflib import unified_diff

    for line in unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=1):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line}"


def _spread(schema: str) -> str:
    """Return a schema on lines of its own; as it is where it was cut."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema
