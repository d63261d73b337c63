"""What of an argument is certain, and the places to read again from where it is not."""

from dataclasses import dataclass

from pixi.core.tape import Tape


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place to read again from, should the first reading turn out wrong.

    `depth` is the depth of brackets there, `pieces` how many doubtful pieces stood before it.
    """

    mark: int
    depth: int
    pieces: int


class Doubts:
    """The text of an argument, split into what is certain (`fresh`) and what an open question may undo.

    Attributes:
        fresh: pieces that became certain and were not yet taken away.
        emoticon: a `]` that was read as part of a face, and would have closed the command.
        inner_emoticon: the same of an inner bracket.
        nested: the first command that opens inside the argument, or closing tag of the command itself.
        code: the first bracket in a code span or fence that is still open.
    """

    def __init__(self, tape: Tape) -> None:
        self.fresh: list[str] = []
        self.emoticon: Doubt | None = None
        self.inner_emoticon: Doubt | None = None
        self.nested: Doubt | None = None
        self.code: Doubt | None = None
        self._tape = tape
        self._doubtful: list[str] = []
        # Where a `]` stands that closed an inner bracket, with nothing but white space behind it.
        self._inner_close: int | None = None

    def __bool__(self) -> bool:
        return self._tape.keeping or self._inner_close is not None

    def take(self, piece: str) -> None:
        """Add a piece of the argument."""
        if self._inner_close is not None and not piece.isspace():
            self._inner_close = None
            self.settle()
        (self._doubtful if self else self.fresh).append(piece)

    def take_inner_close(self, bracket: str) -> None:
        """Add a bracket that closed an inner one, and may turn out to have been the command's."""
        # Of two in a row, only the last can be.
        self._inner_close = None
        self.settle()
        self._inner_close = len(self._doubtful)
        self._doubtful.append(bracket)

    def drop_inner_close(self) -> None:
        """It was the command's."""
        if self._inner_close is not None:
            del self._doubtful[self._inner_close]
            self._inner_close = None

    def at(self, index: int, depth: int) -> Doubt:
        """A doubt at a place of the tape's text."""
        return Doubt(self._tape.mark(index), depth, len(self._doubtful))

    def settle(self) -> None:
        """Give the doubtful text free if no doubt is left."""
        if self.emoticon or self.inner_emoticon or self.nested or self.code:
            return
        self._tape.forget()
        self._free()

    def back(self, doubt: Doubt) -> None:
        """Rewind the tape to a doubt; it and the later ones are void."""
        self._tape.rewind(doubt.mark)
        del self._doubtful[doubt.pieces :]
        self.emoticon = self._before(self.emoticon, doubt)
        self.inner_emoticon = self._before(self.inner_emoticon, doubt)
        self.nested = self._before(self.nested, doubt)
        self.code = self._before(self.code, doubt)
        if self._inner_close is not None and self._inner_close >= doubt.pieces:
            self._inner_close = None
        self.settle()

    def clear(self) -> None:
        """All that was read is certain."""
        self.emoticon = self.inner_emoticon = self.nested = self.code = None
        self._inner_close = None
        self._tape.forget()
        self._free()

    def _free(self) -> None:
        self.fresh += self._doubtful
        self._doubtful.clear()

    @staticmethod
    def _before(doubt: Doubt | None, other: Doubt) -> Doubt | None:
        return doubt if doubt is not None and doubt.pieces < other.pieces else None
