"""The usage of one turn: what it uses, for whom, and whether there is more to be used."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pixi.channels.channel import Channel
from pixi.core.deltas import Finished, Prices, Usage
from pixi.core.errors import ChannelError, StoreError, ToolError
from pixi.core.message import Message
from pixi.core.spending import Kind, Payer, Spent, search_prices, spent_on, way_of_searching
from pixi.core.venue import Rights
from pixi.engine.books import UsageLedger
from pixi.engine.refusing import QuotaExceeded, told_to_model
from pixi.models.model import Model

NATIVE = way_of_searching("native")
"""What the searches are called in the ledger that a model's provider made by itself."""

_LOOK_SECONDS = 5.0  # for what somebody may do in a channel


def payer_of(message: Message, channel: Channel) -> Payer:
    """Who pays for the answer to a message."""
    venue = channel.venue
    return Payer(message.author.id, venue.channel or message.conversation, venue.guild)


async def refused(ledger: UsageLedger, message: Message, channel: Channel) -> QuotaExceeded | None:
    """What is used up, so that a message is not answered.

    Raises:
        StoreError: the ledger could not be read.
    """
    return await _over(ledger, payer_of(message, channel), channel, ("messages", "tokens"))


async def _over(
    ledger: UsageLedger, payer: Payer, channel: Channel, kinds: Iterable[Kind]
) -> QuotaExceeded | None:
    """What is used up; operators may use more than others, as long as the month's dollars last."""
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
    """Of one attempt at a turn.

    Args:
        ledger: where it is entered.
        turn: its number in the store.
        model: who writes.
        message: the one that is answered: its author pays.
        answers: how many messages are answered, by the ids of their authors.
        channel: where.
        search_price: dollars for one search that the model's provider makes by itself; None: not known.
    """

    __slots__ = (
        "_answers",
        "_channel",
        "_day",
        "_ledger",
        "_model",
        "_payer",
        "_search_price",
        "_settled",
        "_spent",
        "_turn",
    )

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
        self._spent: dict[str, Spent] = {}  # by model; what is not on record yet
        self._settled = False
        self._day = ledger.today
        self._hold(1)

    def asked(self, finished: Finished) -> None:
        """The model that writes was asked, and used this."""
        searches = finished.usage.searches
        usage = replace(finished.usage, searches=0)
        if finished.model:  # another stood in for it
            self.count(finished.model, usage, finished.prices)
        else:
            self.count(self._model.name, usage, self._model.traits.prices)
        self.count(NATIVE, Usage(searches=searches), search_prices(self._search_price))

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """A model was asked, for whoever is answered, and used this."""
        if usage == Usage():
            return
        spent = replace(spent_on(self._payer, model, usage, prices), day=self._ledger.today, turn=self._turn)
        if self._settled:  # something went on beside that the turn did not wait for
            self._ledger.enter_later([spent])
            return
        known = self._spent.get(model)
        self._spent[model] = spent if known is None else known + spent

    async def record(self) -> None:
        """Put on record what was used until now."""
        await self._ledger.enter(self._taken())

    async def over(self) -> QuotaExceeded | None:
        """What was used up meanwhile, so that there is no going on as before.

        Raises:
            StoreError: the ledger could not be read.
        """
        return await _over(self._ledger, self._payer, self._channel, ("tokens",))

    async def notice(self, over: QuotaExceeded) -> str:
        """What whoever is answered is to be told of it; "" where they were told today.

        Raises:
            StoreError: it could not be recorded that they were.
        """
        return await self._ledger.told(over, self._payer)

    async def check_writes(self, tool: str) -> None:
        """See whether one more change may be made.

        Raises:
            ToolError: it may not.
        """
        try:
            over = await _over(self._ledger, self._payer, self._channel, ("writes",))
        except StoreError as error:
            raise ToolError(f"{tool} could not be put on record, so it was not carried out.") from error
        if over is not None:
            raise ToolError(told_to_model(over, tool))

    def write(self) -> tuple[Spent, ...]:
        """One more change is made at this moment: what to enter with it."""
        spent = (self._row(self._payer.person, writes=1),)
        self._ledger.entered(spent)
        return spent

    def settle(self, *, answered: bool) -> tuple[Spent, ...]:
        """The attempt is over: what is to be put on record with it.

        `answered`: it was the answer to its messages.
        """
        self._hold(-1)
        self._settled = True
        rows = [self._row(person, messages=count) for person, count in self._answers.items()]
        return (*self._taken(), *(rows if answered else ()))

    def close(self) -> None:
        """The attempt is over. What was not put on record with it is entered by itself."""
        if not self._settled:
            self._ledger.enter_later(self.settle(answered=False))

    def _taken(self) -> tuple[Spent, ...]:
        spent, self._spent = tuple(self._spent.values()), {}
        return spent

    def _row(self, person: str, *, messages: int = 0, writes: int = 0) -> Spent:
        row = spent_on(replace(self._payer, person=person), self._model.name, Usage(), None)
        return replace(row, day=self._ledger.today, turn=self._turn, messages=messages, writes=writes)

    def _hold(self, sign: int) -> None:
        for person, count in self._answers.items():
            self._ledger.hold(replace(self._payer, person=person), sign * count, self._day)
