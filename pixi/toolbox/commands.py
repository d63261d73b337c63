"""Inline commands: one argument at most, no output, performed the moment the bracket closes."""

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from pixi.core.errors import ConfigError, PixiError
from pixi.core.events import Makes
from pixi.core.message import Need
from pixi.toolbox.context import Context, Draft

CommandFunction = Callable[..., Coroutine[Any, Any, None]]
OnOpen = Callable[[Context], Coroutine[Any, Any, None]]
DoneAhead = Callable[[Context, Draft], Coroutine[Any, Any, Any]]

BY_SETTING: Mapping[str, str] = {"gif": "[gifs] engine", "sticker": "[discord] stickers"}
"""Commands that a setting brings: a persona's file may name them where it is not set, and goes without."""

_NAME = re.compile(r"[^\W\d_]\w*")  # a letter of any script, then letters, digits, underscores


class CameToNothing(PixiError):
    """Raised by a command that did nothing: the turn goes on, and neither people nor history are told."""


class CommandTerms(TypedDict, total=False):
    """Terms of a command beside its names; see `Command`."""

    needs: Need | None
    private: bool
    by_acts: bool
    makes: Makes | None


class Command(Struct):
    """A registered command.

    Attributes:
        name: lower-case; the model writes it in capitals.
        description: its line in the prompt, from the docstring.
        function: `async def name(context, argument)`, or `(context)` alone where it takes none; and after
            them `*, to: int = 0` where it can be about an earlier message, and `ahead=None` where something
            is done ahead.
        argument: what the argument is called in the prompt, from the parameter; "" where it takes none.
        aliases: other names that models use for it.
        opened: what happens when it opens, if anything; set by the decorator `on_open`.
        targeted: it can be about an earlier message, as in `[REACT #3: 😂]`; the function is told which.
        needs: what the place must have for it; where that is missing, nobody is told of the command.
        begins: what is done ahead of it, if anything; set by the decorator `ahead`.
        awaits: the function takes what was begun ahead.
        private: nobody but the persona sees it, not even that it opens.
        by_acts: it does nothing but act, by its context. People see it by its acts and not before, and those
            show it and take their own time; of any other command nobody knows what it does first.
        makes: what it makes of its argument: a message, a note or a reaction. A place that shows messages
            while they are written then shows it so. None: nobody can say before it is done.
    """

    name: str
    description: str
    function: CommandFunction
    argument: str = ""
    aliases: tuple[str, ...] = ()
    opened: OnOpen | None = None
    targeted: bool = False
    needs: Need | None = None
    begins: DoneAhead | None = None
    awaits: bool = False
    private: bool = False
    by_acts: bool = False
    makes: Makes | None = None

    def on_open(self, function: OnOpen) -> OnOpen:
        """Decorator: what happens when the command opens, while its argument is still being written.

        A command that is `by_acts` and came whole is carried out at once, without this.

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

    def ahead(self, function: DoneAhead) -> DoneAhead:
        """Decorator: what is begun when the model opens the command, and goes on beside all else.

        It is `async def name(context, draft)`, and may wait for the draft to be written. The command's
        function gets the running task as `ahead`, and awaits it. It is cancelled where the command is
        dropped, so it must do nothing that anybody could see.

        Raises:
            ConfigError: it is not `async def`, or takes other than context and draft; or the command takes no
                `ahead`.
        """
        wanted = f"`async def {getattr(function, '__name__', 'begin')}(context, draft)`"
        if not inspect.iscoroutinefunction(function) or len(inspect.signature(function).parameters) != 2:
            raise ConfigError(f"command {self.name!r}: write what is done ahead as {wanted}.")
        if not self.awaits:
            raise ConfigError(f"command {self.name!r}: give its function `*, ahead=None`, to await it.")
        self.begins = function
        return function

    async def perform(
        self, context: Context, argument: str, *, target: int = 0, ahead: asyncio.Task[Any] | None = None
    ) -> None:
        """Call the function.

        Args:
            context: what it acts with.
            argument: as it was written.
            target: the number of the message that it is about; 0: none was named.
            ahead: what was begun ahead.
        """
        given = (context, argument) if self.argument else (context,)
        named: dict[str, Any] = {"to": target} if self.targeted else {}
        if self.awaits:
            named["ahead"] = ahead
        await self.function(*given, **named)


_NAMED: Mapping[str, object] = {"to": 0, "ahead": None}
"""The parameters that a command may have by name, and their defaults."""


def command_from(
    function: CommandFunction, *, name: str = "", aliases: tuple[str, ...] = (), **terms: Unpack[CommandTerms]
) -> Command:
    """Make a command of a function: its name, docstring and second parameter are all that is needed.

    A keyword-only parameter `to: int = 0` says that it can be about an earlier message: it gets that one's
    number, or 0. One called `ahead=None` gets what was begun by the function under the decorator `ahead`.

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
    if any(p.name not in _NAMED or p.default != _NAMED[p.name] for p in named):
        raise ConfigError(f"{where}: all that it may have by name is `*, to: int = 0` and `ahead=None`.")
    return Command(
        name=title.lower(),
        description=description,
        function=function,
        argument=parameters[1].name if len(parameters) == 2 else "",
        aliases=tuple(alias.lower() for alias in aliases),
        targeted=any(p.name == "to" for p in named),
        awaits=any(p.name == "ahead" for p in named),
        **terms,
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
        """Return the command of that canonical name."""
        return self._commands.get(name)

    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Return names and aliases, as `CommandStream` wants them."""
        return {command.name: command.aliases for command in self}
