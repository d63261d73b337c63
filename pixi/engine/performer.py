"""Performs the commands of one turn, one after the other, beside the stream that they come from."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pixi.core.commands import CommandEnded, CommandStarted, CommandText
from pixi.core.errors import ChannelError, PixiError, StoreError
from pixi.core.events import Failed, Grew, Opened, Performed, TurnEvent
from pixi.core.reading import CommandEvent
from pixi.engine.acts import Acts, NotDone
from pixi.engine.ahead import Ahead
from pixi.engine.timeouts import give_up, within
from pixi.toolbox.commands import CameToNothing, Command, CommandRegistry
from pixi.toolbox.foreign import foreign

_BUILT_IN = frozenset({"send", "react", "note"})  # shown by their acts, and seen with those
_PRIVATE = "note"


class Performer:
    """An ordered queue with a worker that lives only while there is something in it.

    Args:
        acts: what commands act with.
        commands: the registered ones.
        seconds: how long a command may take that is not built in.
        delivered: told the number of each command that was performed, counted from 0.
        on_trouble: called when the turn cannot go on; `trouble` says why.
    """

    __slots__ = (
        "_acts",
        "_ahead",
        "_begun",
        "_commands",
        "_deaf",
        "_delivered",
        "_growing",
        "_halting",
        "_number",
        "_on_trouble",
        "_queue",
        "_refused",
        "_seconds",
        "_worker",
        "performing",
        "trouble",
    )

    trouble: BaseException | None
    """What broke the performer itself: the store, or a channel that raised while being shown an event."""
    performing: bool
    """A command that people can see is being performed."""

    def __init__(
        self,
        acts: Acts,
        commands: CommandRegistry,
        *,
        seconds: float,
        delivered: Callable[[int], None],
        on_trouble: Callable[[], None],
    ) -> None:
        self._acts = acts
        self._commands = commands
        self._ahead = Ahead(acts, commands)
        self._seconds = seconds
        self._delivered = delivered
        self._on_trouble = on_trouble
        self._growing = acts.channel.growing
        self._queue: deque[CommandEvent | TurnEvent] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._begun = ""  # the command whose opening was shown and whose end is still to come
        self._number = 0
        self._halting = False  # to stop at the next boundary
        self._deaf = False  # stopped: nothing more is taken
        self._refused = False
        self.trouble = None
        self.performing = False

    def put(self, events: Sequence[CommandEvent]) -> None:
        """Take what the turn read. Never waits."""
        if self._deaf:
            return
        self._ahead.heed(events)
        if not self._growing:
            events = [event for event in events if type(event) is not CommandText]
            if not events:  # as with most chunks
                return
        self._queue.extend(events)
        self._work_if_needed()

    def show(self, event: TurnEvent) -> None:
        """Show it after all that was put before."""
        self._queue.append(event)
        self._work_if_needed()

    @property
    def wants_end(self) -> bool:
        """Whether people see a command opening whose end was not put yet."""
        return bool(self._begun) and not any(type(event) is CommandEnded for event in self._queue)

    @property
    def sees_coming(self) -> bool:
        """Whether a command that people can see is open, or being performed."""
        return self.performing or self._begun not in ("", _PRIVATE)

    def halt_at_boundary(self) -> None:
        """Finish what people see opening or being performed; drop what comes after."""
        self._halting = True
        if not self._begun:
            self.halt()

    def halt(self) -> None:
        """Drop all that was not begun, and take nothing more."""
        self._deaf = True
        self.drop()

    def drop(self) -> None:
        """Drop the commands that were not begun."""
        self._number += sum(type(event) is CommandEnded for event in self._queue)
        kept = [event for event in self._queue if not isinstance(event, CommandEvent)]
        self._queue.clear()
        self._queue.extend(kept)
        self._ahead.drop()

    async def drained(self) -> None:
        """Wait until everything put so far was performed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def finish(self, seconds: float) -> None:
        """Wait for what is left, but no longer than this; then give it up."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=seconds)
        if self._worker is not None:
            self.halt()
            await give_up(self._worker, "a command", graces=2)  # it may be giving one up itself
        await self._ahead.close()
        await self._acts.close()

    def hasten(self, seconds: float) -> None:
        """Begin nothing more, and give up in this time what then is not done."""
        self.halt()
        asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self._worker is not None:
            self._worker.cancel()

    def _work_if_needed(self) -> None:
        if self._worker is None and self._queue:
            self._worker = asyncio.create_task(self._work())
            self._worker.add_done_callback(self._worker_ended)

    async def _work(self) -> None:
        while self._queue:
            await self._take(self._queue.popleft())

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        self._worker = None
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._queue.clear()
            self._deaf = True
            self.trouble = self.trouble or error
            self._on_trouble()
        self._work_if_needed()  # something may have come between its last look and its end

    async def _take(self, event: CommandEvent | TurnEvent) -> None:
        match event:
            case CommandText(text):
                self._acts.channel.show(Grew(self._begun, text))
            case CommandStarted(name):
                await self._open(name)
            case CommandEnded(name, argument, target=target):
                try:
                    await self._perform(name, argument, target)
                finally:
                    self.performing = False
                    self._acts.ended()
                if self._halting:
                    self.halt()
            case _:
                self._acts.channel.show(event)

    async def _open(self, name: str) -> None:
        self._begun = name
        self._acts.opened()
        if self._growing:
            self._acts.visible |= name != _PRIVATE
            self._acts.channel.show(Opened(name))
        command = self._commands.get(name)
        if command is not None and command.opened is not None:
            await self._run(command, command.opened(self._acts))

    async def _perform(self, name: str, argument: str, target: int) -> None:
        number, self._number = self._number, self._number + 1
        self._begun = ""
        self.performing = name != _PRIVATE
        self._acts.visible |= name not in _BUILT_IN  # nobody knows what it does first
        ahead = self._ahead.take(number)
        command = self._commands.get(name)
        if command is None:
            return  # taken away since the turn began
        done = self._acts.done
        succeeded = False
        self._acts.performed = (name, argument)
        try:
            work = command.perform(self._acts, argument, target=target, ahead=ahead)
            succeeded = await self._run(command, work)
        finally:
            if ahead is not None:
                self._ahead.end(ahead)
            self._acts.performed = None
            if succeeded or self._acts.done > done:  # broke off half-way, and people saw the half
                self._delivered(number)
        if succeeded and name not in _BUILT_IN:
            self._acts.channel.show(Performed(name, argument))

    async def _run(self, command: Command, work: Coroutine[Any, Any, None]) -> bool:
        """Run a command's function; what goes wrong in it is told once, and the turn goes on."""
        what = f"command {command.name!r}"
        try:
            if command.name in _BUILT_IN:
                await _guarded(what, work)
            else:
                await within(self._seconds, _guarded(what, work), what)
        except (NotDone, CameToNothing):
            return False  # the turn was told, and ends; or there is nothing to be told
        except StoreError:
            raise
        except ChannelError as error:
            if not self._refused:
                self._refused = True
                self._acts.channel.show(Failed(str(error)))
            return False
        except PixiError as error:
            self._acts.channel.show(Failed(str(error)))
            return False
        except TimeoutError:
            self._acts.channel.show(Failed(f"{what} took longer than {self._seconds:g} seconds."))
            return False
        return True


async def _guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    with foreign(what):
        await work
