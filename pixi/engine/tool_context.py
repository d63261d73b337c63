"""What one call of a tool acts with: in order behind what was said before, and for as long as it runs."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pixi.channels.channel import Channel
from pixi.core.card import Card
from pixi.core.deltas import Prices, Usage
from pixi.core.events import Progressed, TurnEvent
from pixi.core.masking import Mask
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.core.picture import Picture
from pixi.core.strangers import clipped
from pixi.core.venue import Venue
from pixi.engine.acts import Acts, NotDone
from pixi.toolbox.results import masked


class ToolContext:
    """The context of a call: a `pixi.toolbox.context.Context`.

    Args:
        acts: what is acted with.
        drained: waits until the commands that came before are performed.
        mask: hides secrets in what is shown.
        show: takes the events, in order.
    """

    __slots__ = ("_acts", "_closed", "_drained", "_ends", "_mask", "_show", "_waited", "_waits_since")

    def __init__(
        self,
        acts: Acts,
        drained: Callable[[], Awaitable[None]],
        mask: Mask,
        show: Callable[[TurnEvent], None],
    ) -> None:
        self._acts = acts
        self._drained = drained
        self._mask = mask
        self._show = show
        self._closed = False
        self._ends = math.inf  # on the loop's clock; see `begin`
        self._waited = 0.0
        self._waits_since: float | None = None

    @property
    def message(self) -> Message:
        """The message being answered."""
        return self._acts.message

    @property
    def askers(self) -> Sequence[Author]:
        """Everybody whose messages are answered."""
        return self._acts.askers

    @property
    def venue(self) -> Venue:
        """The place, as far as it decides what may be said there."""
        return self._acts.venue

    @property
    def persona(self) -> Persona:
        """Who answers."""
        return self._acts.persona

    @property
    def channel(self) -> Channel:
        """Where."""
        return self._acts.channel

    async def send(self, text: str, *, to: int = 0) -> None:
        """See `Context.send`."""
        await self._its_turn()
        await self._acts.send(self._mask.hide(text), to=to)

    async def card(self, card: Card) -> None:
        """See `Context.card`."""
        await self._its_turn()
        await self._acts.card(masked(card, self._mask))

    async def picture(self, picture: Picture) -> None:
        """See `Context.picture`."""
        await self._its_turn()
        words, link = self._mask.hide(picture.words), self._mask.hide(picture.link)
        await self._acts.picture(replace(picture, words=words, link=link))

    async def sticker(self, name: str) -> None:
        """See `Context.sticker`."""
        await self._its_turn()
        await self._acts.sticker(name)

    async def react(self, emoji: str, *, to: int = 0) -> None:
        """See `Context.react`."""
        await self._its_turn()
        await self._acts.react(emoji, to=to)

    async def note(self, text: str) -> None:
        """See `Context.note`."""
        await self._its_turn()
        await self._acts.note(self._mask.hide(text))

    async def typing(self) -> None:
        """See `Context.typing`."""
        if not self._closed:
            await self._acts.typing()

    @property
    def seconds_left(self) -> float:
        """See `Context.seconds_left`."""
        return max(0.0, self._ends + self.waited() - asyncio.get_running_loop().time())

    def progress(self, text: str) -> None:
        """See `Context.progress`."""
        if not self._closed:
            self._show(Progressed(clipped(self._mask.hide(text), 200)))

    def begin(self, seconds: float) -> None:
        """The call is carried out from now on, and may take so many seconds."""
        self._ends = asyncio.get_running_loop().time() + seconds

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """See `Context.count`. What goes on after the call is counted, too."""
        self._acts.count(model, usage, prices)

    def close(self) -> None:
        """The call is over; what is left of it can do nothing any more."""
        self._closed = True

    def waited(self) -> float:
        """Seconds in which it could not go on since what came before was not done: no time of the tool's."""
        since = self._waits_since
        return self._waited + (0.0 if since is None else asyncio.get_running_loop().time() - since)

    async def _its_turn(self) -> None:
        if self._closed:
            raise NotDone("The call is over.")
        clock = asyncio.get_running_loop()
        alone = self._waits_since is None  # a tool may do several things at once
        if alone:
            self._waits_since = clock.time()
        try:
            await self._drained()
        finally:
            if alone and self._waits_since is not None:
                self._waited += clock.time() - self._waits_since
                self._waits_since = None
        if self._closed:
            raise NotDone("The call is over.")
