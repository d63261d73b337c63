"""The built-in commands, and the events that a reply is read into."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

SEND: Final = "send"
"""Says a message."""
REACT: Final = "react"
"""Puts a reaction on a message."""
NOTE: Final = "note"
"""Writes a thought down that nobody else reads."""

BUILT_IN: Mapping[str, tuple[str, ...]] = {
    SEND: ("say", "reply", "message", "send_message"),
    REACT: ("reaction", "emoji"),
    NOTE: ("notes", "think", "thought"),
}
"""The built-in commands and their aliases."""


class Prose(Struct, frozen=True, gc=False):
    """Text outside every command."""

    text: str


class CommandStarted(Struct, frozen=True, gc=False):
    """A command's name is certain and its argument begins. `name` is the canonical, lower-case one.

    `target` is that of its `CommandEnded`.
    """

    name: str
    target: int = 0


class CommandText(Struct, frozen=True, gc=False):
    """A piece of the argument. The pieces, joined and trimmed, are the argument."""

    text: str


class CommandEnded(Struct, frozen=True, gc=False):
    """Perform it now. `argument` is "" where there was none; `complete` is False where it broke off.

    `target` is the number of the earlier message that it is about, as in `[REACT #3: 😂]`; 0: none was named.
    """

    name: str
    argument: str
    complete: bool = True
    target: int = 0


class Planned(Struct, frozen=True, gc=False):
    """A command that closed, as it is put on record before it is performed or waits to be.

    `number` counts the commands of a turn; the rest is as in its `CommandEnded`.
    """

    number: int
    name: str
    argument: str
    target: int = 0


class Thought(Struct, frozen=True, gc=False):
    """Reasoning, never to be delivered."""

    text: str


class ToolCallEnded(Struct, frozen=True, gc=False):
    """The text form of a tool call. `payload` is as the model wrote it."""

    name: str
    payload: str


Event = Prose | CommandStarted | CommandText | CommandEnded | Thought | ToolCallEnded
