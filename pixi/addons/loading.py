"""Finds addons, installed ones and files, and lets each register; one that fails is named and left out."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from msgspec import Struct

from pixi.core.errors import PixiError
from pixi.toolbox.addon import Addon, AddonExtras, ReadSettings, Setup, defaults
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.tools import Toolbox

GROUP = "pixi.addons"
"""The entry points of this group are addons: each a module with `setup`, or the function itself."""

T = TypeVar("T")


class AddonSource(Struct, frozen=True):
    """The source of an addon: `name` for people, and the way to its `setup`."""

    name: str
    find: Callable[[], object]


class AddonError(PixiError):
    """An addon cannot be used. The text says why, in one line."""


def installed() -> list[AddonSource]:
    """Return the addons of installed packages, in order of their names."""
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [_from_entry_point(point) for point in found]


class Shipped(Struct, frozen=True):
    """An addon that comes along: the module with its `setup`, and the folder of its personas."""

    module: str
    personas: str


SHIPPED = {"companion": Shipped("pixi.companion.addon", "pixi/companion/personas")}
"""The addons that come along, by the names that the settings have for them."""


def named(path: Path | Setup) -> AddonSource:
    """Return the addon that a setting names: one that comes along, a file, or a program's own `setup`."""
    if not isinstance(path, Path):
        return AddonSource(f"{path.__module__.rpartition('.')[2]}.py", lambda: path)
    if is_shipped(path):
        return AddonSource(path.name, lambda: importlib.import_module(SHIPPED[path.name].module))
    return from_file(path)


def is_shipped(path: Path) -> bool:
    """Return True for the name of an addon that comes along, where no file is called so."""
    return path.name in SHIPPED and not path.exists()


def personas_of(paths: Iterable[Path]) -> list[Path]:
    """Return the folders of the personas of addons that come along."""
    root = Path(__file__).resolve().parent.parent.parent
    return [root / SHIPPED[path.name].personas for path in paths if is_shipped(path)]


def from_file(path: Path) -> AddonSource:
    """Return the addon in a file."""
    return AddonSource(path.name or str(path), lambda: _module_of(path))


def load_addons(
    sources: Iterable[AddonSource],
    commands: CommandRegistry,
    tools: Toolbox,
    brought: AddonExtras | None = None,
    settings: ReadSettings = defaults,
) -> list[str]:
    """Let each addon register what it brings; gives a line for each that was left out.

    An addon registers as a whole or not at all.
    """
    problems: list[str] = []
    for source in sources:
        try:
            load_addon(source, commands, tools, brought, settings)
        except PixiError as error:
            problems.append(f"addon {source.name} is left out: {error}")
    return problems


class AddonContents(Struct, frozen=True):
    """Content of an addon, by name."""

    addon: str
    commands: tuple[str, ...]
    tools: tuple[str, ...]


def load_addon(
    source: AddonSource,
    commands: CommandRegistry,
    tools: Toolbox,
    brought: AddonExtras | None = None,
    settings: ReadSettings = defaults,
) -> AddonContents:
    """Let an addon register what it brings, all or none of it.

    Args:
        source: where it comes from.
        commands, tools: to which its own are added.
        brought: to which is added what else it brings; None: nobody wants it.
        settings: reads its settings; its defaults are taken where nobody does.

    Raises:
        PixiError: it cannot be used; the text says why.
    """
    setup = _setup_of(_called(source.find))
    # It registers on a copy, so that nothing has to be taken back.
    brought = AddonExtras() if brought is None else brought
    copied_commands, copied_tools = _copy(commands, tools)
    more = AddonExtras(routes=[*brought.routes])
    _called(lambda: setup(Addon(copied_commands, copied_tools, more, settings)))
    new_commands = [command for command in copied_commands if commands.get(command.name) is None]
    new_tools = [tool for tool in copied_tools if tools.get(tool.name) is None]
    for command in new_commands:
        commands.add(command)
    for tool in new_tools:
        tools.add(tool)
    tools.notices += copied_tools.notices
    brought.tables += more.tables
    brought.routes = more.routes
    brought.closing += more.closing
    return AddonContents(
        source.name, tuple(each.name for each in new_commands), tuple(each.name for each in new_tools)
    )


def _copy(commands: CommandRegistry, tools: Toolbox) -> tuple[CommandRegistry, Toolbox]:
    copied_commands, copied_tools = CommandRegistry(), Toolbox()
    for command in commands:
        copied_commands.add(command)
    for tool in tools:
        copied_tools.add(tool)
    return copied_commands, copied_tools


def _setup_of(found: object) -> Setup:
    setup = found if callable(found) else getattr(found, "setup", None)
    if not callable(setup):
        raise AddonError("it has no `def setup(addon)`; write one that registers its commands and tools.")
    if inspect.iscoroutinefunction(setup):
        raise AddonError("its `setup` is never awaited; write `def setup(addon)` without `async`.")
    return setup


def _called(function: Callable[[], T]) -> T:
    """Call what somebody else wrote; whatever goes wrong is an `AddonError` of one line."""
    try:
        with foreign("an addon"):
            return function()
    except ForeignError as error:
        raise AddonError(_told(error.__cause__ or error)) from error


def _told(error: BaseException) -> str:
    """Return the error in one line, with the place in the addon where it happened."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}."
    if isinstance(error, SystemExit):
        return "it tried to end the program (SystemExit)."
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text or 'no reason given'}{_place(error)}"


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    line = 0
    while trace:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(_PREFIX):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def _from_entry_point(point: EntryPoint) -> AddonSource:
    package = point.dist.name if point.dist else point.value
    return AddonSource(f"{point.name} (of {package})", point.load)


_PREFIX = "pixi_addon_"


def _module_of(path: Path) -> ModuleType:
    """Import a file under a name of its own.

    Raises:
        AddonError: there is no such file, or it is no Python file.
    """
    if not path.is_file():
        from difflib import get_close_matches

        near = get_close_matches(path.name, SHIPPED, 1)
        mend = f"do you mean {near[0]!r}, which comes along?" if near else "check the path."
        raise AddonError(f"there is no file {path}; {mend}")
    spec = importlib.util.spec_from_file_location(_PREFIX + path.stem, path)
    if spec is None or spec.loader is None:
        raise AddonError("it is not a Python file; its name must end in .py.")
    return _executed(spec)


def _executed(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    with ExitStack() as undo:
        # Dataclasses and pickles look their module up by name while it is still being executed.
        sys.modules[spec.name] = module
        undo.callback(sys.modules.pop, spec.name, None)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
