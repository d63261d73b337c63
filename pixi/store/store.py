"""The protocol of the store. Recorded before it is performed; a turn's end is one transaction."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pixi.core.deltas import Usage
from pixi.core.events import Finish
from pixi.core.lines import Line
from pixi.core.message import Message

Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Effect:
    """An outward act under its key (turn, sequence). `kind` is e.g. `send`; `payload` what was to be done.

    `outcome` is None while only the intent is recorded: whether it happened is not known.
    """

    turn: int
    sequence: int
    kind: str
    payload: str
    outcome: Outcome | None = None
    platform_id: str | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that the last process did not end: the messages it answered and the acts on record."""

    id: int
    messages: tuple[Message, ...]
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """What is known of a conversation.

    Attributes:
        generation: counts resets; writes of an older generation are dropped.
        lines: the history, oldest first, frozen to the byte.
        waiting: messages received and not yet part of a turn, oldest first (overheard ones too).
        unfinished: turns begun and not ended, oldest first.
    """

    generation: int
    lines: tuple[Line, ...]
    waiting: tuple[Message, ...]
    unfinished: tuple[UnfinishedTurn, ...]


class Store(Protocol):
    """Everything that must outlive the process. All methods raise `StoreError` alone.

    A method returns once the change is committed. Calls are carried out in the order they were made.
    """

    async def receive(self, message: Message) -> bool:
        """Put a message into the inbox; False if its (conversation, id) was there already."""
        ...

    async def load(self, conversation: str) -> SavedConversation:
        """All that is known of a conversation; generation 0 and nothing else for a new one."""
        ...

    async def begin_turn(
        self, conversation: str, generation: int, persona: str, message_ids: tuple[str, ...]
    ) -> int:
        """Record that a turn answers these messages, which wait no longer; gives the turn's id.

        `StoreError`, and no turn, if one of them is not waiting: it never came, or a turn has it already.
        """
        ...

    async def intend(self, turn: int, sequence: int, kind: str, payload: str) -> None:
        """Record an act before it is performed. A key (turn, sequence) is recorded once."""
        ...

    async def settle(
        self, turn: int, sequence: int, outcome: Outcome, platform_id: str | None = None
    ) -> None:
        """Record what became of an act."""
        ...

    async def end_turn(
        self, turn: int, lines: tuple[Line, ...], finish: Finish, steps: int, usage: Usage
    ) -> bool:
        """Append the turn's lines and end it, in one transaction.

        False, and nothing appended, if the conversation was reset since the turn began, or the turn was
        ended before. Ending a turn with no lines (it was begun again with newer messages) puts its
        messages back among the waiting, in their old places.
        """
        ...

    async def reset(self, conversation: str) -> int:
        """Forget what was said (lines, messages, acts, pictures); gives the new generation.

        Ids of messages are remembered, so that one which arrives again is still the same. A turn under
        way can settle its acts and end, without effect.
        """
        ...

    async def close(self) -> None:
        """Finish what was asked and close the file. Calling it twice does no harm."""
        ...
