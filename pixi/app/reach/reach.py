"""The parts of the reach that the settings name: opened when they are wanted, changed and closed together."""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pixi.app.reach.part import Grounds, Integration
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.mcp.server import McpServer

PARTS: Mapping[str, Callable[[Settings], bool]] = {
    "mcp_servers": lambda settings: bool(settings.mcp),
    "web_search": lambda settings: settings.web_search.engine != "off",
    "web_pages": lambda settings: settings.web_pages.read,
    "wikis": lambda settings: bool(settings.wiki),
    "gifs": lambda settings: settings.gifs.engine != "off",
    "stickers": lambda settings: settings.discord.stickers,
    "server_history": lambda settings: settings.discord.read_history,
}
"""By the names of their modules, each of which has `part_on(grounds)`: whether the settings want it."""


COMMANDS = frozenset({"gifs", "stickers"})
"""Parts that bring commands alone. Any model can write those, without tools too; and as no command is ever
taken away, they count from the next start."""


class Reach:
    """What personas can reach beyond the chat.

    Args:
        grounds: what its parts stand on.
    """

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._parts: dict[str, Integration] = {}
        self._started = False

    async def go_by(self, settings: Settings, *, tools: bool = True) -> None:
        """Open the parts that the settings want, and bring those that are open in line with them.

        Without `tools`, only parts that bring commands are opened.

        Raises:
            ConfigError: the settings of one cannot hold. Then the others may have changed already.
        """
        for name, wanted in PARTS.items():
            fits = not self._started if name in COMMANDS else tools
            if name not in self._parts and fits and wanted(settings):
                self._parts[name] = await self._opened(name)
        self._started = True
        for part in self._parts.values():
            await part.go_by(settings)

    @property
    def mcp_servers(self) -> Mapping[str, "McpServer"]:
        """The MCP servers, by the names of their sections."""
        part = self._parts.get("mcp_servers")
        if part is None:
            return {}
        from pixi.app.reach.mcp_servers import McpServers

        assert isinstance(part, McpServers)
        return part.servers

    async def close(self) -> None:
        """Close all parts, whatever happens to one of them."""
        async with AsyncExitStack() as stack:
            for part in self._parts.values():
                stack.push_async_callback(part.close)
        self._parts.clear()

    async def _opened(self, name: str) -> Integration:
        # Imported in a thread, and only where it is wanted: what reaches out is heavy.
        module = await asyncio.to_thread(importlib.import_module, f"pixi.app.reach.{name}")
        part: Integration = module.part_on(self._grounds)
        return part
