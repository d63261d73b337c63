"""What a command or tool is told first: who asks, where, as which persona; and how it can act."""

from collections.abc import Sequence
from typing import Protocol

from pixi.core.card import Card
from pixi.core.channel import Channel
from pixi.core.deltas import Prices, Usage
from pixi.core.message import Author, Message
from pixi.core.persona import Persona
from pixi.core.picture import Picture
from pixi.core.venue import Venue


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
        """Who answers."""
        ...

    @property
    def channel(self) -> Channel:
        """Where. Prefer the acts below: what is done to the channel itself is not recorded."""
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
