"""A card: a small composed thing to look at, which each platform draws in its own way."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pixi.core.message import Image

_LONGEST_TITLE, _LONGEST_TEXT = 256, 4_000
_MOST_FIELDS, _LONGEST_NAME, _LONGEST_VALUE = 25, 256, 1_000
_ADDRESS = re.compile(r"https?://[^\s<>\"\x00-\x20]{1,2000}", re.IGNORECASE)


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
        type: what it is, for programs that draw this kind in a way of their own, e.g. `spot_card`. All
            others draw the fields above.
        version: of that type.
        data: what those programs draw, as plain JSON data.
    """

    title: str
    text: str = ""
    fields: tuple[Field, ...] = ()
    picture: str | Image | None = None
    link: str = ""
    type: str = "card"
    version: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> str:
        """The card as text, for models, logs and places that draw nothing."""
        parts = [self.title, self.text, *(f"{field.name}: {field.value}" for field in self.fields), self.link]
        return "\n".join(part for part in parts if part)

    def fitted(self) -> "Card":
        """The card as every place can draw it: what is too long is cut, what is no address left out."""
        picture = self.picture
        if isinstance(picture, str) and not (
            _ADDRESS.fullmatch(picture) and picture.lower().startswith("https")
        ):
            picture = None
        fields = [
            Field(_cut(_joined(field.name), _LONGEST_NAME), _cut(field.value.strip(), _LONGEST_VALUE))
            for field in self.fields[:_MOST_FIELDS]
        ]
        return replace(
            self,
            title=_cut(_joined(self.title), _LONGEST_TITLE),
            text=_cut(self.text.strip(), _LONGEST_TEXT),
            fields=tuple(field for field in fields if field.name or field.value),
            picture=picture,
            link=self.link if _ADDRESS.fullmatch(self.link) else "",
        )


def _joined(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
