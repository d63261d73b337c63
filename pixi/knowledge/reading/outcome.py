"""What comes of reading a file: its documents, or why there are none."""

from collections.abc import Iterable

from pixi.core.errors import PixiError
from pixi.knowledge.entry import Document


class SetAside(PixiError):
    """A file was not read. The text is one line for people: what is wrong, and what mends it.

    Attributes:
        again: it may be readable in a moment, without anybody's mending it: it was gone, or locked.
    """

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again

    @property
    def reason(self) -> str:
        """The text."""
        return str(self)


class Documents(tuple[Document, ...]):
    """The documents of one file, in its order.

    Attributes:
        note: one line on what in the file was passed over; "" where all of it was read.
    """

    note: str

    def __new__(cls, documents: Iterable[Document] = (), note: str = "") -> "Documents":
        """Put them together."""
        made = super().__new__(cls, documents)
        made.note = note
        return made
