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
        """Record that a turn answers these messages; gives the turn's id."""
        ...

    async def intend(self, turn: int, sequence: int, kind: str, payload: str) -> None:
        """Record an act before it is performed."""
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

        False, and nothing appended, if the conversation was reset since the turn began. Ending a turn
        with no lines (it was begun again with newer messages) puts its messages back among the waiting.
        """
        ...

    async def reset(self, conversation: str) -> int:
        """Forget the history (lines, waiting messages); gives the new generation."""
        ...

    async def close(self) -> None:
        """Finish what was asked and close the file. Calling it twice does no harm."""
        ...
