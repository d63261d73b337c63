"""The ledger of an engine: what is used is entered in the store, and what may still be used is known here."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pixi.core.deltas import Prices, Usage
from pixi.core.errors import StoreError
from pixi.core.spending import (
    KINDS,
    SCOPES,
    Bill,
    Budgets,
    Kind,
    Payer,
    Scope,
    Share,
    Spent,
    day_of,
    first_of_month,
    spent_on,
)
from pixi.engine.bounded import give_up
from pixi.engine.refusing import QuotaExceeded, told_to_people
from pixi.store.store import Store

_log = logging.getLogger("pixi.engine")

FRESH_SECONDS = 10.0
"""How old what is known of other processes' use may be."""

_MONTH_SECONDS = 3_600.0  # the same, of the days of the month that are over
_KEPT = 4_096  # sums; of those above, the one that was not asked for longest is read again
_KEPT_DAYS = 2  # of what is kept in memory alone: a clock that was set back may come to an earlier day again
_CLOSE_SECONDS = 2.0

_Key = tuple[int, Scope | None, str]
"""A day, whose use, and their name; None and "" for everybody's."""


_NOTHING = Spent()


@dataclass(slots=True)
class _Sum:
    """What was used by one of them on a day.

    Attributes:
        read: what the store said.
        entered: what was entered from here since the start.
        included: what of it the store had when it was read.
        at: when that was, on the monotonic clock.
        held: messages that are being answered.
    """

    read: Spent = _NOTHING
    entered: Spent = _NOTHING
    included: Spent = _NOTHING
    at: float = float("-inf")
    held: int = 0

    @property
    def used(self) -> Spent:
        """What was used by now, as far as it is known here."""
        return self.read + (self.entered - self.included)

    def amount(self, kind: Kind) -> int:
        """How much of what is limited; a message counts from when it begins to be answered."""
        known = self.read.amount(kind) + self.entered.amount(kind) - self.included.amount(kind)
        return known + (self.held if kind == "messages" else 0)

    @property
    def cost(self) -> float:
        """The dollars of it."""
        return self.read.cost + self.entered.cost - self.included.cost


class UsageLedger:
    """Enters what is used, and tells what is used up. It reads the store where it must, and seldom.

    Args:
        store: where the ledger is kept; several processes may use one.
        budgets: gives what may be used, as it is set now.
        clock: the time, by which a day begins and ends.
    """

    def __init__(self, store: Store, budgets: Callable[[], Budgets], clock: Callable[[], datetime]) -> None:
        self._store = store
        self._budgets = budgets
        self._clock = clock
        self._sums: OrderedDict[_Key, _Sum] = OrderedDict()
        self._months: dict[int, tuple[float, float]] = {}  # by day: dollars of the days before, and when read
        self._carried: dict[tuple[int, str], Spent] = {}  # of people who were forgotten
        self._told: set[_Key] = set()
        self._late: list[Spent] = []
        self._entering: asyncio.Task[None] | None = None

    @property
    def today(self) -> int:
        """The day, in UTC."""
        return day_of(self._clock().timestamp())

    # Entering.

    def count(self, model: str, usage: Usage, prices: Prices | None) -> None:
        """Enter what a model used on nobody's account."""
        if usage == Usage():
            return
        self.enter_later([replace(spent_on(Payer(), model, usage, prices), day=self.today)])

    def enter_later(self, spent: Iterable[Spent]) -> None:
        """Enter what belongs to no turn, or could not be entered with it."""
        self._late += spent
        if self._late and (self._entering is None or self._entering.done()):
            self._entering = asyncio.create_task(self._enter_what_is_late())

    async def _enter_what_is_late(self) -> None:
        """All of it, also what comes meanwhile, as long as the store takes it."""
        while self._late and await self.enter(()):
            pass

    async def enter(self, spent: tuple[Spent, ...]) -> bool:
        """Enter it. What the store does not take now (False), it is given later."""
        spent = (*self._late, *spent)
        self._late = []
        if not spent:
            return True
        self.entered(spent)
        try:
            await self._store.spend(spent)
        except StoreError as error:
            _log.warning("what was used is entered in the ledger later: %s", error)
            self.not_taken(spent)
            return False
        return True

    def entered(self, spent: Iterable[Spent]) -> None:
        """The store is given it at this moment."""
        for each in spent:
            for known in self._sums_of(each):
                known.entered += each

    def not_taken(self, spent: Sequence[Spent]) -> None:
        """The store did not take what it was given: it is given it later, with what comes then."""
        for each in spent:
            for known in self._sums_of(each):
                known.entered -= each
        self._late = [*spent, *self._late][-_KEPT:]

    async def close(self) -> None:
        """Enter what was not entered yet. Nothing is counted afterwards."""
        entering = [self._entering] if self._entering else []
        last = asyncio.create_task(self.enter(()))
        await asyncio.wait([*entering, last], timeout=_CLOSE_SECONDS)
        for task in (*entering, last):
            if not task.done():
                await give_up(task, "entering in the ledger")

    async def forget(self, person: str) -> tuple[str, ...]:
        """Have the store forget a person. What they used today is known until the day is over, here alone."""
        day = self.today
        known = await self._sum(day, "person", person, anew=True)
        self._let_go_before(day)
        carried, entered = known.used, known.entered
        changed = await self._store.forget(person)
        self._carried[day, person] = known.read = carried
        known.included = entered
        return changed

    # What is used up.

    async def over(self, payer: Payer, kinds: Iterable[Kind]) -> QuotaExceeded | None:
        """What is used up of what somebody may use where they are; the widest first.

        Raises:
            StoreError: it could not be read.
        """
        budgets, day = self._budgets(), self.today
        dollars = budgets.month_dollars
        if dollars is not None and await self.month_cost(day) >= dollars:
            return QuotaExceeded(None, None, dollars)
        for scope in SCOPES:
            allowance, name = budgets.of(scope), payer.name(scope)
            if not name or not allowance.is_bounded:
                continue
            known = await self._sum(day, scope, name)
            for kind in kinds:
                limit = allowance.of(kind)
                if limit is not None and known.amount(kind) >= limit:
                    return QuotaExceeded(scope, kind, limit)
        return None

    async def month_cost(self, day: int) -> float:
        """Dollars in the month of a day, until now."""
        now = time.monotonic()
        before, at = self._months.get(day, (0.0, float("-inf")))
        if now - at > _MONTH_SECONDS:
            (spent,) = await self._store.usage(first_of_month(day), day - 1)
            self._months = {day: (spent.cost, now)}
            before = spent.cost
        return before + (await self._sum(day, None, "")).cost

    async def bill(self) -> Bill:
        """What everybody used, of all processes on this store.

        Raises:
            StoreError: it could not be read.
        """
        day = self.today
        (today,) = await self._store.usage(day, day)
        by_model = await self._store.usage(first_of_month(day), day, "model")
        searches = tuple(spent for spent in by_model if spent.usage.searches)
        month = sum((replace(spent, model="") for spent in by_model), Spent())
        return Bill(today, month, self._budgets().month_dollars, searches)

    async def shares(self, payer: Payer) -> tuple[Share, ...]:
        """What was used today of all that is limited for somebody where they are.

        Raises:
            StoreError: it could not be read.
        """
        budgets, day = self._budgets(), self.today
        shares = []
        for scope in reversed(SCOPES):
            allowance, name = budgets.of(scope), payer.name(scope)
            if name and allowance.is_bounded:
                known = await self._sum(day, scope, name)
                shares += [
                    Share(scope, kind, known.amount(kind), limit)
                    for kind in KINDS
                    if (limit := allowance.of(kind)) is not None
                ]
        return tuple(shares)

    def was_told(self, over: QuotaExceeded, payer: Payer) -> bool:
        """Whether it is known here that they were told today."""
        return (self.today, *_told_to(over, payer)) in self._told

    async def told(self, over: QuotaExceeded, payer: Payer) -> str:
        """What they are to be told of it, once a day: a person, or all in the channel or the guild.

        "": they were told. From now on they are taken to have been.

        Raises:
            StoreError: it could not be recorded.
        """
        day = self.today
        scope, name = _told_to(over, payer)
        if (day, scope, name) in self._told:
            return ""
        self._let_go_before(day)
        self._told.add((day, scope, name))
        try:
            is_new = await self._store.notice(day, scope, name)
        except StoreError:
            self._told.discard((day, scope, name))  # they will be told when that can be recorded
            raise
        return told_to_people(over, day) if is_new else ""

    def hold(self, payer: Payer, messages: int, day: int) -> None:
        """So many messages more are being answered; fewer, where that is below 0."""
        for scope in SCOPES:
            if known := self._sums.get((day, scope, payer.name(scope))):
                known.held += messages

    async def _sum(self, day: int, scope: Scope | None, name: str, *, anew: bool = False) -> _Sum:
        key: _Key = (day, scope, name)
        known = self._sums.setdefault(key, _Sum())
        self._sums.move_to_end(key)
        while len(self._sums) > _KEPT:
            self._sums.popitem(last=False)
        now = time.monotonic()
        if anew or now - known.at > FRESH_SECONDS:
            entered = known.entered  # the store carries out in order: what it gives holds this, and no more
            if scope is None:
                (read,) = await self._store.usage(day, day)
            else:
                read = await self._store.used(day, scope, name)
            if scope == "person" and (carried := self._carried.get((day, name))):
                read = read + carried
            known.read, known.included, known.at = read, entered, now
        return known

    def _sums_of(self, spent: Spent) -> Iterator[_Sum]:
        """Those that are known of all in which it counts."""
        payer = Payer(spent.person, spent.channel, spent.guild)
        for scope, name in ((None, ""), *((scope, payer.name(scope)) for scope in SCOPES)):
            if known := self._sums.get((spent.day, scope, name)):
                yield known

    def _let_go_before(self, day: int) -> None:
        self._told = {key for key in self._told if key[0] >= day - _KEPT_DAYS}
        self._carried = {key: spent for key, spent in self._carried.items() if key[0] >= day - _KEPT_DAYS}


def _told_to(over: QuotaExceeded, payer: Payer) -> tuple[Scope, str]:
    """Who is told. What is used up for everybody is told once in a channel, or to whoever is alone there."""
    scope = over.scope or ("channel" if payer.guild else "person")
    return scope, payer.name(scope)
