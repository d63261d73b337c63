"""What was written in a place before: plain values, and the door by which tools come to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Way = Literal["around", "before", "after"]
"""Which messages are meant: those round one, those before it, or those after it."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants to know, and at which message.

    Attributes:
        people: ids of the authors whose messages are answered; only what all of them may read is told.
        message: id of the message that is answered; what came after it is not looked for.
    """

    people: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """What is looked for.

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


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
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


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """Messages that were found. `partial`: why there may be more that were not looked at; "": all were."""

    messages: tuple[ArchivedMessage, ...] = ()
    partial: str = ""


@dataclass(frozen=True, slots=True)
class ForumPost:
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


@dataclass(frozen=True, slots=True)
class FoundPosts:
    """Posts that were found; `partial` as in `FoundMessages`."""

    posts: Sequence[ForumPost] = ()
    partial: str = ""


class Archive(Protocol):
    """What was written around a channel before.

    Nothing is told that one of those who ask may not read at that moment, or that somebody may not read who
    reads the channel in which they ask. A place that they may not read, and one that does not exist, are
    told of in the same words. All methods raise `ChannelError` with words that a model can act on.
    """

    async def search(self, query: ArchiveQuery, asking: Asker) -> FoundMessages:
        """Messages that hold these words, the best first."""
        ...

    async def pins(self, place: str, asking: Asker, *, limit: int) -> FoundMessages:
        """What people pinned in a place, the last first; "": where they ask."""
        ...

    async def posts(self, query: ArchiveQuery, asking: Asker) -> FoundPosts:
        """Posts of forums that have to do with these words, the best first; `place` names a forum."""
        ...

    async def read(self, where: str, asking: Asker, *, way: Way, limit: int) -> FoundMessages:
        """Messages of one place, oldest first.

        `where` is the link of a message; or a place, of which the newest messages are read, or with `after`
        the oldest.
        """
        ...
