"""A card: a small composed thing to look at, which each platform draws in its own way."""

from dataclasses import dataclass

from pixi.core.message import Image


@dataclass(frozen=True, slots=True)
class Field:
    """A named value on a card."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Card:
    """What a tool may return besides text: an embed on Discord, drawn in the terminal.

    Everything in it may be a stranger's words: whoever draws it sees that nothing in it acts.

    Attributes:
        title: one line.
        text: a paragraph or two, plain.
        fields: named values.
        picture: an https address, or a picture itself; None: none.
        link: an http or https address that the title leads to; "": none.
    """

    title: str
    text: str = ""
    fields: tuple[Field, ...] = ()
    picture: str | Image | None = None
    link: str = ""

    @property
    def plain(self) -> str:
        """The card as text, for models, logs and places that draw nothing."""
        parts = [self.title, self.text, *(f"{field.name}: {field.value}" for field in self.fields), self.link]
        return "\n".join(part for part in parts if part)
