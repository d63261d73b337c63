"""The inline command language: a reply's text in, in any pieces, events out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "send": ("say", "reply", "message", "send_message"),
    "react": ("reaction", "emoji"),
    "note": ("notes", "think", "thought"),
}
"""The built-in commands and their aliases."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Text outside every command."""

    text: str


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """A command's name is certain. `name` is the canonical, lower-case one."""

    name: str


@dataclass(frozen=True, slots=True)
class CommandText:
    """A piece of the argument. The pieces, joined and trimmed, are the argument."""

    text: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """Perform it now. `argument` is "" where there was none; `complete` is False where it broke off."""

    name: str
    argument: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning, never to be delivered."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """The text form of a tool call. `payload` is as the model wrote it."""

    name: str
    payload: str


Event = Prose | CommandStarted | CommandText | CommandEnded | Thought | ToolCallEnded


class CommandStream:
    """A sans-IO parser of one reply: `feed` it text in any pieces, then `close` it.

    Args:
        names: the registered commands: a mapping of name to aliases, or names alone (the aliases of
            built-in ones are known). None: the built-in commands.
        people: names of those the persona answers; a prose line that begins with one of them and a
            colon is the model playing the user, and ends the reply.
    """

    ended: bool
    """The reply is over though its stream may go on: close the stream, what follows is not the reply's."""

    def __init__(
        self,
        names: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
        *,
        people: Iterable[str] = (),
    ) -> None:
        raise NotImplementedError

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the reply; gives what became certain by it."""
        raise NotImplementedError

    def close(self) -> list[Event]:
        """The reply is over; gives what was still open or held back. Further calls give nothing."""
        raise NotImplementedError
