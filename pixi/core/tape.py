"""A reply's text as it arrives: read forward, and rewound to a mark where a first reading was wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on a tape: in the `past`-th kept piece, `at` characters into it."""

    past: int
    at: int


class Tape:
    """Text that arrives in pieces and is read once, left to right.

    `text` is what can be looked at, `at` the place of the next character to read. While `keeping`, what
    was read before is kept as a list of pieces, so that a long doubt costs nothing per piece.
    """

    __slots__ = ("_past", "_past_size", "at", "keeping", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.keeping = False
        self._past: list[str] = []
        self._past_size = 0

    def append(self, piece: str) -> None:
        """The next piece of the reply. Only the text from `at` on stays in `text`."""
        if self.keeping:
            self._past.append(self.text[: self.at])
            self._past_size += self.at
        self.text = self.text[self.at :] + piece
        self.at = 0

    def mark(self, at: int) -> Mark:
        """Remember a place in `text`, and keep everything from now on."""
        self.keeping = True
        return Mark(len(self._past), at)

    def rewind(self, mark: Mark) -> None:
        """Read again from a mark. Later marks are void, earlier ones stay good."""
        if mark.past < len(self._past):
            kept = "".join(self._past[mark.past :])
            self.text = kept + self.text
            self._past_size -= len(kept)
            del self._past[mark.past :]
        self.at = mark.at

    def read_since(self, mark: Mark) -> int:
        """How many characters were read since the earliest mark."""
        return self._past_size - mark.at + self.at

    def forget(self) -> None:
        """No mark is needed any more."""
        self.keeping = False
        self._past.clear()
        self._past_size = 0
