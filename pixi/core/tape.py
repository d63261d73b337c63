"""A reply's text as it arrives: read forward, and rewound to a mark where a first reading was wrong."""


class Tape:
    """Text that arrives in pieces and is read once, left to right.

    `text` is what can be looked at, `at` the place of the next character to read. While `keeping`, what
    was read since the oldest mark is kept as a list of pieces, so that a long doubt costs nothing per
    piece. A mark is a place told from the beginning of the reply.
    """

    __slots__ = ("_oldest", "_past", "_start", "at", "keeping", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.keeping = False
        self._past: list[str] = []
        self._start = 0  # where in the reply `text` begins
        self._oldest = 0  # the oldest mark

    def append(self, piece: str) -> None:
        """The next piece of the reply. Only the text from `at` on stays in `text`."""
        if self.keeping:
            self._past.append(self.text[max(self._oldest - self._start, 0) : self.at])
        self._start += self.at
        self.text = self.text[self.at :] + piece
        self.at = 0

    def mark(self, at: int) -> int:
        """Remember a place in `text`, and keep everything from now on."""
        mark = self._start + at
        if not self.keeping:
            self.keeping = True
            self._oldest = mark
        return mark

    def rewind(self, mark: int) -> None:
        """Read again from a mark. Later marks are void, earlier ones stay good."""
        kept = [self.text]
        while self._start > mark:
            kept.append(self._past.pop())
            self._start -= len(kept[-1])
        if len(kept) > 1:
            self.text = "".join(reversed(kept))
        self.at = mark - self._start

    def read_since(self, mark: int) -> int:
        """How many characters were read since a mark."""
        return self._start + self.at - mark

    def forget(self) -> None:
        """No mark is needed any more."""
        self.keeping = False
        self._past.clear()
