"""The door through which every command and tool comes in, the built-in ones too: `def setup(addon)`."""

from collections.abc import Callable
from typing import Unpack, overload

from pixi.core.events import Makes
from pixi.core.picture import Need
from pixi.toolbox.commands import Command, CommandFunction, CommandRegistry, command_from
from pixi.toolbox.schema import ToolFunction
from pixi.toolbox.tools import Terms, Tool, Toolbox, tool_from


class Addon:
    """What `setup` is given.

    Example:
        def setup(addon):
            @addon.command
            async def wave(context, how: str):
                "wave at the person"
                await context.send(f"*waves {how}*")
    """

    def __init__(self, commands: CommandRegistry, tools: Toolbox) -> None:
        self._commands = commands
        self._tools = tools

    @overload
    def command(self, function: CommandFunction) -> Command: ...
    @overload
    def command(
        self,
        *,
        name: str = "",
        aliases: tuple[str, ...] = (),
        needs: Need | None = None,
        private: bool = False,
        by_acts: bool = False,
        makes: Makes | None = None,
    ) -> Callable[[CommandFunction], Command]: ...
    def command(
        self,
        function: CommandFunction | None = None,
        *,
        name: str = "",
        aliases: tuple[str, ...] = (),
        needs: Need | None = None,
        private: bool = False,
        by_acts: bool = False,
        makes: Makes | None = None,
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
            command = command_from(
                function,
                name=name,
                aliases=aliases,
                needs=needs,
                private=private,
                by_acts=by_acts,
                makes=makes,
            )
            self._commands.add(command)
            return command

        return register if function is None else register(function)

    @overload
    def tool(self, function: ToolFunction) -> Tool: ...
    @overload
    def tool(self, **terms: Unpack[Terms]) -> Callable[[ToolFunction], Tool]: ...
    def tool(
        self, function: ToolFunction | None = None, **terms: Unpack[Terms]
    ) -> Tool | Callable[[ToolFunction], Tool]:
        """Decorator: register `async def name(context, ...)` as a tool, on the terms named in `Terms`.

        Raises:
            ConfigError: the function cannot be a tool, its name is taken, or the terms cannot hold.
        """

        def register(function: ToolFunction) -> Tool:
            tool = tool_from(function, **terms)
            self._tools.add(tool)
            return tool

        return register if function is None else register(function)
