"""Inline commands: one argument at most, no output, performed the moment the bracket closes."""

import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pixi.core.errors import ConfigError
from pixi.toolbox.context import Context

CommandFunction = Callable[..., Coroutine[Any, Any, None]]
OnOpen = Callable[[Context], Coroutine[Any, Any, None]]

_NAME = re.compile(r"[^\W\d_]\w*")  # a letter of any script, then letters, digits, underscores


@dataclass(slots=True)
class Command:
    """A registered command.

    Attributes:
        name: lower-case; the model writes it in capitals.
        description: its line in the prompt, from the docstring.
        function: `async def name(context, argument)`, or `(context)` alone where it takes none; and after
            them `*, to: int = 0` where it can be about an earlier message.
        argument: what the argument is called in the prompt, from the parameter; "" where it takes none.
        aliases: other names that models use for it.
        opened: what happens when it opens, if anything; set by the decorator `on_open`.
        targeted: it can be about an earlier message, as in `[REACT #3: 😂]`; the function is told which.
    """

    name: str
    description: str
    function: CommandFunction
    argument: str = ""
    aliases: tuple[str, ...] = ()
    opened: OnOpen | None = None
    targeted: bool = False

    def on_open(self, function: OnOpen) -> OnOpen:
        """Decorator: what happens when the command opens, while its argument is still being written.

        Raises:
            ConfigError: it is not `async def`, or takes other than the context alone.
        """
        if not inspect.iscoroutinefunction(function) or len(inspect.signature(function).parameters) != 1:
            raise ConfigError(
                f"command {self.name!r}: write what happens when it opens as "
                f"`async def {getattr(function, '__name__', 'opened')}(context)`."
            )
        self.opened = function
        return function

    async def perform(self, context: Context, argument: str, *, target: int = 0) -> None:
        """Call the function. `target` is the number of the message that it is about; 0: none was named."""
        given = (context, argument) if self.argument else (context,)
        if self.targeted:
            await self.function(*given, to=target)
        else:
            await self.function(*given)


def command_from(function: CommandFunction, *, name: str = "", aliases: tuple[str, ...] = ()) -> Command:
    """Make a command of a function: its name, docstring and second parameter are all that is needed.

    A keyword-only parameter `to: int = 0` says that it can be about an earlier message: it gets that one's
    number, or 0.

    Raises:
        ConfigError: it is not `async def`, has no docstring, takes other than one or two parameters, or
            a name of it cannot be written in a command.
    """
    title = name or function.__name__
    where = f"command {title!r}"
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{where}: write it as `async def {function.__name__}(context, text)`.")
    for word in (title, *aliases):
        if not _NAME.fullmatch(word):
            raise ConfigError(f"{where}: {word!r} is no name for a command; use letters, digits and _.")
    description = " ".join(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].split())
    if not description:
        raise ConfigError(f"{where}: give it a docstring; it is the command's line in the prompt.")
    every = list(inspect.signature(function).parameters.values())
    parameters = [p for p in every if p.kind is not p.KEYWORD_ONLY]
    named = [p for p in every if p.kind is p.KEYWORD_ONLY]
    positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if len(parameters) not in (1, 2) or not positional:
        raise ConfigError(f"{where}: a command takes the context and at most one argument.")
    if any(p.name != "to" or p.default != 0 for p in named):
        raise ConfigError(f"{where}: the one parameter it may have by name is `*, to: int = 0`.")
    return Command(
        name=title.lower(),
        description=description,
        function=function,
        argument=parameters[1].name if len(parameters) == 2 else "",
        aliases=tuple(alias.lower() for alias in aliases),
        targeted=bool(named),
    )


class CommandRegistry:
    """The commands that an engine knows, by name and in the order they were added."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self._taken: set[str] = set()

    def add(self, command: Command) -> None:
        """Register it.

        Raises:
            ConfigError: the name or an alias is taken.
        """
        words = (command.name, *command.aliases)
        for word in words:
            if word in self._taken:
                raise ConfigError(f"command {command.name!r}: the name {word!r} is taken; give it another.")
        self._taken.update(words)
        self._commands[command.name] = command

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands.values())

    def __len__(self) -> int:
        return len(self._commands)

    def get(self, name: str) -> Command | None:
        """The command of that canonical name."""
        return self._commands.get(name)

    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Names and aliases, as `CommandStream` wants them."""
        return {command.name: command.aliases for command in self}
