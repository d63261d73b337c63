"""The one thread that owns the database: it takes calls in order and commits many at once."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import groupby
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from msgspec import Struct

from pixi.core.errors import ConfigError, PixiError, StoreError
from pixi.store.database import Connection, Within

T = TypeVar("T")
Operation = Callable[[Connection], T]


class Row(Struct, Generic[T], frozen=True):
    """One row of what is written in one go with others of its kind.

    For each statement the thread gives Python's lock away and must wait for it again, which on a busy
    loop takes far longer than the statement: so what comes often is written many rows at once. Rows that
    follow each other are written by their `order`, so that those of one kind stand together: what concerns
    one turn must be asked for in that order.

    Attributes:
        together: writes rows of one kind, given their values; gives what came of each.
        value: what this one writes.
        order: of its kind.
    """

    together: Callable[[Connection, list[Any]], Sequence[T]]
    value: object
    order: int

    def __call__(self, db: Connection) -> T:
        """Write it alone."""
        return self.together(db, [self.value])[0]


ENOUGH_AT_ONCE = 512
"""Calls in one transaction: enough to share the cost of a commit, few enough to answer soon."""
QUIET_ROUNDS = 2
"""Rounds of the loop without a further call, after which what was noted goes to the thread."""
MOST_ROUNDS = 8
"""Rounds after which it goes in any case: on a busy loop there is always another call."""
LATER_SECONDS = 1.0
"""How long a call that may come later waits for another to go with."""


class _Call(Struct, frozen=True):
    operation: Operation[Any]
    writes: bool
    alone: bool
    within: Within
    answer: "asyncio.Future[Any]"


class _Failed(Struct, frozen=True):
    """What came of a call that could not be carried out."""

    error: PixiError | TypeError


class Writer:
    """Carries out operations on one connection, in the order they were asked, off the event loop.

    The loop's side only notes a call and awaits a future. What is noted while the loop has work goes to the
    thread together, and comes back together: to wake the other side and to commit cost more than a call
    does. A reply that is read notes its acts in a few rounds, one task after the other; so calls wait until
    the loop has been round twice without another. A caller that is cancelled changes nothing: its call is
    carried out.
    """

    def __init__(self, name: str, connect: Callable[[], Connection]) -> None:
        self.name = name
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        # Calls that were not handed over to the thread yet.
        self._noted: list[_Call] = []
        # What the loop does next with them: look, or hand them over; None: there are none.
        self._handing_over: asyncio.Handle | None = None
        # Whether they are handed over once the loop is quiet, rather than later.
        self._is_soon = False
        # Rounds of the loop since the first of these calls, see `_look`.
        self._rounds = 0
        # Of these rounds, the last ones without a further call.
        self._quiet = 0
        # How many calls there were at the last round.
        self._counted = 0
        # Calls that were handed over; None: the end.
        self._calls: SimpleQueue[list[_Call] | None] = SimpleQueue()
        # Done once the connection is open.
        self._opened: asyncio.Future[None] = self._loop.create_future()
        # Done once the thread has ended.
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        # From `close` on: nothing more is asked for.
        self._closing = False
        # A daemon: a program that ends without `close` must not hang on a thread that waits for work.
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)

    async def open(self) -> None:
        """Start the thread and open the connection.

        Raises:
            ConfigError: the connection could not be opened.
        """
        self._thread.start()
        try:
            await self._opened
        except asyncio.CancelledError:
            self._stop()
            raise

    def ask(
        self,
        operation: Operation[T],
        *,
        writes: bool = True,
        alone: bool = False,
        later: bool = False,
        within: Within = None,
    ) -> "asyncio.Future[T]":
        """Have an operation carried out. Its place in the order is taken at once, before it is awaited.

        The future is done once it is committed. With `alone` it is in no transaction; with `later` it goes
        with whatever is asked for next, or by itself after `LATER_SECONDS`. Other processes may write
        meanwhile what is not `within`.

        Raises:
            StoreError: it could not be done, and nothing of it was; from the future.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        if self._closing or self._stopped.done():
            answer.set_exception(StoreError(f"The store {self.name} is closed."))
            return answer
        self._noted.append(_Call(operation, writes, alone, within, answer))
        if later:
            if self._handing_over is None:
                self._handing_over = self._loop.call_later(LATER_SECONDS, self._hand_over)
        elif not self._is_soon:
            self._is_soon = True
            if self._handing_over is not None:
                self._handing_over.cancel()
            self._handing_over = self._loop.call_soon(self._look)
        return answer

    async def close(self) -> None:
        """Carry out what was asked, then close the connection. Calling it twice does no harm."""
        self._stop()
        # Shielded: whoever else waits for the end is not to be cancelled along with this caller.
        await asyncio.shield(self._stopped)
        self._thread.join()

    def _look(self) -> None:
        """Hand over, unless more calls are to be expected soon."""
        count = len(self._noted)
        self._rounds += 1
        self._quiet = self._quiet + 1 if count == self._counted else 0
        self._counted = count
        if self._quiet < QUIET_ROUNDS and self._rounds < MOST_ROUNDS and count < ENOUGH_AT_ONCE:
            self._handing_over = self._loop.call_soon(self._look)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        self._is_soon, self._handing_over = False, None
        self._rounds = self._quiet = self._counted = 0
        if self._noted:
            self._calls.put(self._noted)
            self._noted = []

    def _stop(self) -> None:
        if not self._closing:
            self._closing = True
            if self._handing_over is not None:
                self._handing_over.cancel()
            self._hand_over()
            self._calls.put(None)

    def _finished(self, batch: list[_Call]) -> None:
        """The thread has ended. Nobody may be left waiting, even if it ended by a fault."""
        left = [call.answer for call in (*batch, *self._noted)]
        self._noted = []
        while not self._calls.empty():
            left += [call.answer for call in self._calls.get() or ()]
        gone = _Failed(StoreError(f"The store {self.name} stopped working; start Pixi again."))
        _answer([*((future, gone) for future in (self._opened, *left)), (self._stopped, None)])

    # What follows runs in the thread.

    def _run(self) -> None:
        batch: list[_Call] = []
        try:
            with closing(self._connect()) as connection:
                self._on_loop(_answer, [(self._opened, None)])
                while batch := self._next_batch():
                    self._on_loop(_answer, _answers(connection, batch))
                    batch = []  # what was recorded is not kept while the thread waits
        except ConfigError as error:
            self._on_loop(_answer, [(self._opened, _Failed(error))])
        finally:
            self._on_loop(self._finished, batch)

    def _next_batch(self) -> list[_Call]:
        """The calls that wait, at least one; empty when the store closes."""
        batch: list[_Call] = []
        calls = self._calls.get()
        while calls is not None:
            batch += calls
            if len(batch) >= ENOUGH_AT_ONCE or self._calls.empty():
                return batch
            # Only this thread takes from the queue, so it does not wait here.
            calls = self._calls.get()
        if batch:
            self._calls.put(None)  # nothing is asked after `close`, so the end stays at the end
        return batch

    def _on_loop(self, callback: Callable[[Any], None], argument: object) -> None:
        # A closed loop has nobody waiting on it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, argument)


def _answer(outcomes: list[tuple["asyncio.Future[Any]", object]]) -> None:
    for future, outcome in outcomes:
        if future.done():  # its caller was cancelled
            continue
        if type(outcome) is _Failed:
            future.set_exception(outcome.error)
        else:
            future.set_result(outcome)


def _answers(connection: Connection, batch: list[_Call]) -> list[tuple["asyncio.Future[Any]", object]]:
    """Carry out calls, those that stand alone outside of the others' transactions."""
    parts = groupby(batch, key=lambda call: call.alone)
    outcomes = [outcome for _, calls in parts for outcome in _carry_out(connection, list(calls))]
    return list(zip((call.answer for call in batch), outcomes, strict=True))


def _carry_out(connection: Connection, batch: list[_Call]) -> list[object]:
    """Carry out calls; return the result of each, or `_Failed`.

    Should one fail, all are undone and carried out again one by one, so that only the faulty one fails.
    """
    # ValueError: a text that is no Unicode, a row that is damaged. OverflowError: a number too large.
    # TypeError: the caller gave something else than the call takes, which is the caller's fault alone.
    ours = (StoreError, TypeError)
    expected: tuple[type[Exception], ...] = (*connection.errors, *ours, ValueError, OverflowError)
    try:
        if batch[0].alone:
            return [call.operation(connection) for call in batch]
        writes = any(call.writes for call in batch)
        within = [call.within for call in batch]
        return connection.transact(lambda: _results(connection, batch), writes=writes, within=within)
    except expected as error:
        failed = _Failed(error if isinstance(error, ours) else connection.complaint(error))
        # Waiting for a lock or a server as often as there are calls would take minutes.
        if len(batch) == 1 or connection.stops_all(error):
            return [failed] * len(batch)
    return [outcome for call in batch for outcome in _carry_out(connection, [call])]


def _results(connection: Connection, batch: list[_Call]) -> list[object]:
    results: list[object] = [None] * len(batch)
    rows: list[tuple[int, Row[Any]]] = []  # that follow each other, with their places
    for at, call in enumerate(batch):
        if type(call.operation) is Row:
            rows.append((at, call.operation))
        else:
            _write(connection, rows, results)
            results[at] = call.operation(connection)
    _write(connection, rows, results)
    return results


def _write(connection: Connection, rows: list[tuple[int, Row[Any]]], results: list[object]) -> None:
    """Write rows by their kinds, and put what came of each in its place. Afterwards there are none left."""
    rows.sort(key=lambda each: each[1].order)
    for together, some in groupby(rows, key=lambda each: each[1].together):
        places, kind = zip(*some, strict=True)
        for at, result in zip(places, together(connection, [row.value for row in kind]), strict=True):
            results[at] = result
    rows.clear()
