"""What the commands of a reply do ahead: begun when the model opens one, dropped where it is."""

import asyncio
from collections.abc import Iterable
from typing import Any

from pixi.core.commands import CommandEnded, CommandStarted, CommandText
from pixi.core.reading import CommandEvent
from pixi.engine.timeouts import give_up
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.context import Context
from pixi.toolbox.draft import Draft

_AT_ONCE = 4
"""Commands for which something is done ahead at the same time; others begin when they are performed."""


class Ahead:
    """Goes ahead of the performer of one reply, which performs commands in their order, and may take long.

    Args:
        context: what the commands act with.
        commands: the registered ones.
    """

    __slots__ = ("_begun", "_commands", "_context", "_draft", "_ended", "_leaving", "_open", "_wanted")

    def __init__(self, context: Context, commands: CommandRegistry) -> None:
        self._context = context
        self._commands = commands
        self._wanted = any(command.begins is not None for command in commands)
        self._draft = Draft()
        self._open: asyncio.Task[Any] | None = None  # for the command that is being written
        self._begun: dict[int, asyncio.Task[Any]] = {}  # for those that wait, by their numbers
        self._leaving: set[asyncio.Task[Any]] = set()
        self._ended = 0

    def heed(self, events: Iterable[CommandEvent]) -> None:
        """Take note of what was read, in order. Never waits."""
        if not self._wanted:
            return
        for event in events:
            match event:
                case CommandText(text):
                    self._draft.grow(text)
                case CommandStarted(name):
                    self._begin(name)
                case CommandEnded(argument=argument):
                    self._draft.end(argument)
                    if self._open is not None:
                        self._begun[self._ended] = self._open
                        self._open = None
                    self._ended += 1

    def take(self, number: int) -> asyncio.Task[Any] | None:
        """What was begun for the command of this number, counted from 0. Whoever takes it ends it."""
        return self._begun.pop(number, None)

    def end(self, task: asyncio.Task[Any]) -> None:
        """Something is not wanted any more, or was used."""
        if not task.done():
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def drop(self) -> None:
        """Nothing more of what was begun is wanted."""
        for task in (*self._begun.values(), *([self._open] if self._open else ())):
            self.end(task)
        self._begun.clear()
        self._open = None

    async def close(self) -> None:
        """Drop it all; returns when nothing of it is left."""
        self.drop()
        for task in list(self._leaving):
            await give_up(task, "what a command began ahead")

    def _begin(self, name: str) -> None:
        self._draft = Draft()
        if self._open is not None:  # its command broke off before its argument began
            self.end(self._open)
            self._open = None
        command = self._commands.get(name)
        if command is not None and command.begins is not None and len(self._begun) < _AT_ONCE:
            self._open = asyncio.create_task(command.begins(self._context, self._draft))
            self._open.add_done_callback(_look_at)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take note of its error, which may be nobody's business any more; who awaits it gets it all the same."""
    if not task.cancelled():
        task.exception()
