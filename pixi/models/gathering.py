"""Text and reasoning that come in one read, gathered into one delta of each kind."""

from pixi.core.deltas import Delta, Text
from pixi.core.language import Thought


class Gathering:
    """What came in one read: cutting changes nothing, and what follows costs per read, not per token.

    Attributes:
        halves: some text held half a surrogate pair.
    """

    __slots__ = ("_half", "_text", "_thought", "halves")

    def __init__(self) -> None:
        self.halves = False
        self._text: list[str] = []
        self._thought: list[str] = []
        self._half = ""

    def say(self, text: str, deltas: list[Delta]) -> None:
        """Take a piece of the reply. What is of the other kind becomes a delta before it."""
        if self._thought:
            self.flush(deltas)
        self._text.append(text)

    def think(self, thought: str, deltas: list[Delta]) -> None:
        """Take a piece of the reasoning."""
        if self._text:
            self.flush(deltas)
        self._thought.append(thought)

    def flush(self, deltas: list[Delta]) -> None:
        """Make a delta of what was gathered; it is all of one kind."""
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            if self.halves:
                text = self._joined(text)
            if text:
                deltas.append(Text(text))
        elif self._thought:
            thought = "".join(self._thought)
            self._thought.clear()
            deltas.append(Thought(_without_halves(thought) if self.halves else thought))

    def close(self) -> list[Delta]:
        """The stream is over; gives what waited for its other half."""
        half, self._half = self._half, ""
        return [Text("\ufffd")] if half else []

    def _joined(self, text: str) -> str:
        """Text with its surrogate pairs joined; half a pair at its end waits for the other half."""
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return _without_halves(text[: len(text) - len(self._half)])


def _without_halves(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
