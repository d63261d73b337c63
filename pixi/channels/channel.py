"""The protocol of a place where a persona can act."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pixi.channels.archive import Archive
from pixi.core.card import Card
from pixi.core.events import TurnEvent, Verdict
from pixi.core.message import Author, Message
from pixi.core.picture import Abilities, Picture
from pixi.core.venue import Rights, Venue

TAKEN_OVER = "This talk goes on in another window."
"""What a channel is shown as `Failed` where another process took its conversation over."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before a tool does something.

    Attributes:
        person: id of the author who must say yes; nobody else's answer counts.
        tool: what would run.
        does: what it would do, one line from the tool's description.
        arguments: what it would be given, as readable lines; strangers' words.
        nonce: of the question, see `Channel`.
    """

    person: str
    tool: str
    does: str
    arguments: str
    nonce: str


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for its answer.

    Attributes:
        conversation: the address where it was asked.
        persona: the name of who wants to use the tool.
        person: who is asked.
        expires: when an answer no longer counts, in seconds since the epoch.
    """

    conversation: str
    persona: str
    person: Author
    question: Question
    expires: float


class Channel(Protocol):
    """A place to act in: a terminal, a Discord channel, a web page.

    Acts raise `ChannelError` where the place refuses for good. `nonce` (at most 25 characters) is the
    same when an act is tried again, so that a platform which knows nonces performs it once.
    """

    @property
    def growing(self) -> bool:
        """Whether `show` wants `Opened` and `Grew`, i.e. messages while they are being written."""
        ...

    @property
    def paced(self) -> bool:
        """Whether messages come at the pace of somebody who types them, rather than at once."""
        ...

    @property
    def acts_by_events(self) -> bool:
        """Whether an act here is its event and nothing else, which nobody sees before it is shown.

        Such acts are not waited for: several are put on record together, with their outcome, and each event
        is shown once all before it is on record.
        """
        ...

    @property
    def venue(self) -> Venue:
        """Where this is, and who reads it."""
        ...

    @property
    def abilities(self) -> Abilities:
        """What can be done here besides showing words, as it is now."""
        ...

    @property
    def archive(self) -> Archive | None:
        """What was written round here before, for tools that look it up; None: there is nothing of it."""
        ...

    async def rights(self, person: str) -> Rights:
        """What a person may do here, by the id of the author, as it is now. None for whom nobody knows."""
        ...

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Ask a person whether a tool may do something, and wait that long for the answer.

        Only that person's answer counts. What was asked does not stay answerable after the call returned.
        """
        ...

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Deliver a card; gives the platform's id of it, where there is one. As `send`, it pings nobody."""
        ...

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Show a picture, moving if it can; gives the platform's id of it, where there is one. As `send`, it
        pings nobody.

        Of one with a link `sent_before` is asked with the link, of others with "".
        """
        ...

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Show one of the place's own stickers; gives the platform's id of it, where there is one.

        Its name need not be spelt as it is. `sent_before` is asked with "".
        """
        ...

    def parts(self, text: str) -> Sequence[str]:
        """A message as it can be posted here: one part, or several where it is too long for one.

        Each part is an act of its own, with a nonce of its own.
        """
        ...

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Deliver a message (one of `parts`); gives the platform's id of it, where there is one.

        Args:
            text: what is said.
            nonce: see above.
            answers: id of the message that the turn answers: where others have spoken since, the
                platform may point at it.
            reply_to: id of the message that this one must point at.
        """
        ...

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Put a reaction on a message. Doing it twice is the same as once."""
        ...

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """The id of a message that was posted as this part by an earlier process, if it was.

        Asked after a crash, for an act of which only the intent is on record. `after` is the id of the last
        message known to come before it: one that the turn posted, or the one that it answers. None: it was
        not posted, or posting it again under its nonce does no harm.

        Raises:
            ChannelForgot: that cannot be found out, now or later.
            ChannelLost: that cannot be found out now.
        """
        ...

    async def typing(self) -> None:
        """Show for some seconds that a message is being written. Asked again while it goes on."""
        ...

    def show(self, event: TurnEvent) -> None:
        """Be told what happens, in order. Must not block; most platforms ignore it."""
        ...


Receive = Callable[[Message, Channel], Awaitable[None]]
"""What a channel is given to hand its messages to."""

OpenChannel = Callable[[str], Awaitable[Channel | None]]
"""Builds the channel of a conversation's address again; None: it is gone, or cannot be reached.

Raises `ChannelElsewhere` where it is another process's."""
