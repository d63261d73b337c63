"""Declares what a channel is: a place where a persona can act, and whose archive its tools can search."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pixi.core.errors import ChannelError, ChannelForgot
from pixi.core.events import TurnEvent, Verdict
from pixi.core.message import Abilities, Author, Card, Picture, Rights, Venue

Way = Literal["around", "before", "after"]
"""Direction of reading: messages round one, before it, or after it."""
_BETWEEN_TWO = Venue()
_WORDS_ALONE = Abilities()
TAKEN_OVER = "This talk goes on in another window."
"""Text of `Failed` on a channel whose conversation another process took over."""


class Asker(Struct, frozen=True):
    """The people a reply is for, and the message it answers.

    Attributes:
        people: ids of the authors whose messages are answered; only what all of them may read is told.
        message: id of the message that is answered; what came after it is not looked for.
    """

    people: tuple[str, ...]
    message: str = ""


class ArchiveQuery(Struct, frozen=True):
    """A search of the archive.

    Attributes:
        words: in any language; "" for whatever the author wrote.
        place: the name, mention, id or link of a channel or thread; "": all of them.
        author: the name, mention or id of somebody; "": everybody.
        before, after: seconds since the epoch.
        limit: how many results are wanted.
    """

    words: str
    place: str = ""
    author: str = ""
    before: float | None = None
    after: float | None = None
    limit: int = 10


class ArchivedMessage(Struct, frozen=True):
    """A message of before. Author, place and text are strangers' words, in a form that pings nobody.

    Attributes:
        place: where it stands, e.g. `#general`, or `#questions › How do I flip it?` for a thread.
        at: when it was written, in seconds since the epoch.
        link: leads a person there.
        bot: a bot wrote it.
    """

    author: str
    place: str
    at: float
    text: str
    link: str
    bot: bool = False


class FoundMessages(Struct, frozen=True):
    """Messages that were found. `partial`: why there may be more that were not looked at; "": all were."""

    messages: tuple[ArchivedMessage, ...] = ()
    partial: str = ""


class ForumPost(Struct, frozen=True):
    """A question or topic of a forum.

    Attributes:
        title, place, tags: strangers' words.
        at: when it was opened.
        solved: a tag says so.
        closed: nobody can answer any more.
        answers: how many messages follow the first one.
        first: what it begins with; None: that is gone.
        best: the answers that are worth most.
    """

    title: str
    place: str
    at: float
    link: str
    tags: tuple[str, ...] = ()
    solved: bool = False
    closed: bool = False
    answers: int = 0
    first: ArchivedMessage | None = None
    best: tuple[ArchivedMessage, ...] = ()


class FoundPosts(Struct, frozen=True):
    """Posts that were found; `partial` as in `FoundMessages`."""

    posts: Sequence[ForumPost] = ()
    partial: str = ""


class Archive(Protocol):
    """The past messages around a channel.

    Nothing is told that one of those who ask may not read at that moment, or that somebody may not read who
    reads the channel in which they ask. A place that they may not read, and one that does not exist, are
    told of in the same words. All methods raise `ChannelError` with words that a model can act on.
    """

    async def search(self, query: ArchiveQuery, asking: Asker) -> FoundMessages:
        """Return messages that hold these words, the best first."""
        ...

    async def pins(self, place: str, asking: Asker, *, limit: int) -> FoundMessages:
        """Return what people pinned in a place, the last first; "": where they ask."""
        ...

    async def posts(self, query: ArchiveQuery, asking: Asker) -> FoundPosts:
        """Return posts of forums that have to do with these words, the best first; `place` names a forum."""
        ...

    async def read(self, where: str, asking: Asker, *, way: Way, limit: int) -> FoundMessages:
        """Return messages of one place, oldest first.

        `where` is the link of a message; or a place, of which the newest messages are read, or with `after`
        the oldest.
        """
        ...


class Question(Struct, frozen=True):
    """A question to a person before a tool acts.

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


class OpenQuestion(Struct, frozen=True):
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


class Channel(ABC):
    """A place to act in: a terminal, a Discord channel, a web page. One method is needed: `send`.

    Acts raise `ChannelError` where the place refuses for good. `nonce` (at most 25 characters) is the
    same when an act is tried again, so that a platform which knows nonces performs it once.

    Attributes:
        growing: `show` is given `Opened` and `Grew` too, i.e. messages while they are being written.
        paced: messages come at the pace of somebody who types them, rather than at once.
        acts_by_events: an act is its event and nothing else, which nobody sees before it is shown. Such acts
            are not waited for: several are put on record together, with their outcome, and each event is
            shown once all before it is on record.
    """

    __slots__ = ()

    growing: bool = False
    paced: bool = False
    acts_by_events: bool = False

    @abstractmethod
    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Deliver a message (one of `parts`); return the platform's id of it, where there is one.

        Args:
            text: what is said.
            nonce: see above.
            answers: id of the message that the turn answers: where others have spoken since, the
                platform may point at it.
            reply_to: id of the message that this one must point at.
        """

    def parts(self, text: str) -> Sequence[str]:
        """Cut a message so that each part can be posted here. By default no message is too long.

        Each part is an act of its own, with a nonce of its own.
        """
        return (text,)

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:  # noqa: B027 - a default
        """Put a reaction on a message. Doing so twice is the same as once. By default `show` alone tells."""

    async def card(self, card: Card, *, nonce: str, answers: str | None = None) -> str | None:
        """Deliver a card; return the platform's id of it, where there is one. Like `send`, ping nobody.

        By default the card is sent as text, in one message.
        """
        return await self.send(card.plain, nonce=nonce, answers=answers)

    async def picture(self, picture: Picture, *, nonce: str, answers: str | None = None) -> str | None:
        """Show a picture, moving if possible; return the platform's id of it, where there is one.

        Like `send`, ping nobody. For a picture with a link `sent_before` is asked with the link, for others
        with "". By default the words and the link are sent.
        """
        return await self.send(f"[picture: {picture.plain}]", nonce=nonce, answers=answers)

    async def sticker(self, name: str, *, nonce: str, answers: str | None = None) -> str | None:
        """Show one of the place's own stickers; return the platform's id of it, where there is one.

        The name need not be spelt exactly. `sent_before` is asked with "". By default there are none.
        """
        raise ChannelError("There are no stickers here.")

    async def typing(self) -> None:  # noqa: B027 - a default
        """Show for some seconds that a message is being written. Asked again while it goes on."""

    def show(self, event: TurnEvent) -> None:  # noqa: B027 - a default
        """Show an event of the turn; events come in order. Must not block; most platforms ignore them."""

    @property
    def venue(self) -> Venue:
        """Return where this is, and who reads it. By default one person does."""
        return _BETWEEN_TWO

    @property
    def abilities(self) -> Abilities:
        """Return what can be done here besides showing words, as it is now."""
        return _WORDS_ALONE

    @property
    def archive(self) -> Archive | None:
        """Return what was written round here before, for tools that look it up. By default nothing can be."""
        return None

    async def rights(self, person: str) -> Rights:
        """Return what a person, by the id of the author, may do here now. By default nobody governs here."""
        return Rights()

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Ask a person whether a tool may do something, and wait that long for the answer.

        Only that person's answer counts. What was asked does not stay answerable after the call returned.
        By default nobody can be asked, so that the tool is not run.
        """
        return "nobody"

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Return the id of a message that an earlier process posted as this part; None where it did not.

        Asked after a crash, for an act of which only the intent is on record. `after` is the id of the last
        message known to come before it: one that the turn posted, or the one that it answers. None: it was
        not posted, or posting it again under its nonce does no harm.

        Raises:
            ChannelForgot: that cannot be found out, now or later. This is the default.
            ChannelLost: that cannot be found out now.
        """
        raise ChannelForgot("what was said here earlier cannot be looked at.")


OpenChannel = Callable[[str], Awaitable[Channel | None]]
"""Builds the channel of a conversation's address again; None: it is gone, or cannot be reached.

Raises `ChannelElsewhere` where it is another process's."""
