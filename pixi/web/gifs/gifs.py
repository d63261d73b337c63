"""Where moving pictures come from: what every source of them can do, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pixi.core.errors import PixiError
from pixi.core.message import Image

Rating = Literal["g", "pg", "pg-13", "r"]
"""The strongest that may be shown, in the words of cinemas."""


class GifError(PixiError):
    """A source cannot give anything just now. The text says why, in one line, without its key.

    Attributes:
        rest: seconds for which it wants to be left alone.
    """

    def __init__(self, text: str, *, rest: float = 0.0) -> None:
        super().__init__(text)
        self.rest = rest


@dataclass(frozen=True, slots=True)
class FoundGif:
    """A picture that fits the words.

    Attributes:
        words: what is to be seen, as its source says; strangers' words.
        link: of its page at the service, by which that asks to show it; "" for a file of one's own.
        file: where the picture itself is: an address, or a path.
    """

    words: str
    link: str
    file: str


class GifSource(Protocol):
    """A service, or a folder."""

    @property
    def service(self) -> str:
        """Its name, as it wants to be named beside its pictures; "" for a folder."""
        ...

    async def warm(self) -> None:
        """Make the way ready: somebody is about to search. Nothing is said of what goes wrong."""
        ...

    async def find(self, words: str, language: str) -> Sequence[FoundGif]:
        """What fits the words, the best first.

        Args:
            words: one line, not blank.
            language: BCP 47 tag of the language that they may be in.

        Raises:
            GifError: it cannot be asked just now.
        """
        ...

    async def fetch(self, found: FoundGif) -> Image:
        """The picture itself, as it is: what moves in it goes on moving.

        Raises:
            GifError: it is not there, is no picture, or too large.
        """
        ...


_BEGINNINGS = ((b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"), (b"\x89PNG\r\n\x1a\n", "image/png"))
_JPEG, _RIFF, _WEBP = b"\xff\xd8\xff", b"RIFF", b"WEBP"


def picture_type(data: bytes) -> str:
    """The media type of a file that begins like this; "" for what is no picture that is shown everywhere."""
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    if data.startswith(_JPEG):
        return "image/jpeg"
    return "image/webp" if data[:4] == _RIFF and data[8:12] == _WEBP else ""
