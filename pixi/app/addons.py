"""Loads the addons of a start, and sees whether personas name what those of its command line bring."""

import asyncio
import importlib
import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pixi.core.errors import ConfigError, PixiError, Reporter, StoreError
from pixi.core.persona import Persona
from pixi.settings import Settings
from pixi.settings.secret import secrets_in
from pixi.settings.values import addon_settings
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.tools import Toolbox

if TYPE_CHECKING:
    from pixi.addons.loading import AddonContents
    from pixi.engine.engine import Engine
    from pixi.store.store import Store
    from pixi.toolbox.addon import AddonExtras, Setup


def load_all(
    settings: Settings,
    more: "Sequence[Path | Setup]",
    commands: CommandRegistry,
    tools: Toolbox,
    report: Reporter,
    *,
    brought: "AddonExtras | None" = None,
) -> "list[AddonContents]":
    """Load the addons of the settings, but for those that fail, then `more`; each file once.

    Returns what each of `more` registered, also where the settings name it too. What else addons bring is
    added to `brought`.

    Raises:
        ConfigError: some of `more`, which somebody named for this start, cannot be used.
    """
    from pixi.addons.loading import installed, load_addon, load_addons, named

    read = AddonSettingsReader(settings, tools)
    asked = {each.resolve() if isinstance(each, Path) else each: each for each in more}
    others = (path for path in settings.addons if path.resolve() not in asked)
    sources = [*installed(), *map(named, others)]
    for problem in load_addons(sources, commands, tools, brought, read):
        report(problem)
    contents: list[AddonContents] = []
    faults: list[str] = []
    for each in asked.values():
        source = named(each)
        try:
            contents.append(load_addon(source, commands, tools, brought, read))
        except PixiError as error:
            mend = "" if str(error).endswith(".") else "; mend it, or start without it."
            faults.append(f"addon {each if isinstance(each, Path) else source.name}: {error}{mend}")
    if faults:
        raise ConfigError(*faults)
    for remark in read.unread():
        report(remark)
    return contents


async def open_tables(store: "Store", brought: "AddonExtras", report: Reporter) -> None:
    """Open the tables of addons. Where that cannot be done, tell: their tools say so when they are used."""
    for tables in brought.tables:
        try:
            await store.open_tables(tables)
        except StoreError as error:
            report(f"addon {tables.schema.name}: its tables cannot be opened: {error}")


async def open_addons(
    settings: Settings,
    more: "Sequence[Path | Setup]",
    engine: "Engine",
    store: "Store",
    stack: AsyncExitStack,
    *,
    report: Reporter,
) -> "tuple[AddonExtras, Sequence[AddonContents]]":
    """Load the addons, and open what they bring besides commands and tools; the stack closes that."""
    from pixi.toolbox.addon import AddonExtras

    brought = AddonExtras()
    loaded = load_all(settings, more, engine.commands, engine.tools, report, brought=brought)
    for close in brought.closing:
        stack.push_async_callback(close)
    await open_tables(store, brought, report)
    return brought, loaded


async def reach_tables(settings: Settings, store: "Store", report: Reporter) -> None:
    """Open the tables of the addons of the settings, so that who is forgotten is forgotten there, too.

    The addons are loaded as at a start; what they print goes to standard error. Tables that nobody opened are
    told of.
    """
    from pixi.toolbox.addon import AddonExtras

    brought = AddonExtras()
    with redirect_stdout(sys.stderr):
        load_all(settings, (), CommandRegistry(), Toolbox(), report, brought=brought)
    await open_tables(store, brought, report)
    for name in await store.unreached_tables():
        report(f"The tables of the addon {name} are not looked into: name it in `addons` of pixi.toml first.")


async def load_memory(store: "Store", engine: "Engine") -> None:
    """Register the tools with which personas remember."""
    # Imported where it is wanted: tools need pydantic, and a persona without tools starts sooner.
    await asyncio.to_thread(importlib.import_module, "pixi.addons.memory")
    from pixi.addons import memory

    memory.setup_with(store)(engine.addon)


class AddonSettingsReader:
    """Reads the settings of addons, and knows whose were read. What is secret in them is hidden from then on.

    Attributes:
        names: of the sections that were read.
    """

    def __init__(self, settings: Settings, tools: Toolbox) -> None:
        self.names: set[str] = set()
        self._settings = settings
        self._tools = tools

    def unread(self) -> list[str]:
        """Tell of sections that no addon read."""
        mend = "name the addon in `addons`, or remove the section."
        names = (name for name in self._settings.addon if name not in self.names)
        return [f"[addon.{name}] is read by no addon: {mend}" for name in names]

    def __call__(self, name: str, kind: type[Any]) -> Any:
        """Read one; see `pixi.toolbox.addon.Addon.settings`."""
        self.names.add(name)
        folder = Path() if self._settings.origin is None else self._settings.origin.parent
        given = self._settings.addon.get(name, {})
        value = addon_settings(name, kind, given, folder)
        self._tools.mask.learn(secrets_in(value) | secrets_in(given))
        return value


def with_addon(brought: "AddonContents", persona: Persona, engine: "Engine", remark: Reporter) -> Persona:
    """Return the persona with the commands and tools of an addon that was named at the start.

    What the persona's file does not name is remarked on, with what would make it permanent.
    """
    from pixi.engine.capabilities import not_named

    its_tools = [tool for tool in engine.tools if tool.name in brought.tools]
    commands, tools = not_named(persona, brought.commands, its_tools)
    if tools and not engine.model.traits.tools:
        remark(f"{brought.addon} brings {', '.join(tools)}: this model is offered no tools.")
        tools = ()
    if commands or tools:
        them = "it" if len(commands) + len(tools) == 1 else "them"
        remark(
            f"{brought.addon} brings {', '.join((*commands, *tools))}; {persona.name}'s file does not name "
            f"{them}, so that this talk alone has {them} (to keep {them}, add {_keys(commands, tools)} "
            "there, and the addon to `addons` in pixi.toml)."
        )
    if not brought.commands and not brought.tools:
        remark(f"{brought.addon} brings nothing: its `setup` registers no command and no tool.")
    return replace(
        persona,
        tools=(*persona.tools, *tools),
        commands=None if persona.commands is None else (*persona.commands, *commands),
    )


def tell_of_unnamed(
    brought: "AddonContents", personas: Iterable[Persona], engine: "Engine", report: Reporter
) -> None:
    """Tell of what an addon brought and no persona's file names: among many people the file decides."""
    from pixi.engine.capabilities import not_named

    its_tools = [tool for tool in engine.tools if tool.name in brought.tools]
    unnamed = [not_named(persona, brought.commands, its_tools) for persona in personas]
    commands = tuple(name for name in brought.commands if all(name in each for each, _ in unnamed))
    tools = tuple(name for name in brought.tools if all(name in each for _, each in unnamed))
    if commands or tools:
        report(
            f"{brought.addon} brings {', '.join((*commands, *tools))}; no persona's file names it "
            f"(add {_keys(commands, tools)} to one)."
        )


def _keys(commands: Sequence[str], tools: Sequence[str]) -> str:
    """Return the names that a persona's file uses for commands and tools."""
    named = {"commands": commands, "tools": tools}
    return " and ".join(f"{key}: [{', '.join(names)}]" for key, names in named.items() if names)
