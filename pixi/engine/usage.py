"""Use and limits: the quotas, the ledger of an engine, and the usage of one turn.

A turn counts what it uses in its `TurnUsage`. The `UsageLedger` enters that in the store, and knows without
reading it anew each time what all turns of all processes used today, so that it can tell what is used up.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.channel import Channel
from pixi.core.errors import ChannelError, StoreError, ToolError
from pixi.core.llm import Finished, Prices, Usage
from pixi.core.lru import LRU
from pixi.core.message import Message, Rights
from pixi.core.spending import (
    KINDS,
    SCOPES,
    Budgets,
    Kind,
    QuotaUsage,
    Scope,
    UsageEntry,
    UsageReport,
    UsageScope,
    day_of,
    first_of_month,
    next_month,
    search_prices,
    spent_on,
    way_of_searching,
)
from pixi.models.model import Model
from pixi.store.store import Store
from pixi.toolbox.foreign import give_up

_log = logging.getLogger("pixi.engine")

FRESH_SECONDS = 10.0
"""Age up to which other processes' use is taken as known."""

_MONTH_SECONDS = 3_600.0  # the same, of the days of the month that are over
_KEPT = 4_096  # sums; of those above, the one that was not asked for longest is read again
_KEPT_DAYS = 2  # of what is kept in memory alone: a clock that was set back may come to an earlier day again
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 5.0  # for what somebody may do in a channel

NATIVE = way_of_searching("native")
"""Name in the ledger for the searches that a model's provider made by itself."""

_WHOSE = {"person": "one person", "channel": "one channel", "guild": "one server"}
_BY_WHOM = {"person": "you have", "channel": "this channel has", "guild": "this server has"}
_WHAT = {"messages": "messages that are answered", "tokens": "tokens", "writes": "changes"}


class QuotaExceeded(Struct, frozen=True):
    """A quota that is used up.

    Attributes:
        scope: who shares it; None: everybody, and it is the month's dollars.
        kind: what it counts; None: dollars.
        limit: how much there was.
    """

    scope: Scope | None
    kind: Kind | None
    limit: float

    def for_people(self, day: int) -> str:
        """Give the notice, where the persona has no words of its own."""
        if self.scope is None or self.kind is None:
            return (
                "That is all for this month: what may be spent is used up. "
                f"It begins anew on {next_month(day).isoformat()} at 00:00 UTC."
            )
        return (
            f"That is all for today: {_BY_WHOM[self.scope]} used up what {_WHOSE[self.scope]} has in a day "
            f"({self.limit:,} {_WHAT[self.kind]}). It begins anew at 00:00 UTC."
        )

    def for_model(self, tool: str) -> str:
        """Say why a tool that changes something is not carried out."""
        if self.scope is None:
            return f"{tool} was not carried out: what may be spent this month is used up. Tell them so."
        return (
            f"{tool} was not carried out: {_WHOSE[self.scope]} may have {self.limit:,} changes made in a "
            "day, and these were made. There are more from 00:00 UTC on. Tell them so, and go on without it."
        )


_Key = tuple[int, Scope | None, str]
"""A day, whose use, and their name; None and "" for everybody's."""

_NOTHING = UsageEntry()


class _Sum(Struct):
    """Use of a person, a channel, a guild or everybody on one day.

    Attributes:
        read: what the store said.
        entered: what was entered from here since the start.
        included: what of it the store had when it was read.
        at: when that was, on the monotonic clock.
        held: messages that are being answered.
    """

    read: UsageEntry = _NOTHING
    entered: UsageEntry = _NOTHING
    included: UsageEntry = _NOTHING
    at: float = float("-inf")
    held: int = 0

    @property
    def used(self) -> UsageEntry:
        """The use by now, as far as it is known here."""
        return self.read + (self.entered - self.included)

    def amount(self, kind: Kind) -> int:
        """Return the use of a limit; a message counts from when it begins to be answered."""
        known = self.read.amount(kind) + self.entered.amount(kind) - self.included.amount(kind)
        if kind == "messages":
            known += self.held
        return known

    @property
    def cost(self) -> float:
        """The dollars of it."""
        return self.read.cost + self.entered.cost - self.included.cost


class UsageLedger:
    """Enters in the store what is used, and tells which quota is used up. It reads the store seldom.

    Args:
        store: keeps the ledger; several processes may use one.
        budgets: gives the quotas as they are set now.
        clock: the time, by which a day begins and ends.
    """

    def __init__(self, store: Store, budgets: Callable[[], Budgets], clock: Callable[[], datetime]) -> None:
        self._store = store
        self._budgets = budgets
        self._clock = clock
        self._sums: LRU[_Key, _Sum] = LRU(_KEPT)
        self._months: dict[int, tuple[float, float]] = {}  # by day: dollars of the days before, and when read
        self._carried: dict[tuple[int, str], UsageEntry] = {}  # of people who were forgotten
        self._told: set[_Key] = set()  # who was told that a quota is used up
        self._late: list[UsageEntry] = []  # usage that the store did not take yet
        self._entering: asyncio.Task[None] | None = None

    @property
    def today(self) -> int:
        """The day, in UTC."""
        return day_of(self._clock().timestamp())

    # Entering.

    def count(self, model: str, usage: Usage, prices: Prices | None) -> None:
        """Record model usage that belongs to no person (summaries, embeddings)."""
        if usage == Usage():
            return
        self.enter_later([replace(spent_on(UsageScope(), model, usage, prices), day=self.today)])

    def enter_later(self, spent: Iterable[UsageEntry]) -> None:
        """Record usage that belongs to no turn, or that could not be recorded with its turn."""
        self._late += spent
        if self._late and (self._entering is None or self._entering.done()):
            self._entering = asyncio.create_task(self._enter_what_is_late())

    async def _enter_what_is_late(self) -> None:
        """Enter all usage that waits, also what comes meanwhile, as long as the store takes it."""
        while self._late and await self.enter(()):
            pass

    async def enter(self, spent: tuple[UsageEntry, ...]) -> bool:
        """Enter usage in the store. Return False if the store did not take it: it is given it later."""
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

    def entered(self, spent: Iterable[UsageEntry]) -> None:
        """Count usage that the store is being given at this moment."""
        for each in spent:
            for known in self._sums_of(each):
                known.entered += each

    def not_taken(self, spent: Sequence[UsageEntry]) -> None:
        """Take back usage that the store did not take: it is given it later, with what comes then."""
        for each in spent:
            for known in self._sums_of(each):
                known.entered -= each
        self._late = [*spent, *self._late][-_KEPT:]

    async def close(self) -> None:
        """Enter the usage that waits. Nothing is counted afterwards."""
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
        self._evict_before(day)
        carried, entered = known.used, known.entered
        changed = await self._store.forget(person)
        self._carried[day, person] = known.read = carried
        known.included = entered
        return changed

    # Limits.

    async def over(self, payer: UsageScope, kinds: Iterable[Kind]) -> QuotaExceeded | None:
        """Give the first quota that is used up for somebody where they are, the widest first; None: none is.

        Raises:
            StoreError: the usage could not be read.
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
        """Return the dollars spent in the month of a day, until now."""
        now = time.monotonic()
        before, at = self._months.get(day, (0.0, float("-inf")))
        if now - at > _MONTH_SECONDS:
            (spent,) = await self._store.usage(first_of_month(day), day - 1)
            self._months = {day: (spent.cost, now)}
            before = spent.cost
        return before + (await self._sum(day, None, "")).cost

    async def bill(self) -> UsageReport:
        """Return everybody's use, of all processes on this store.

        Raises:
            StoreError: it could not be read.
        """
        day = self.today
        (today,) = await self._store.usage(day, day)
        by_model = await self._store.usage(first_of_month(day), day, "model")
        searches = tuple(spent for spent in by_model if spent.usage.searches)
        month = sum((replace(spent, model="") for spent in by_model), UsageEntry())
        return UsageReport(today, month, self._budgets().month_dollars, searches)

    async def shares(self, payer: UsageScope) -> tuple[QuotaUsage, ...]:
        """Return today's use of all limits of somebody where they are.

        Raises:
            StoreError: it could not be read.
        """
        budgets, day = self._budgets(), self.today
        shares = []
        for scope in reversed(SCOPES):
            allowance, name = budgets.of(scope), payer.name(scope)
            if name and allowance.is_bounded:
                known = await self._sum(day, scope, name)
                for kind in KINDS:
                    limit = allowance.of(kind)
                    if limit is not None:
                        shares.append(QuotaUsage(scope, kind, known.amount(kind), limit))
        return tuple(shares)

    def was_told(self, over: QuotaExceeded, payer: UsageScope) -> bool:
        """Return True if it is known here that they were told today."""
        return (self.today, *_told_to(over, payer)) in self._told

    async def told(self, over: QuotaExceeded, payer: UsageScope) -> str:
        """Give the notice of a quota, once a day: to a person, or to all in the channel or the guild.

        "" where they were told before. From now on they are taken to have been.

        Raises:
            StoreError: it could not be recorded.
        """
        day = self.today
        scope, name = _told_to(over, payer)
        if (day, scope, name) in self._told:
            return ""
        self._evict_before(day)
        self._told.add((day, scope, name))
        try:
            is_new = await self._store.notice(day, scope, name)
        except StoreError:
            self._told.discard((day, scope, name))  # they will be told when that can be recorded
            raise
        return over.for_people(day) if is_new else ""

    def hold(self, payer: UsageScope, messages: int, day: int) -> None:
        """Add `messages` (may be negative) to the in-flight count of `payer` on `day`."""
        for scope in SCOPES:
            if known := self._sums.get((day, scope, payer.name(scope))):
                known.held += messages

    async def _sum(self, day: int, scope: Scope | None, name: str, *, anew: bool = False) -> _Sum:
        key: _Key = (day, scope, name)
        known = self._sums.get(key)
        if known is None:
            known = _Sum()
            self._sums.put(key, known)
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

    def _sums_of(self, spent: UsageEntry) -> Iterator[_Sum]:
        """Give the known sums that this usage counts in."""
        payer = UsageScope(spent.person, spent.channel, spent.guild)
        for scope, name in ((None, ""), *((scope, payer.name(scope)) for scope in SCOPES)):
            if known := self._sums.get((spent.day, scope, name)):
                yield known

    def _evict_before(self, day: int) -> None:
        self._told = {key for key in self._told if key[0] >= day - _KEPT_DAYS}
        self._carried = {key: spent for key, spent in self._carried.items() if key[0] >= day - _KEPT_DAYS}


def _told_to(over: QuotaExceeded, payer: UsageScope) -> tuple[Scope, str]:
    """Return who is told of a quota. The month's is told once in a channel, or to the person alone there."""
    scope = over.scope or ("channel" if payer.guild else "person")
    return scope, payer.name(scope)


def payer_of(message: Message, channel: Channel) -> UsageScope:
    """Give the payer of the answer to a message."""
    venue = channel.venue
    return UsageScope(message.author.id, venue.channel or message.conversation, venue.guild)


async def refused(ledger: UsageLedger, message: Message, channel: Channel) -> QuotaExceeded | None:
    """Give the quota that keeps a message from being answered; None: it may be answered.

    Raises:
        StoreError: the ledger could not be read.
    """
    return await _over(ledger, payer_of(message, channel), channel, ("messages", "tokens"))


async def _over(
    ledger: UsageLedger, payer: UsageScope, channel: Channel, kinds: Iterable[Kind]
) -> QuotaExceeded | None:
    """Give the quota that is used up. Operators only heed the month's dollars."""
    over = await ledger.over(payer, kinds)
    if over is None or over.scope is None:
        return over
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            rights = await channel.rights(payer.person)
    except (ChannelError, TimeoutError):
        rights = Rights()
    return None if rights.operator else over


class TurnUsage:
    """The use of one attempt at a turn, for whom, and whether there is more to be used.

    Args:
        ledger: takes the usage.
        turn: its number in the store.
        model: who writes.
        message: the one that is answered: its author pays.
        answers: how many messages are answered, by the ids of their authors.
        channel: tells where the message was written, and what its author may do there.
        search_price: dollars for one search that the model's provider makes by itself; None: not known.
    """

    def __init__(
        self,
        ledger: UsageLedger,
        *,
        turn: int,
        model: Model,
        message: Message,
        answers: Mapping[str, int],
        channel: Channel,
        search_price: float | None = None,
    ) -> None:
        self._ledger = ledger
        self._search_price = search_price
        self._turn = turn
        self._model = model
        self._channel = channel
        self._payer = payer_of(message, channel)
        self._answers = dict(answers)
        self._spent: dict[str, UsageEntry] = {}  # by model; what is not on record yet
        self._settled = False
        self._day = ledger.today
        self._hold(1)

    def asked(self, finished: Finished) -> None:
        """Count what a request to the model that writes used."""
        searches = finished.usage.searches
        usage = replace(finished.usage, searches=0)
        if finished.model:  # another stood in for it
            self.count(finished.model, usage, finished.prices)
        else:
            self.count(self._model.name, usage, self._model.traits.prices)
        self.count(NATIVE, Usage(searches=searches), search_prices(self._search_price))

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """Count what a request to any model used, on the usage of the person who is answered."""
        if usage == Usage():
            return
        spent = replace(spent_on(self._payer, model, usage, prices), day=self._ledger.today, turn=self._turn)
        if self._settled:  # something went on beside that the turn did not wait for
            self._ledger.enter_later([spent])
            return
        known = self._spent.get(model)
        self._spent[model] = spent if known is None else known + spent

    async def record(self) -> None:
        """Enter in the ledger what was used until now."""
        await self._ledger.enter(self._taken())

    async def over(self) -> QuotaExceeded | None:
        """Give the quota that was used up meanwhile; None: the turn may go on.

        Raises:
            StoreError: the ledger could not be read.
        """
        return await _over(self._ledger, self._payer, self._channel, ("tokens",))

    async def notice(self, over: QuotaExceeded) -> str:
        """Give the notice for the person who is answered; "" where they were told today.

        Raises:
            StoreError: it could not be recorded that they were told.
        """
        return await self._ledger.told(over, self._payer)

    async def check_writes(self, tool: str) -> None:
        """Check that a tool may make one more change.

        Raises:
            ToolError: it may not.
        """
        try:
            over = await _over(self._ledger, self._payer, self._channel, ("writes",))
        except StoreError as error:
            raise ToolError(f"{tool} could not be put on record, so it was not carried out.") from error
        if over is not None:
            raise ToolError(over.for_model(tool))

    def write(self) -> tuple[UsageEntry, ...]:
        """Count a change that is made at this moment; gives the rows to be recorded with it."""
        spent = (self._row(self._payer.person, writes=1),)
        self._ledger.entered(spent)
        return spent

    def settle(self, *, answered: bool) -> tuple[UsageEntry, ...]:
        """End the attempt; gives the rows to be recorded with it.

        `answered`: it was the answer to its messages.
        """
        self._hold(-1)
        self._settled = True
        rows = list(self._taken())
        if answered:
            rows += [self._row(person, messages=count) for person, count in self._answers.items()]
        return tuple(rows)

    def close(self) -> None:
        """End the attempt, if it was not settled. What it used is entered by itself."""
        if not self._settled:
            self._ledger.enter_later(self.settle(answered=False))

    def _taken(self) -> tuple[UsageEntry, ...]:
        spent, self._spent = tuple(self._spent.values()), {}
        return spent

    def _row(self, person: str, *, messages: int = 0, writes: int = 0) -> UsageEntry:
        row = spent_on(replace(self._payer, person=person), self._model.name, Usage(), None)
        return replace(row, day=self._ledger.today, turn=self._turn, messages=messages, writes=writes)

    def _hold(self, sign: int) -> None:
        for person, count in self._answers.items():
            self._ledger.hold(replace(self._payer, person=person), sign * count, self._day)
