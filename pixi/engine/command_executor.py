"""Performs the commands of one turn, one after the other, beside the stream that they come from.

A command is put on record the moment it closes, and begun once that is committed; what is all acts begins
before, and each of its acts waits. What the process leaves undone, the next one does. What may still be
performed follows from the turn's life, see `pixi.core.life`; the turn's runner calls `keep_open`,
`keep_closed` or `drop` when that changes.

What a command does ahead is begun when the model opens it, and dropped where the command is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from msgspec import Struct

from pixi.core.errors import ChannelError, ChannelLost, PixiError, StoreError, StoreOutdated
from pixi.core.events import Failed, Grew, Opened, Performed, TurnEvent, act_id
from pixi.core.language import CommandEnded, CommandStarted, CommandText, Planned
from pixi.core.life import LIVE, LifeEvent, LifeState
from pixi.core.reading import CommandEvent
from pixi.engine.turn_actions import NotDone, TurnActions
from pixi.store.kept import CommandOutcome, Mark
from pixi.toolbox.commands import CameToNothing, Command, CommandRegistry
from pixi.toolbox.context import Context, Draft
from pixi.toolbox.foreign import foreign, give_up, look_at, within

_ACT_SECONDS = 30.0  # for an act that was begun to end when the turn is over
_STOP_SECONDS = 2.0  # the same, when somebody waits for the stop
_AT_ONCE = 4
"""Commands for which something is done ahead at the same time; others begin when they are performed."""


class _Opening(Struct, frozen=True):
    """A command opens, which will have this number, and what it makes this id."""

    number: int
    name: str
    id: str


_Queued = _Opening | CommandText | Planned | TurnEvent
_OfCommand = _Opening | CommandText | Planned


class CommandExecutor:
    """An ordered queue with a worker that lives only while there is something in it.

    Args:
        actions: what commands act with.
        delivered: told the number of each command that was performed, counted from 0.

    Attributes:
        read: how many commands closed until now; they are numbered so.
        trouble: what broke the executor itself: the store, or a channel that raised while being shown an
            event. The turn cannot go on then.
    """

    __slots__ = (
        "_actions",
        "_begun",
        "_commands",
        "_current",
        "_delivered",
        "_finishing",
        "_growing",
        "_life",
        "_planned",
        "_prefetch",
        "_queue",
        "_recording",
        "_refusal_told",
        "_store",
        "_turn",
        "_worker",
        "read",
        "trouble",
    )

    def __init__(self, actions: TurnActions, delivered: Callable[[int], None]) -> None:
        self._actions = actions
        self._turn = turn = actions.turn
        self._store = turn.store
        self._life = turn.life
        self._commands = turn.session.shared.commands
        self._prefetch = Prefetch(actions, self._commands)
        self._delivered = delivered
        self._growing = actions.channel.growing
        self._queue: list[_Queued] = []  # short: a deque takes ten times the memory of an empty list
        self._worker: asyncio.Task[None] | None = None
        self._begun: _Opening | None = None  # the command that was opened and whose end is still to come
        self._current: Planned | None = None  # the command that is being performed
        self.read = 0
        # Commands that are put on record, by their numbers; None: it was taken, nobody waits for that.
        self._planned: dict[int, asyncio.Future[None] | None] = {}
        self._recording: set[asyncio.Future[None]] = set()
        self._finishing: asyncio.Timeout | None = None
        self._refusal_told = False
        self.trouble: BaseException | None = None

    def put(self, events: Sequence[CommandEvent]) -> None:
        """Take what the turn read. Never waits."""
        if (
            len(events) == 1
            and type(events[0]) is CommandText
            and not (self._growing or self._prefetch.wanted)
        ):
            return  # nearly always; nobody looks at a message before it is whole
        if not self._listens:
            return
        self._prefetch.heed(events, self.read)
        closed: list[Planned] = []
        for event in events:
            if type(event) is CommandText:
                if self._growing and not self._grew_at_once(event.text):
                    self._queue.append(event)
            elif isinstance(event, CommandEnded):
                closed.append(Planned(self.read, event.name, event.argument, event.target))
                self.read += 1
                self._queue.append(closed[-1])
                if self._life.ending and self._life.state is not LifeState.FAILING:
                    break  # it was open, and is the last
            elif isinstance(event, CommandStarted):
                self._queue.append(_Opening(self.read, event.name, self._id_of(self.read)))
            else:
                self._queue.append(event)
        if self._life.state is LifeState.HOLDING:
            self._leave_out()
        self._work_if_needed()  # before the record is asked for: what the worker records goes with it
        if closed:
            plan = self._record(self._store.plan(self._turn.id, closed, lease=self._turn.lease))
            self._planned.update((each.number, plan) for each in closed)

    def skip(self, events: Iterable[CommandEvent]) -> None:
        """Count commands that were read and will not be performed."""
        self.read += sum(type(event) is CommandEnded for event in events)

    def show(self, event: TurnEvent) -> None:
        """Show an event after all that was put before."""
        self._queue.append(event)
        self._work_if_needed()

    @property
    def wants_end(self) -> bool:
        """True if people see a command opening whose end was not put yet."""
        return self._begun is not None and not any(type(event) is Planned for event in self._queue)

    @property
    def performing(self) -> bool:
        """True if a command that people can see is being performed."""
        return self._current is not None and not self._is_private(self._current.name)

    @property
    def sees_coming(self) -> bool:
        """True if a command that people can see is open, or being performed."""
        return self.performing or (self._begun is not None and not self._is_private(self._begun.name))

    @property
    def owes(self) -> bool:
        """True if a command that closed, and that people can see, is still to be performed."""
        waiting = (event.name for event in self._queue if type(event) is Planned)
        return self.performing or not all(self._is_private(name) for name in waiting)

    @property
    def busy(self) -> bool:
        """True if anything that was put is still to be performed."""
        return self._worker is not None

    # Dropping.

    def keep_open(self) -> None:
        """Finish what people see opening or being performed, and drop what comes after."""
        if self.wants_end:
            return
        kept = 0
        if self._begun is not None:  # its end is in the queue
            kept = next(n for n, event in enumerate(self._queue, 1) if type(event) is Planned)
        self.drop(kept, recorded=True)

    def keep_closed(self) -> None:
        """Finish what people see opening and what closed before, and drop an opening that nobody sees."""
        if not self.wants_end:
            ends = [n for n, event in enumerate(self._queue, 1) if type(event) is Planned]
            self.drop(ends[-1] if ends else 0, recorded=True)

    def drop(self, kept: int = 0, *, recorded: bool) -> None:
        """Drop the commands that were not begun; what is to be shown stays.

        Args:
            kept: how many events at the beginning of the queue stay.
            recorded: they are dropped for good, and whoever goes on drops them too.
        """
        head, self._queue[:kept] = self._queue[:kept], []
        if recorded:
            for event in self._queue:
                if type(event) is Planned:
                    self._note(event.number, "dropped")
        self._leave_out()
        self._queue[:0] = head
        if not kept:
            self._prefetch.drop()

    def forget(self, since: int) -> None:
        """Drop what is open of a stream that is asked for again, and from the record what closed `since`."""
        self.drop(recorded=False)
        self._begun = None
        self._actions.ended()
        for number in range(since, self.read):
            if number in self._planned:  # others were skipped
                self._note(number, "dropped")

    def hasten(self) -> None:
        """Give up soon what is being performed: somebody waits for the turn to end."""
        soon = asyncio.get_running_loop().time() + _STOP_SECONDS
        if self._finishing is not None and soon < (self._finishing.when() or soon):
            self._finishing.reschedule(soon)

    # Waiting.

    async def drained(self) -> None:
        """Wait until everything put so far was performed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def recorded(self) -> None:
        """Wait until everything told so far is on record; `trouble` says where that failed."""
        while self._recording:
            await asyncio.wait(self._recording)

    def mark(self, how: Mark) -> None:
        """Note on record how the turn will end."""
        self._record(self._store.mark_turn(self._turn.id, how, lease=self._turn.lease))

    async def finish(self) -> None:
        """Wait for what is left, but not for ever; then give it up. Ends the actions, too."""
        soon = self._life.state in (LifeState.STOPPING, LifeState.WITHDRAWING, LifeState.DONE)
        try:
            async with asyncio.timeout(_STOP_SECONDS if soon else _ACT_SECONDS) as self._finishing:
                await self.drained()
        except TimeoutError:
            if self._worker is not None:
                await self._give_up(self._worker)
        finally:
            self._finishing = None
        await self.recorded()
        await self._prefetch.close()
        await self._actions.close()

    async def _give_up(self, worker: asyncio.Task[None]) -> None:
        if self._actions.under_way and self._life.state is not LifeState.DONE:
            self._life.on(LifeEvent.LOST)  # nobody will know what became of the act
        self.drop(recorded=False)
        await give_up(worker, "a command", graces=2)  # it may be giving one up itself

    # The worker.

    async def perform(self, command: Planned) -> None:
        """Perform a command of a turn that an earlier process left, as far as the life lets it act.

        Raises:
            StoreError: an act could not be recorded, and was not done.
        """
        if self._life.may_act:
            await self._perform(command)

    @property
    def _listens(self) -> bool:
        """True if the stream is still read."""
        state = self._life.state
        if state in (LifeState.YIELDING, LifeState.DRAINING):
            return self.wants_end
        return state in LIVE or (state is LifeState.FAILING and self.trouble is None)

    def _id_of(self, number: int) -> str:
        """Return the id of what the command of this number makes."""
        return act_id(self._turn.id, 0, number)

    def _is_private(self, name: str) -> bool:
        command = self._commands.get(name)
        return command is not None and command.private

    def _leave_out(self) -> None:
        """Leave the commands out of the queue."""
        self._queue[:] = [event for event in self._queue if not isinstance(event, _OfCommand)]

    def _note(self, number: int, outcome: CommandOutcome) -> asyncio.Future[None]:
        return self._record(self._outcome(number, outcome))

    def _outcome(self, number: int, outcome: CommandOutcome, *, later: bool = False) -> Awaitable[None]:
        """Put the outcome of a command on record; `later`: with the next write, and nobody waits for that."""
        turn = self._turn
        return self._store.command_ended(turn.id, number, outcome, later=later, lease=turn.lease)

    def _record(self, work: Awaitable[None]) -> asyncio.Future[None]:
        """Run a write of the store beside the queue; the store keeps the order of its calls."""
        recording = asyncio.ensure_future(work)
        self._recording.add(recording)
        recording.add_done_callback(self._recorded)
        return recording

    def _recorded(self, recording: asyncio.Future[None]) -> None:
        self._recording.discard(recording)
        if not recording.cancelled() and (error := recording.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the turn: the store or the channel broke."""
        if self.trouble is None:
            self.trouble = error
            self.drop(recorded=False)
            self._life.on(LifeEvent.TAKEN if isinstance(error, StoreOutdated) else LifeEvent.FAILED)

    def _work_if_needed(self) -> None:
        if self._worker is None and self._queue:
            self._worker = asyncio.create_task(self._work())
            self._worker.add_done_callback(self._worker_ended)

    async def _work(self) -> None:
        while self._queue:
            await self._take(self._queue.pop(0))
        self._worker = None  # at once: what comes now need not wait behind it

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        if self._worker is worker:  # it broke, or was given up
            self._worker = None
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._queue.clear()
            self._fail(error)
        self._work_if_needed()  # something may have come that it did not take

    async def _take(self, event: _Queued) -> None:
        match event:
            case CommandText(text):
                self._grow(text)
            case _Opening():
                await self._open_in_time(event)
            case Planned(number):
                self._begun, self._current = None, event
                try:
                    plan, self._planned[number] = self._plan_of(number), None
                    command = self._commands.get(event.name)
                    if command is not None and command.by_acts:  # its acts wait by themselves for the record
                        self._actions.wait_for(plan)
                        await self._perform(event)
                    elif await _is_recorded(plan):
                        await self._perform(event)
                finally:
                    self._current = None
                    self._actions.ended()
            case _:
                self._actions.show(event)

    def _plan_of(self, number: int) -> asyncio.Future[None]:
        plan = self._planned[number]
        assert plan is not None
        return plan

    def _grow(self, text: str) -> None:
        """Show a piece of the command that is open."""
        assert self._begun is not None
        self._actions.show(Grew(self._begun.name, text, self._begun.id))

    def _grew_at_once(self, text: str) -> bool:
        """Show a piece, unless something waits before it: most do not need the worker, and a task is dear."""
        if self.busy or self._queue or self._begun is None:
            return False
        try:
            self._grow(text)
        except Exception as error:  # as in the worker: the turn ends by it, and not whoever reads the stream
            self._fail(error)
        return True

    async def _open_in_time(self, opening: _Opening) -> None:
        """Open a command. One that closed already waits until it may be performed: it may be empty."""
        closed = next((event for event in self._queue if type(event) is Planned), None)
        if closed is None:
            await self._open(opening)
            return
        plan = self._plan_of(closed.number)
        if self._actions.channel.acts_by_events:
            self._actions.hold(plan)
            await self._open(opening, closed=True)
        elif await _is_recorded(plan) and closed in self._queue:
            await self._open(opening, closed=True)

    async def _open(self, opening: _Opening, *, closed: bool = False) -> None:
        self._begun = opening
        self._actions.opened()
        command = self._commands.get(opening.name)
        if self._growing:
            if self._life.may_act and not self._is_private(opening.name):
                self._life.on(LifeEvent.ACTED)
            makes = None if command is None else command.makes
            self._actions.show(Opened(opening.name, makes, opening.id))
        # An act that is done at once needs no sign that it comes: that would be a task for each message.
        if command is not None and command.opened is not None and not (closed and command.by_acts):
            await self._run(command, command.opened(self._actions))

    async def _perform(self, planned: Planned) -> None:
        """Perform a command that is on record, unless it was taken away or the turn ended meanwhile."""
        command = self._commands.get(planned.name)
        ahead = self._prefetch.take(planned.number)
        try:
            thought = command is not None and command.private and command.by_acts
            if command is not None and (self._life.may_act or thought):
                await self._carry_out(command, planned, ahead)
        finally:
            if ahead is not None:
                self._prefetch.end(ahead)

    async def _carry_out(self, command: Command, planned: Planned, ahead: asyncio.Task[Any] | None) -> None:
        """Call a command's function, and put on record what came of it."""
        actions, number = self._actions, planned.number
        if not command.by_acts:  # nobody knows what it does first
            self._life.on(LifeEvent.ACTED)
            if not await _is_recorded(self._note(number, "begun")):
                return
        done, succeeded = actions.effects.total(), False
        actions.performed = planned
        try:
            work = command.perform(actions, planned.argument, target=planned.target, ahead=ahead)
            succeeded = await self._run(command, work)
        finally:
            actions.performed = None
            meant = not command.by_acts or planned.argument != ""  # else it came to nothing
            broke_off = actions.effects.total() > done  # half-way, and that was seen
            delivered = (succeeded and meant) or broke_off
            if delivered:
                self._delivered(number)
        gone_on_with = self._life.state in (LifeState.HOLDING, LifeState.DONE)
        if succeeded or not gone_on_with:
            noting = self._outcome(number, "done" if delivered else "failed", later=True)
            asyncio.ensure_future(noting).add_done_callback(self._recorded)
        if succeeded and not command.by_acts:
            actions.show(Performed(planned.name, planned.argument, self._id_of(number)))

    async def _run(self, command: Command, work: Coroutine[Any, Any, None]) -> bool:
        """Run a command's function; what goes wrong in it is told once, and the turn goes on."""
        what = f"command {command.name!r}"
        show = self._actions.show
        try:
            if command.by_acts:
                await _guarded(what, work)
            else:
                await within(self._actions.seconds_left, _guarded(what, work), what)
        except (NotDone, CameToNothing, ChannelLost):
            return False  # the turn was told, and ends or holds; or there is nothing to be told
        except StoreError:
            raise
        except ChannelError as error:
            if not self._refusal_told:
                self._refusal_told = True
                show(Failed(str(error)))
            return False
        except PixiError as error:
            show(Failed(str(error)))
            return False
        except TimeoutError:
            show(Failed(f"{what} took longer than {self._actions.seconds_left:g} seconds."))
            return False
        return True


async def _is_recorded(recording: asyncio.Future[None]) -> bool:
    """Wait until something is on record; False where it could not be put there, which broke the turn."""
    if not recording.done():
        await asyncio.wait([recording])
    return not recording.cancelled() and recording.exception() is None


async def _guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    with foreign(what):
        await work


class Prefetch:
    """Begins slow commands of one reply before it is their turn to be performed.

    Args:
        context: what the commands act with.
        commands: the registered ones.

    Attributes:
        wanted: something is begun ahead of some command.
    """

    __slots__ = ("_begun", "_commands", "_context", "_draft", "_leaving", "_open", "wanted")

    def __init__(self, context: Context, commands: CommandRegistry) -> None:
        self._context = context
        self._commands = commands
        self.wanted = any(command.begins is not None for command in commands)
        self._draft: Draft | None = None
        self._open: asyncio.Task[Any] | None = None  # for the command that is being written
        self._begun: dict[int, asyncio.Task[Any]] = {}  # for those that wait, by their numbers
        self._leaving = frozenset[asyncio.Task[Any]]()

    def heed(self, events: Iterable[CommandEvent], number: int) -> None:
        """Take events in order; `number` is that of the next command that ends. Never waits."""
        if not self.wanted:
            return
        for event in events:
            match event:
                case CommandText(text) if self._draft is not None:
                    self._draft.grow(text)
                case CommandStarted(name):
                    self._begin(name)
                case CommandEnded(argument=argument):
                    if self._draft is not None:
                        self._draft.end(argument)
                    if self._open is not None:
                        self._begun[number] = self._open
                        self._open = None
                    number += 1

    def take(self, number: int) -> asyncio.Task[Any] | None:
        """Take over the task begun for the command of this number, counted from 0. The taker ends it."""
        return self._begun.pop(number, None)

    def end(self, task: asyncio.Task[Any]) -> None:
        """End a task that was used, or is not wanted any more."""
        if not task.done():
            task.cancel()
            self._leaving |= {task}
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[Any]) -> None:
        self._leaving -= {task}

    def drop(self) -> None:
        """Drop all that was begun: it is not wanted any more."""
        for task in (*self._begun.values(), *([self._open] if self._open else ())):
            self.end(task)
        self._begun.clear()
        self._open = None

    async def close(self) -> None:
        """Drop all tasks; return when they have ended."""
        self.drop()
        for task in list(self._leaving):
            await give_up(task, "what a command began ahead")

    def _begin(self, name: str) -> None:
        self._draft = draft = Draft()
        if self._open is not None:  # its command broke off before its argument began
            self.end(self._open)
            self._open = None
        command = self._commands.get(name)
        if command is not None and command.begins is not None and len(self._begun) < _AT_ONCE:
            self._open = asyncio.create_task(command.begins(self._context, draft))
            self._open.add_done_callback(look_at)
