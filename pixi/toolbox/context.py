"""Context of a command or tool: who asks, where, as which persona; and how it can act."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from pixi.core.channel import Channel
from pixi.core.llm import Prices, Usage
from pixi.core.message import Author, Card, Message, Picture, Venue
from pixi.core.persona import Persona


class Draft:
    """An argument as far as it is written by now. One task may wait for it.

    Attributes:
        text: so much of it.
        whole: that is all.
    """

    __slots__ = ("_changed", "text", "whole")

    def __init__(self) -> None:
        self.text = ""
        self.whole = False
        self._changed = asyncio.Event()

    def grow(self, text: str) -> None:
        """Add a piece that was written."""
        self.text += text
        self._changed.set()

    def end(self, argument: str) -> None:
        """Take the whole argument."""
        self.text, self.whole = argument, True
        self._changed.set()

    async def settled(self, quiet: float) -> str:
        """Wait until it is whole, or something is there and has not grown for so many seconds; gives it."""
        while not self.whole:
            self._changed.clear()
            try:
                async with asyncio.timeout(quiet if self.text.strip() else None):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self.text

    async def ended(self) -> str:
        """Wait until it is whole; gives it."""
        while not self.whole:
            self._changed.clear()
            await self._changed.wait()
        return self.text


SECONDS = 2.0
"""Time that an answer waits for a notice."""

Look = Callable[[Message], Awaitable[Sequence[str]]]
"""Given a message that is to be answered, gives what the persona should know of it: short lines, or none."""


Answered = Callable[[Message, Sequence[str]], Awaitable[None]]
"""Given a message and what of its lines the persona was told, keeps that it answered."""


class Notice(Struct, frozen=True):
    """Something that is looked up for each message, e.g. where a link in it leads.

    What it says is shown to the persona above the message, as words that instruct nobody, and stays in the
    talk. A model that is small is not shown it.

    Attributes:
        source: of the tools that it goes with: only personas that have one of these are told.
        look: see `Look`; what takes longer than two seconds is left out, and so are all lines but three.
            It changes nothing: a turn may look several times before it answers, or fail.
        answered: called once the answer is on record; for what is told once. None: nothing is to be kept.
    """

    source: str
    look: Look
    answered: Answered | None = None


class Context(Protocol):
    """The turn, as a command or a tool sees it. Acts are recorded, ordered, and kept within the limits."""

    @property
    def message(self) -> Message:
        """The message being answered; its author is the person who asks."""
        ...

    @property
    def askers(self) -> Sequence[Author]:
        """Everybody whose messages are answered in this turn; what all of them may do is what may be done.

        Whose words were merely overheard is not among them.
        """
        ...

    @property
    def venue(self) -> Venue:
        """The place, as far as it decides what may be said there."""
        ...

    @property
    def persona(self) -> Persona:
        """Return who answers."""
        ...

    @property
    def channel(self) -> Channel:
        """Return where. Prefer the acts below: what is done to the channel itself is not recorded."""
        ...

    async def send(self, text: str, *, to: int = 0) -> None:
        """Say something. Nothing happens for text that is empty or blank.

        `to` is the number of an earlier message that it replies to; one that nobody knows is left out.
        """
        ...

    async def card(self, card: Card) -> None:
        """Show a card. Nothing happens for an empty one."""
        ...

    async def picture(self, picture: Picture) -> None:
        """Show a picture. Nothing happens for one with neither link nor file."""
        ...

    async def sticker(self, name: str) -> None:
        """Show one of the place's own stickers, by what its name nearly is.

        Raises:
            ChannelError: there is none like it, or the channel refused it.
        """
        ...

    async def react(self, emoji: str, *, to: int = 0) -> None:
        """Put a reaction on the message being answered, or on the one of this number.

        Raises:
            ChannelError: there is no message of that number, or the channel refused it.
        """
        ...

    async def note(self, text: str) -> None:
        """Write down a private thought."""
        ...

    async def typing(self) -> None:
        """Show that a message is being written."""
        ...

    @property
    def seconds_left(self) -> float:
        """Seconds until this is stopped: what takes long gives what it has by then."""
        ...

    def progress(self, text: str) -> None:
        """Tell people how far this is, in a line that the next one replaces, where the channel shows such."""
        ...

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """Enter what another model used, that was asked for this: it counts to the person who asks.

        Without `prices` it is not known what it cost.
        """
        ...
