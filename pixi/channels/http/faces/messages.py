"""The messages of a turn as protocols have them: each is opened, added to and closed, in this order.

Events tell more, and less. White space at both ends of a message is no part of it; a message may open and
come to nothing; one that a tool makes is there at once; and a turn can end amid a message. A strict client
ends the stream where a piece comes before its message, or where a message is never closed.
"""

from collections.abc import Mapping
from typing import Any, Literal

Piece = tuple[Literal["open", "add", "close"], str, str]
"""What happens to a message, its id, and the text that is added."""


class Messages:
    """Makes pieces of the events of one kind of message.

    Args:
        name: the name of the event of a whole message, and of the command that grows into it.
    """

    def __init__(self, name: Literal["send", "note"] = "send") -> None:
        self._name = name
        # Of messages that are not closed, by id; the last white space of each is not said yet.
        self._grown: dict[str, str] = {}

    def feed(self, event: Mapping[str, Any]) -> list[Piece]:
        """Return the pieces that an event adds."""
        kind = event["event"]
        if kind == "text" and event["name"] == self._name:
            return self._grow(event["id"], event["text"])
        if kind == self._name:
            return self._whole(event["id"], event["text"])
        if kind in ("turn_start", "turn_end"):
            return self.close()
        return []

    def close(self) -> list[Piece]:
        """Return the pieces that close what is open: nothing more comes."""
        pieces: list[Piece] = [("close", key, "") for key, grown in self._grown.items() if grown]
        self._grown.clear()
        return pieces

    def _grow(self, key: str, text: str) -> list[Piece]:
        before = self._grown.get(key, "")
        after = (before + text).lstrip()
        self._grown[key] = after
        shown, solid = len(before.rstrip()), len(after.rstrip())
        if solid == shown:
            return []
        added: Piece = ("add", key, after[shown:solid])
        return [added] if shown else [("open", key, ""), added]

    def _whole(self, key: str, text: str) -> list[Piece]:
        """Add what of a message did not grow before. What was shown already cannot be taken back."""
        grown = self._grown.pop(key, "").rstrip()
        text = text.strip()
        if not (grown or text):
            return []
        pieces: list[Piece] = [] if grown else [("open", key, "")]
        if text.startswith(grown) and text != grown:
            pieces.append(("add", key, text[len(grown) :]))
        return [*pieces, ("close", key, "")]
