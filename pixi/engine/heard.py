"""What was heard in a conversation and is to be answered: messages in order, and since when they wait."""

from dataclasses import dataclass, field, replace

from pixi.core.message import Message

_DELETED = "(this message was deleted)"


@dataclass(slots=True)
class Heard:
    """Messages, oldest first, and the ids of those that there were too many of.

    Attributes:
        arrivals: when messages came, by their ids, on the monotonic clock.
        deferred: ids of people who are answered later: what they wrote to the persona stays where it is.
    """

    messages: list[Message] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    arrivals: dict[str, float] = field(default_factory=dict)
    deferred: frozenset[str] = frozenset()

    @property
    def wants_answer(self) -> bool:
        """Whether the persona is meant by any of them that is to be answered now."""
        return any(message.addressed and message.author.id not in self.deferred for message in self.messages)

    @property
    def answered(self) -> Message:
        """The latest of those by which the persona is meant."""
        return next(message for message in reversed(self.messages) if message.addressed)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all of them."""
        return (*self.passed, *(message.id for message in self.messages))

    def hear(self, message: Message, *, arrived: float) -> None:
        """A message came."""
        self.messages.append(message)
        self.arrivals[message.id] = arrived

    def take(self) -> "Heard":
        """All that is there, but what is deferred, which then is here no more."""
        kept = [
            message for message in self.messages if message.addressed and message.author.id in self.deferred
        ]
        taken = Heard([each for each in self.messages if each not in kept], self.passed, self.arrivals)
        self.messages, self.passed = kept, []
        self.arrivals = {one.id: taken.arrivals[one.id] for one in kept if one.id in taken.arrivals}
        return taken

    def defer(self, other: "Heard", people: frozenset[str]) -> None:
        """Take back from the other what these people wrote to the persona: they are answered later."""
        self.deferred = people
        self.put_back(other)
        other.messages, other.passed, other.arrivals = [], [], {}
        other.add(self.take())

    def overhear(self) -> None:
        """None of them is meant for the persona any more."""
        self.messages = [replace(message, addressed=False) for message in self.messages]

    def add(self, other: "Heard") -> None:
        """Take over what came since."""
        self.messages += other.messages
        self.passed += other.passed
        self.arrivals |= other.arrivals

    def put_back(self, other: "Heard") -> None:
        """Take over what came before."""
        self.messages = other.messages + self.messages
        self.passed = other.passed + self.passed
        self.arrivals |= other.arrivals

    def replace(self, messages: list[Message]) -> None:
        """Hold these and no others; of those that were here, it is still known when they came."""
        known = {message.id for message in messages}
        self.messages, self.passed = messages, []
        self.arrivals = {name: arrived for name, arrived in self.arrivals.items() if name in known}

    def find(self, message_id: str) -> Message | None:
        """The message of that id, if it is here."""
        return next((message for message in self.messages if message.id == message_id), None)

    def revise(self, message_id: str, text: str) -> bool:
        """Give a message another text; False if there is nothing to change."""
        for number, message in enumerate(self.messages):
            if message.id == message_id and message.text != text:
                self.messages[number] = replace(message, text=text)
                return True
        return False

    def remove(self, message_id: str) -> None:
        """Leave one out."""
        self.messages = [message for message in self.messages if message.id != message_id]
        self.passed = [name for name in self.passed if name != message_id]

    def blank(self, message_id: str) -> None:
        """Of a message, keep only that there was one."""
        self.messages = [
            replace(message, text=_DELETED, images=(), quoted=()) if message.id == message_id else message
            for message in self.messages
        ]

    def forget(self, ids: frozenset[str] = frozenset()) -> None:
        """Leave out the messages of these ids, and all that were passed over."""
        self.messages = [message for message in self.messages if message.id not in ids]
        self.passed = []

    def pass_over(self, most: int) -> None:
        """Of overheard messages, keep the latest; of the others only that they were heard."""
        overheard = [message for message in self.messages if not message.addressed]
        for message in overheard[:-most]:
            self.messages.remove(message)
            self.passed.append(message.id)
            self.arrivals.pop(message.id, None)
