"""The door through which every command and tool comes in, the built-in ones too: `def setup(addon)`."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar, Unpack, cast, overload

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.language import BUILT_IN, NOTE, REACT, SEND
from pixi.core.routes import AddonRoute, Answer, Caller, Follow, RouteError
from pixi.store.tables import Schema, Tables
from pixi.toolbox.commands import Command, CommandFunction, CommandRegistry, CommandTerms, command_from
from pixi.toolbox.context import Context, Notice
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.schema import ToolFunction
from pixi.toolbox.tools import Tool, Toolbox, ToolTerms, tool_from

T = TypeVar("T")
ReadSettings = Callable[[str, type[Any]], Any]


class AddonExtras(Struct):
    """Parts of addons besides commands and tools.

    Attributes:
        tables: that they keep in the store, to be opened.
        routes: over HTTP.
        closing: what is called when the program ends.
    """

    tables: list[Tables] = field(default_factory=list)
    routes: list[AddonRoute] = field(default_factory=list)
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)


def defaults(name: str, kind: type[Any]) -> Any:
    """Return an addon's settings where nobody gave any."""
    return kind()


def _guarded(route: AddonRoute) -> Answer | Follow:
    """Return the route's function; what it raises that it should not have is told to the log alone."""

    @contextmanager
    def told() -> Iterator[None]:
        try:
            with foreign(f"route {route.method} {route.path}"):
                yield
        except ForeignError as error:
            raise RouteError(500, "Broken", "Something broke inside; the server's log tells what.") from error

    async def answer(caller: Caller, asked: Any) -> Any:
        with told():
            return await cast(Answer, route.answer)(caller, asked)

    async def follow(caller: Caller, asked: Any) -> AsyncGenerator[Mapping[str, Any], None]:
        with told():
            async with aclosing(cast(Follow, route.answer)(caller, asked)) as objects:
                async for each in objects:
                    yield each

    return follow if route.streams else answer


class Addon:
    """The argument of `setup`.

    Example:
        def setup(addon):
            @addon.command
            async def wave(context, how: str):
                "wave at the person"
                await context.send(f"*waves {how}*")
    """

    def __init__(
        self,
        commands: CommandRegistry,
        tools: Toolbox,
        brought: AddonExtras | None = None,
        read_settings: ReadSettings = defaults,
    ) -> None:
        self._commands = commands
        self._tools = tools
        self._brought = brought or AddonExtras()
        self._read_settings = read_settings

    def settings(self, name: str, kind: type[T]) -> T:
        """Return the settings of `[addon.NAME]` in pixi.toml, and `PIXI_ADDON__NAME__KEY`.

        Args:
            name: small letters, digits, - and _.
            kind: a dataclass with defaults; its fields are the keys.

        Raises:
            ConfigError: a key is not known, or of another type.
        """
        read: T = self._read_settings(name, kind)
        return read

    def tables(self, schema: Schema) -> Tables:
        """Keep tables in the store, which are open once the program has started: not yet in `setup`."""
        tables = Tables(schema)
        self._brought.tables.append(tables)
        return tables

    def route(self, route: AddonRoute) -> None:
        """Add a way in over HTTP, for `pixi-persona serve`.

        Raises:
            ConfigError: there is one of that method and path.
        """
        if any((each.method, each.path) == (route.method, route.path) for each in self._brought.routes):
            raise ConfigError(f"route {route.method} {route.path} is taken; choose another path.")
        self._brought.routes.append(replace(route, answer=_guarded(route)))

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this when the program ends, e.g. to give back connections."""
        self._brought.closing.append(close)

    def notice(self, notice: Notice) -> None:
        """Tell personas something of messages by itself; see `Notice`."""
        self._tools.notices.append(notice)

    @overload
    def command(self, function: CommandFunction) -> Command: ...
    @overload
    def command(
        self, *, name: str = "", aliases: tuple[str, ...] = (), **terms: Unpack[CommandTerms]
    ) -> Callable[[CommandFunction], Command]: ...
    def command(
        self,
        function: CommandFunction | None = None,
        *,
        name: str = "",
        aliases: tuple[str, ...] = (),
        **terms: Unpack[CommandTerms],
    ) -> Command | Callable[[CommandFunction], Command]:
        """Decorator: register `async def name(context, argument)` as an inline command.

        Written `async def name(context, argument, *, to: int = 0)` it can be about an earlier message, whose
        number it is told. With `needs` it is only known where the place has what it needs. With `private`
        nobody is shown that it opens; with `by_acts` it promises to do nothing but act by its context; with
        `makes` that its argument becomes a message, a note or a reaction, which is then shown as it grows.

        Raises:
            ConfigError: the function cannot be a command, or its name is taken.
        """

        def register(function: CommandFunction) -> Command:
            command = command_from(function, name=name, aliases=aliases, **terms)
            self._commands.add(command)
            return command

        return register if function is None else register(function)

    @overload
    def tool(self, function: ToolFunction) -> Tool: ...
    @overload
    def tool(self, **terms: Unpack[ToolTerms]) -> Callable[[ToolFunction], Tool]: ...
    def tool(
        self, function: ToolFunction | None = None, **terms: Unpack[ToolTerms]
    ) -> Tool | Callable[[ToolFunction], Tool]:
        """Decorator: register `async def name(context, ...)` as a tool, on the terms named in `ToolTerms`.

        Raises:
            ConfigError: the function cannot be a tool, its name is taken, or the terms cannot hold.
        """

        def register(function: ToolFunction) -> Tool:
            tool = tool_from(function, **terms)
            self._tools.add(tool)
            return tool

        return register if function is None else register(function)


Setup = Callable[[Addon], object]
"""Registers what an addon brings."""


def basics(addon: Addon) -> None:
    """Register the commands that every persona knows: send, note, react."""

    @addon.command(aliases=BUILT_IN[SEND], by_acts=True, makes="message")
    async def send(context: Context, message: str, *, to: int = 0) -> None:
        """a message in the chat; write several for several messages, none to stay silent"""
        await context.send(message, to=to)

    @send.on_open
    async def typing(context: Context) -> None:
        await context.typing()

    @addon.command(aliases=BUILT_IN[NOTE], by_acts=True, private=True, makes="note")
    async def note(context: Context, thought: str) -> None:
        """a private thought: how you feel, what you want to do; nobody else reads it"""
        await context.note(thought)

    @addon.command(aliases=BUILT_IN[REACT], by_acts=True, makes="reaction")
    async def react(context: Context, emoji: str, *, to: int = 0) -> None:
        """an emoji put on the message that you answer"""
        await context.react(emoji, to=to)
