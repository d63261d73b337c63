"""The inbox of a conversation, or of one turn: messages in order, and since when they wait.

A conversation has one inbox of what was received and is not part of a turn yet; a turn takes from it what it
answers, and gives back what it did not come to. Some messages come due again, since the turn that was to
answer them was cut: they stand in their old places, before what was written after them.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.core.message import Message

DELETED = "(this message was deleted)"
"""Text in the history for a message that was deleted after a reply to it was seen."""


class Inbox(Struct):
    """Messages that are to be answered, with those overheard between them, oldest first.

    Attributes:
        passed: ids of overheard messages that were too many to be told of; they are answered along.
        arrivals: when messages came, by their ids, on the monotonic clock.
        deferred: ids of people who are answered later: what they wrote to the persona stays here.
    """

    messages: list[Message] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    arrivals: dict[str, float] = field(default_factory=dict)
    deferred: frozenset[str] = frozenset()

    @property
    def addressed(self) -> list[Message]:
        """The messages by which the persona is meant."""
        return [message for message in self.messages if message.addressed]

    @property
    def wants_answer(self) -> bool:
        """True if the persona is meant by any message that is to be answered now."""
        return any(message.addressed and message.author.id not in self.deferred for message in self.messages)

    @property
    def goes_on(self) -> bool:
        """True if all that is to be answered comes due again: a reply broke off, and is to go on."""
        addressed = self.addressed
        return bool(addressed) and all(message.again for message in addressed)

    @property
    def answered(self) -> Message:
        """The latest message by which the persona is meant."""
        return next(message for message in reversed(self.messages) if message.addressed)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all messages."""
        return (*self.passed, *(message.id for message in self.messages))

    def hear(self, message: Message, *, arrived: float) -> None:
        """Add a message that came."""
        self.messages.append(message)
        self.arrivals[message.id] = arrived

    def take(self, most: int) -> "Inbox":
        """Take out the oldest messages to the persona, `most` at most, and what was overheard until the next.

        What deferred people wrote to the persona stays.
        """
        taken: list[Message] = []
        left: list[Message] = []
        full = False
        for message in self.messages:
            if message.addressed and message.author.id in self.deferred:
                left.append(message)
                continue
            full = full or (message.addressed and most <= 0)
            most -= message.addressed
            (left if full else taken).append(message)
        inbox = Inbox(taken, self.passed, _only(self.arrivals, taken))
        self.messages, self.passed, self.arrivals = left, [], _only(self.arrivals, left)
        return inbox

    def defer(self, other: "Inbox", people: frozenset[str]) -> None:
        """Take back from the other inbox what these people wrote to the persona: they are answered later."""
        self.deferred = people
        back = [each for each in other.messages if each.addressed and each.author.id in people]
        self.add(Inbox(back, [], _only(other.arrivals, back)))
        other.messages = [each for each in other.messages if each not in back]
        other.arrivals = _only(other.arrivals, other.messages)

    def overhear(self) -> None:
        """Take no message as meant for the persona any more."""
        self.messages = [replace(message, addressed=False) for message in self.messages]

    def add(self, other: "Inbox") -> None:
        """Add messages, each in its old place."""
        self.messages = sorted(other.messages + self.messages, key=lambda message: message.number)
        self.passed = other.passed + self.passed
        self.arrivals |= other.arrivals

    def replace(self, messages: Iterable[Message]) -> None:
        """Hold these messages and no others; when they came stays known."""
        self.messages, self.passed = list(messages), []
        self.arrivals = _only(self.arrivals, self.messages)

    def find(self, message_id: str) -> Message | None:
        """Return the message of that id, if it is here."""
        return next((message for message in self.messages if message.id == message_id), None)

    def revise(self, message_id: str, text: str) -> bool:
        """Give a message another text; False if there is nothing to change."""
        for number, message in enumerate(self.messages):
            if message.id == message_id and message.text != text:
                self.messages[number] = replace(message, text=text)
                return True
        return False

    def remove(self, *message_ids: str) -> None:
        """Leave messages out."""
        self.messages = [message for message in self.messages if message.id not in message_ids]
        self.passed = [name for name in self.passed if name not in message_ids]

    def blank(self, message_id: str) -> None:
        """Keep of a message only that there was one."""
        self.messages = [
            replace(message, text=DELETED, images=(), quoted=()) if message.id == message_id else message
            for message in self.messages
        ]

    def keep(self, ids: Collection[str]) -> None:
        """Leave out all messages but those of these ids."""
        self.remove(*(name for name in self.ids if name not in ids))

    def pass_over(self, most: int) -> None:
        """Keep the latest overheard messages; of the others only that they were heard."""
        overheard = [message for message in self.messages if not message.addressed]
        for message in overheard[:-most]:
            self.messages.remove(message)
            self.passed.append(message.id)
            self.arrivals.pop(message.id, None)


def _only(arrivals: dict[str, float], messages: Iterable[Message]) -> dict[str, float]:
    return {one.id: arrivals[one.id] for one in messages if one.id in arrivals}
