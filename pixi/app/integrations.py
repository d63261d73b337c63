"""Integrations: what personas can reach beyond the chat, opened, changed and closed as the settings want."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from pixi.core.errors import ConfigError, Reporter
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.app.databases import DatabasePool
    from pixi.engine.context import EngineSettings
    from pixi.mcp.server import McpServer
    from pixi.toolbox.addon import Addon, Setup
    from pixi.toolbox.tools import Toolbox


class _Closing(Protocol):
    async def close(self) -> None: ...


Kept = TypeVar("Kept", bound=_Closing)

Apply = Callable[["Integrations", Settings], Awaitable[None]]
"""Brings tools and commands in line with the settings; called at the start, and when they changed.

It does not wait for what may take long: that joins when it is there. What cannot be had is reported, and
leaves the rest as it is. Settings that cannot hold raise `ConfigError`.
"""

_MCP, _TOOLS, _COMMANDS = "mcp_integration", "tool_integrations", "command_integrations"


class _Kind(NamedTuple):
    """An integration that there may be.

    Attributes:
        module: in `pixi.app`, with its `Apply`. It is imported where the integration is wanted: what reaches
            out is heavy.
        is_wanted: returns whether the settings want it.
        is_command: it brings commands alone. Any model can write commands, without tools too; and as no
            command is ever taken away, it counts from the next start.
    """

    module: str
    is_wanted: Callable[[Settings], bool]
    is_command: bool = False


_KINDS: Mapping[str, _Kind] = {
    "apply_mcp": _Kind(_MCP, lambda settings: bool(settings.mcp)),
    "apply_search": _Kind(_TOOLS, lambda settings: settings.web_search.engine != "off"),
    "apply_pages": _Kind(_TOOLS, lambda settings: settings.web_pages.read),
    "apply_wikis": _Kind(_TOOLS, lambda settings: bool(settings.wiki)),
    "apply_gifs": _Kind(_COMMANDS, lambda settings: settings.gifs.engine != "off", is_command=True),
    "apply_stickers": _Kind(_COMMANDS, lambda settings: settings.discord.stickers, is_command=True),
    "apply_history": _Kind(_TOOLS, lambda settings: settings.discord.read_history),
}
"""The integrations by the names of their `Apply`."""


@dataclass(eq=False)
class Integrations:
    """Opens and closes the integrations: all that personas can reach beyond the chat. `close` ends them.

    Attributes:
        addon: takes commands and tools.
        tools: those that were registered; from there they are taken away again.
        engine_settings: how the engine gives replies.
        library: has the agent that reads what is too long.
        report: told what a person should know, in one line: a server that cannot be started.
        cannot_search: the model of which was said last that it cannot search the web by itself.
    """

    addon: "Addon"
    tools: "Toolbox"
    engine_settings: "EngineSettings"
    library: "DatabasePool"
    report: Reporter

    def __post_init__(self) -> None:
        self._is_start = True  # nothing was applied yet
        self._used: dict[str, Apply] = {}  # that were wanted once; they take their tools away by themselves
        self._kept: dict[str, Any] = {}  # what `once` made
        self._wanted: dict[str, object] = {}  # by source, what its tools go by; None: they were taken away
        self._closing = AsyncExitStack()
        self.cannot_search: str | None = None

    async def apply(self, settings: Settings, *, tools: bool = True) -> None:
        """Open what the settings want, and bring what is open in line with them.

        Without `tools`, only those that bring commands are opened.

        Raises:
            ConfigError: the settings of one cannot hold. Then the others may have changed already; `apply`
                other settings, such as those before.
        """
        is_start, self._is_start = self._is_start, False
        for name, kind in _KINDS.items():
            may_be_opened = is_start if kind.is_command else tools
            if may_be_opened and name not in self._used and kind.is_wanted(settings):
                module = await asyncio.to_thread(importlib.import_module, f"pixi.app.{kind.module}")
                # Before it is called: one that fails is called with the next settings too, and goes by them.
                self._used[name] = getattr(module, name)
        for name, apply in self._used.items():
            if is_start or not _KINDS[name].is_command:
                await apply(self, settings)
        if web := self._kept.get("web"):
            web.contact = settings.web_pages.contact

    def once(self, name: str, make: Callable[[], Kept]) -> Kept:
        """Return what was made under a name; it is made when first asked for, and closed with all else."""
        if name not in self._kept:
            made = self._kept[name] = make()
            self._closing.push_async_callback(made.close)
        return cast("Kept", self._kept[name])

    def bring(self, source: str, wanted: object = None, setup: "Setup | None" = None) -> None:
        """Register the tools of a source anew where what they go by is another than before.

        Args:
            source: of the tools.
            wanted: what they go by; None: they are only taken away.
            setup: registers them.

        Raises:
            ConfigError: a name is taken. Then none of them is there.
        """
        if wanted == self._wanted.get(source):
            return
        self.tools.remove(source)
        self._wanted[source] = None
        if setup is not None and wanted is not None:
            try:
                setup(self.addon)
            except ConfigError:
                self.tools.remove(source)
                raise
            self._wanted[source] = wanted

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources whose tools were brought by now, also those that were taken away."""
        return tuple(self._wanted)

    @property
    def mcp_servers(self) -> Mapping[str, "McpServer"]:
        """The MCP servers, by the names of their sections."""
        servers: Mapping[str, McpServer] = getattr(self._kept.get("mcp"), "servers", {})
        return servers

    async def close(self) -> None:
        """Give back all that was opened, whatever happens to one of them."""
        await self._closing.aclose()
