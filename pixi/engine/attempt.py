"""One attempt at a turn: put on record, and given all that it takes to write it."""

from dataclasses import dataclass, field

from pixi.channels.channel import Channel
from pixi.core.conversation import Conversation
from pixi.core.message import Message
from pixi.core.turn import Turn
from pixi.engine.acts import Acts
from pixi.engine.reply import Reply
from pixi.engine.stage import Stage


@dataclass(slots=True)
class Heard:
    """What a turn is about: messages, oldest first, and the ids of those that there were too many of."""

    messages: list[Message] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)

    @property
    def wants_answer(self) -> bool:
        """Whether the persona is meant by any of them."""
        return any(message.addressed for message in self.messages)

    @property
    def answered(self) -> Message:
        """The latest of those by which the persona is meant."""
        return next(message for message in reversed(self.messages) if message.addressed)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all of them."""
        return (*self.passed, *(message.id for message in self.messages))

    def add(self, other: "Heard") -> None:
        """Take over what came since."""
        self.messages += other.messages
        self.passed += other.passed

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


@dataclass(frozen=True, slots=True)
class Attempt:
    """A turn on record, and what writes it."""

    id: int
    turn: Turn
    reply: Reply


async def begin_attempt(
    stage: Stage,
    window: Conversation,
    channel: Channel,
    heard: Heard,
    *,
    generation: int,
    may_restart: bool,
) -> Attempt:
    """Record that a turn answers what was heard, and make ready to write it.

    Raises:
        StoreError: it could not be recorded.
    """
    answered = heard.answered
    number = await stage.store.begin_turn(answered.conversation, generation, stage.persona.name, heard.ids)
    acts = Acts(
        turn=number,
        message=answered,
        persona=stage.persona,
        channel=channel,
        store=stage.store,
        limits=stage.limits,
    )
    turn = _turn(stage, window, heard, key=f"{number:x}")
    sorry = stage.persona.when_broken
    reply = Reply(
        turn=turn,
        model=stage.model,
        acts=acts,
        commands=stage.commands,
        tools=stage.repertoire.tools,
        limits=stage.limits,
        spare_tokens=window.spare_tokens,
        may_restart=may_restart,
        when_broken=sorry[number % len(sorry)] if sorry else "",
    )
    return Attempt(number, turn, reply)


def _turn(stage: Stage, window: Conversation, heard: Heard, *, key: str) -> Turn:
    said = window.fit(stage.stamp(heard.messages))  # before the history is taken: it may cut it
    return Turn(
        prefix=stage.prefix(heard.answered),
        history=window.lines,
        said=said,
        names=stage.repertoire.names,
        people=[message.author.name for message in heard.messages],
        tools=stage.repertoire.schemas,
        limits=stage.limits,
        prose=stage.prose,
        grammar=stage.repertoire.grammar,
        key=key,
    )
