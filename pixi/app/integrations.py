"""Integrations: what personas can reach beyond the chat, opened, changed and closed as the settings want."""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pixi.core.errors import Reporter
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.app.databases import DatabasePool
    from pixi.engine.context import EngineSettings
    from pixi.mcp.server import McpServer
    from pixi.toolbox.addon import Addon
    from pixi.toolbox.tools import Toolbox


class IntegrationContext(Struct, frozen=True):
    """Context that an integration is given.

    Attributes:
        addon: takes commands and tools.
        tools: those that were registered; from there they are taken away again.
        engine_settings: how the engine gives replies.
        library: has the agent that reads what is too long.
        report: told what a person should know, in one line: a server that cannot be started.
    """

    addon: "Addon"
    tools: "Toolbox"
    engine_settings: "EngineSettings"
    library: "DatabasePool"
    report: Reporter


class Integration(Protocol):
    """A way out of the chat."""

    async def apply(self, settings: Settings) -> None:
        """Bring tools and commands in line with the settings; called at the start, and when they changed.

        It does not wait for what may take long: that joins when it is there. What cannot be had is reported,
        and leaves the rest as it is.

        Raises:
            ConfigError: the settings cannot hold.
        """
        ...

    async def close(self) -> None:
        """Give back all that was opened. Calling it twice does no harm."""
        ...


_MODULES: Mapping[str, tuple[str, Callable[[Settings], bool]]] = {
    "McpIntegration": ("mcp_integration", lambda settings: bool(settings.mcp)),
    "SearchIntegration": ("tool_integrations", lambda settings: settings.web_search.engine != "off"),
    "PagesIntegration": ("tool_integrations", lambda settings: settings.web_pages.read),
    "WikiIntegration": ("tool_integrations", lambda settings: bool(settings.wiki)),
    "GifIntegration": ("command_integrations", lambda settings: settings.gifs.engine != "off"),
    "StickerIntegration": ("command_integrations", lambda settings: settings.discord.stickers),
    "HistoryIntegration": ("tool_integrations", lambda settings: settings.discord.read_history),
}
"""Module of each `Integration` by name, and a test whether the settings want it."""

_COMMANDS = "command_integrations"
"""The module of those that bring commands alone. Any model can write commands, without tools too; and as no
command is ever taken away, they count from the next start."""


class Integrations:
    """The reach of personas beyond the chat.

    Args:
        context: what they are given.
    """

    def __init__(self, context: IntegrationContext) -> None:
        self._context = context
        self._open: dict[str, Integration] = {}
        self._started = False

    async def apply(self, settings: Settings, *, tools: bool = True) -> None:
        """Open what the settings want, and bring what is open in line with them.

        Without `tools`, only those that bring commands are opened.

        Raises:
            ConfigError: the settings of one cannot hold. Then the others may have changed already.
        """
        for name, (module, wanted) in _MODULES.items():
            fits = not self._started if module == _COMMANDS else tools
            if name not in self._open and fits and wanted(settings):
                # Imported in a thread, and only where it is wanted: what reaches out is heavy.
                loaded = await asyncio.to_thread(importlib.import_module, f"pixi.app.{module}")
                self._open[name] = getattr(loaded, name)(self._context)
        self._started = True
        for each in self._open.values():
            await each.apply(settings)

    @property
    def mcp_servers(self) -> Mapping[str, "McpServer"]:
        """The MCP servers, by the names of their sections."""
        servers: Mapping[str, McpServer] = getattr(self._open.get("McpIntegration"), "servers", {})
        return servers

    async def close(self) -> None:
        """Close all, whatever happens to one of them."""
        async with AsyncExitStack() as stack:
            for each in self._open.values():
                stack.push_async_callback(each.close)
        self._open.clear()
