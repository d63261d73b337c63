"""The part of the reach that holds MCP servers, with the tools that they list."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing

from pixi.addons.mcp import register, written
from pixi.app.mcp_settings import lock_of, places, require_sdk
from pixi.app.reach.part import Grounds
from pixi.app.watching import Watched, changes
from pixi.core.errors import ConfigError
from pixi.mcp.lock import LockFile
from pixi.mcp.offers import ForeignTool
from pixi.mcp.server import McpServer
from pixi.settings import McpSettings, Settings

_GRACE_SECONDS = 1.0
"""How long a start waits for servers: those that are quick are there for the first message, others join."""

_MOST_LINES = 100  # told of the tools of one server: the words of some are another each time


def part_on(grounds: Grounds) -> "McpServers":
    """The part.

    Raises:
        ConfigError: the SDK is not installed.
    """
    require_sdk()
    return McpServers(grounds)


class McpServers:
    """A `pixi.app.reach.part.Integration`."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._servers: dict[str, McpServer] = {}
        self._settings: dict[str, McpSettings] = {}
        self._offered: dict[str, tuple[tuple[ForeignTool, ...], McpSettings]] = {}
        self._lock: LockFile | None = None
        self._watching: asyncio.Task[None] | None = None
        self._told: dict[str, set[str]] = {}

    async def go_by(self, settings: Settings) -> None:
        """See `Part`.

        Raises:
            ConfigError: a section cannot hold. Then nothing has changed.
        """
        wanted = places(settings)
        stay = {name for name, each in self._servers.items() if wanted.get(name) == each.where}
        await self._end(set(self._servers) - stay)
        lock = self._lock = self._lock or lock_of(settings)
        self._settings = dict(settings.mcp)
        started: list[McpServer] = []
        for name, where in wanted.items():
            self._grounds.tools.announce(_source(name))
            if name in stay:
                await self._offer(self._servers[name])
                continue
            server = McpServer(name, where, lock, offered=self._offer, tell=self._grounds.report)
            self._servers[name] = server
            server.start()
            started.append(server)
        if self._servers and self._watching is None:
            self._watching = asyncio.create_task(self._watch(lock))
        await _settled(started)

    @property
    def servers(self) -> Mapping[str, McpServer]:
        """Those that the settings name, as they are now."""
        return self._servers

    async def close(self) -> None:
        """See `Part`."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        await self._end(set(self._servers))

    async def _end(self, names: Iterable[str]) -> None:
        """Close servers side by side, and take their tools away."""
        gone = [self._servers.pop(name) for name in names]
        for server in gone:
            self._grounds.tools.remove(_source(server.name))
            self._offered.pop(server.name, None)
        await asyncio.gather(*(server.close() for server in gone))

    async def _offer(self, server: McpServer) -> None:
        """Register the tools of a server, if they are other ones by now. Those of one that is away stay."""
        name = server.name
        if self._servers.get(name) is not server:
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
            lines = register(tools, server, self._grounds.tools, its, schemas)
        except ConfigError as error:
            lines = [str(error)]
        told = self._told.setdefault(name, set())
        for line in lines:
            if line not in told and len(told) < _MOST_LINES:
                told.add(line)
                self._grounds.report(line)

    async def _watch(self, lock: LockFile) -> None:
        """What waits for consent may have it, whenever the lock file changes."""
        async with aclosing(changes(lambda: Watched((lock.path,)))) as changed:
            async for _ in changed:
                for server in self._servers.values():
                    server.look_again()


def _source(name: str) -> str:
    """The source of a server's tools: a persona that names it gets them all."""
    return f"mcp:{name}"


async def _settled(servers: Iterable[McpServer]) -> None:
    """Wait for servers to be ready, or known not to be, but not long."""
    waiting = [asyncio.create_task(server.settled()) for server in servers]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=_GRACE_SECONDS)
        for task in late:
            task.cancel()
