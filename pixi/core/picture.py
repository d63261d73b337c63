"""Pictures that a persona shows, which may move; and what a place can do with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pixi.core.message import Image

Need = Literal["stickers", "archive"]
"""What a command or a tool may need of a place."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was found for somebody's words. It has a link, or a file, or both.

    Attributes:
        words: what is to be seen, for whoever cannot see it.
        link: of its page at a service, which asks to be shown by it; "" for a file of one's own.
        service: whose it is, as that wants to be named; "" for nobody's.
        address: where it itself is, for a place that fetches it; "" where that is not known.
        file: it itself, as it came: what moves in it is still there. None: it was not fetched.
    """

    words: str
    link: str = ""
    service: str = ""
    file: Image | None = None
    address: str = ""

    @property
    def plain(self) -> str:
        """It as one line, for places that draw nothing."""
        return " · ".join(part for part in (self.words, self.credit, self.link) if part)

    @property
    def credit(self) -> str:
        """What its service wants to be read beside it; "" for none."""
        return f"Powered by {self.service}" if self.service else ""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a place can do besides showing words, reactions and cards.

    Attributes:
        draws: pictures are drawn there from their files; elsewhere the link of one is enough.
        stickers: names of its own, as they can stand in a prompt.
        archive: what was written round it before can be looked up.
        changes: tools that change something may be used.
        asks: people there can say yes or no where a tool asks them.
    """

    draws: bool = False
    stickers: tuple[str, ...] = ()
    archive: bool = False
    changes: bool = True
    asks: bool = True

    def of(self, need: Need) -> Sequence[str]:
        """What it has of something that a command or a tool needs."""
        match need:
            case "stickers":
                return self.stickers
            case "archive":
                return ("archive",) if self.archive else ()


def on_record(picture: Picture, said: str) -> str:
    """What is kept of an act that shows a picture: its addresses, and the command that it was shown for."""
    addresses = f"{picture.link} {picture.address}" if picture.address else picture.link
    return f"{addresses}\n{said}"


def from_record(kept: str) -> tuple[Picture, str]:
    """The picture without its file, and the command, of what was kept. Its words are not told apart."""
    addresses, _, said = kept.partition("\n")
    link, _, address = addresses.partition(" ")
    return Picture(said, link, address=address), said
