"""The protocol of a place where a persona can act."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from pixi.core.events import TurnEvent
from pixi.core.message import Message


class Channel(Protocol):
    """A place to act in: a terminal, a Discord channel, a web page.

    Acts raise `ChannelError` where the place refuses for good. `nonce` (at most 25 characters) is the
    same when an act is tried again, so that a platform which knows nonces performs it once.
    """

    @property
    def growing(self) -> bool:
        """Whether `show` wants `Opened` and `Grew`, i.e. messages while they are being written."""
        ...

    async def send(self, text: str, *, nonce: str, reply_to: str | None = None) -> str | None:
        """Deliver a message; gives the platform's id of it, where there is one."""
        ...

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Put a reaction on a message."""
        ...

    async def typing(self) -> None:
        """Show that a message is being written. Ends by itself, or with the next `send`."""
        ...

    def show(self, event: TurnEvent) -> None:
        """Be told what happens, in order. Must not block; most platforms ignore it."""
        ...


Receive = Callable[[Message, Channel], Awaitable[None]]
"""What a channel is given to hand its messages to."""
