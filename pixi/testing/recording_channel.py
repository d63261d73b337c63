"""A channel that does nothing but remember what was done in it."""

import asyncio
from itertools import count

from pixi.core.errors import ChannelError
from pixi.core.events import Noted, TurnEnded, TurnEvent
from pixi.core.message import Author, Image, Message

_SOMEBODY = Author("1", "Mo")
_FIRST_SENT_AT = 1_767_268_800.0  # noon on the first of January 2026, UTC; each message comes a second later


class RecordingChannel:
    """Remembers; and, if told to, refuses or hesitates as a platform does.

    Args:
        conversation: the address of the conversation that its messages belong to.
        growing: whether it shows messages while they are written.

    Attributes:
        sent: the messages, in order.
        reactions: (message id, emoji), in order.
        events: all that was shown, in order.
        nonces: those of the acts that were carried out, in order.
        typed: how often the typing indicator was asked for.
        refuse: kinds of acts that are refused for good: `send`, `react`, `typing`.
        hold: where set to an event, acts wait for it.
    """

    def __init__(self, conversation: str = "test:channel", *, growing: bool = False) -> None:
        self.conversation = conversation
        self.sent: list[str] = []
        self.reactions: list[tuple[str, str]] = []
        self.events: list[TurnEvent] = []
        self.nonces: list[str] = []
        self.typed = 0
        self.refuse: set[str] = set()
        self.hold: asyncio.Event | None = None
        self._growing = growing
        self._numbers = count(1)

    @property
    def growing(self) -> bool:
        """Whether it shows messages while they are written."""
        return self._growing

    @property
    def notes(self) -> list[str]:
        """The private thoughts, in order."""
        return [event.text for event in self.events if isinstance(event, Noted)]

    @property
    def ended(self) -> list[TurnEnded]:
        """The ends of turns, in order."""
        return [event for event in self.events if isinstance(event, TurnEnded)]

    def message(
        self,
        text: str,
        *,
        author: Author | str = _SOMEBODY,
        addressed: bool = True,
        id: str = "",  # noqa: A002 - it is the field's name
        reply_to: str | None = None,
        images: tuple[Image, ...] = (),
        group: bool = False,
    ) -> Message:
        """A message that somebody wrote here, a second after the one before."""
        number = next(self._numbers)
        if isinstance(author, str):
            author = Author(f"author:{author}", author)
        return Message(
            id=id or f"{self.conversation}:{number}",
            conversation=self.conversation,
            author=author,
            text=text,
            sent_at=_FIRST_SENT_AT + number,
            addressed=addressed,
            reply_to=reply_to,
            images=images,
            group=group,
        )

    async def send(self, text: str, *, nonce: str, reply_to: str | None = None) -> str | None:
        """Remember a message, once for a nonce; gives an id for it.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act("send")
        if nonce not in self.nonces:
            self.nonces.append(nonce)
            self.sent.append(text)
        return f"sent:{nonce}"

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Remember a reaction, once for a nonce.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act("react")
        if nonce not in self.nonces:
            self.nonces.append(nonce)
            self.reactions.append((message_id, emoji))

    async def typing(self) -> None:
        """Count it.

        Raises:
            ChannelError: it is told to refuse.
        """
        await self._act("typing")
        self.typed += 1

    def show(self, event: TurnEvent) -> None:
        """Remember it."""
        self.events.append(event)

    async def _act(self, kind: str) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if kind in self.refuse:
            raise ChannelError(f"The channel refused to {kind}.")
