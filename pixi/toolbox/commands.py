"""Inline commands: one argument at most, no output, performed the moment the bracket closes."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from pixi.core.errors import ConfigError
from pixi.toolbox.context import Context

OnOpen = Callable[[Context], Awaitable[None]]


@dataclass(slots=True)
class Command:
    """A registered command.

    Attributes:
        name: lower-case; the model writes it in capitals.
        description: its line in the prompt, from the docstring.
        function: `async def name(context, argument)`, or `(context)` alone where it takes none.
        argument: what the argument is called in the prompt, from the parameter; "" where it takes none.
        aliases: other names that models use for it.
    """

    name: str
    description: str
    function: Callable[..., Awaitable[None]]
    argument: str = ""
    aliases: tuple[str, ...] = ()
    opened: OnOpen | None = None

    def on_open(self, function: OnOpen) -> OnOpen:
        """Decorator: what happens when the command opens, while its argument is still being written."""
        self.opened = function
        return function

    async def perform(self, context: Context, argument: str) -> None:
        """Call the function."""
        if self.argument:
            await self.function(context, argument)
        else:
            await self.function(context)


def command_from(
    function: Callable[..., Awaitable[None]], *, name: str = "", aliases: tuple[str, ...] = ()
) -> Command:
    """Make a command of a function: its name, docstring and second parameter are all that is needed.

    Raises:
        ConfigError: it is not `async def`, has no docstring, or takes other than one or two parameters.
    """
    title = name or function.__name__
    where = f"command {title!r}"
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{where}: write it as `async def {function.__name__}(context, text)`.")
    description = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if not description:
        raise ConfigError(f"{where}: give it a docstring; it is the command's line in the prompt.")
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) not in (1, 2):
        raise ConfigError(f"{where}: a command takes the context and at most one argument.")
    return Command(
        name=title.lower(),
        description=description,
        function=function,
        argument=parameters[1] if len(parameters) == 2 else "",
        aliases=tuple(alias.lower() for alias in aliases),
    )


class CommandRegistry:
    """The commands that an engine knows, by name and in the order they were added."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}

    def add(self, command: Command) -> None:
        """Register it.

        Raises:
            ConfigError: the name or an alias is taken.
        """
        taken = {word for known in self for word in (known.name, *known.aliases)}
        for word in (command.name, *command.aliases):
            if word in taken:
                raise ConfigError(f"command {command.name!r}: the name {word!r} is taken.")
        self._commands[command.name] = command

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands.values())

    def get(self, name: str) -> Command | None:
        """The command of that canonical name."""
        return self._commands.get(name)

    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Names and aliases, as `CommandStream` wants them."""
        return {command.name: command.aliases for command in self}
