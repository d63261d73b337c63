"""A card: a small composed thing to look at, which each platform draws in its own way."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pixi.core.message import Image

_LONGEST_TITLE, _LONGEST_TEXT = 256, 4_000
_MOST_FIELDS, _LONGEST_NAME, _LONGEST_VALUE = 25, 256, 1_000
_LONGEST_DATA = 16_000  # bytes, as JSON
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ADDRESS = re.compile(r"https?://[^\s<>\"\x00-\x20]{1,2000}", re.IGNORECASE)


Data = Mapping[str, Any] | Sequence[Any]
"""Of a card: what can be told as a JSON object or a JSON list."""


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
        data: what those programs draw, as a JSON object or list of at most 16,000 bytes.
    """

    title: str
    text: str = ""
    fields: tuple[Field, ...] = ()
    picture: str | Image | None = None
    link: str = ""
    type: str = "card"
    version: int = 1
    data: Data = field(default_factory=dict)

    @property
    def plain(self) -> str:
        """The card as text, for models, logs and places that draw nothing."""
        parts = [self.title, self.text, *(f"{field.name}: {field.value}" for field in self.fields), self.link]
        return "\n".join(part for part in parts if part)

    def fitted(self) -> "Card":
        """The card as every place can draw it: what is too long is cut, what is no address left out.

        Where `type` is no name, `version` no number from 1 on, or `data` not such data, it is a plain card.
        """
        picture = self.picture
        if isinstance(picture, str) and not (
            _ADDRESS.fullmatch(picture) and picture.lower().startswith("https")
        ):
            picture = None
        fields = [
            Field(_cut(_joined(field.name), _LONGEST_NAME), _cut(field.value.strip(), _LONGEST_VALUE))
            for field in self.fields[:_MOST_FIELDS]
        ]
        data = _as_plain_json(self.data)
        is_typed = bool(_TYPE.fullmatch(self.type)) and type(self.version) is int and self.version >= 1
        return replace(
            self,
            title=_cut(_joined(self.title), _LONGEST_TITLE),
            text=_cut(self.text.strip(), _LONGEST_TEXT),
            fields=tuple(field for field in fields if field.name or field.value),
            picture=picture,
            link=self.link if _ADDRESS.fullmatch(self.link) else "",
            type=self.type if is_typed and data is not None else "card",
            version=self.version if is_typed and data is not None else 1,
            data=data if is_typed and data is not None else {},
        )


def card_json(card: Card) -> dict[str, Any]:
    """The JSON form of a card: what it is, and under `fallback` what can be drawn without knowing that."""
    fallback = {
        "title": card.title,
        "text": card.text,
        "fields": [{"name": field.name, "value": field.value} for field in card.fields],
        "picture": card.picture if isinstance(card.picture, str) else None,
        "link": card.link,
    }
    return {"type": card.type, "version": card.version, "data": card.data, "fallback": fallback}


def card_on_record(card: Card) -> str:
    """What is kept of an act that shows a card: its words as they are read, and as the last line its JSON.

    What is searched for in the record, so that it can be forgotten, is found in the words.
    """
    return f"{card.plain}\n{json.dumps(card_json(card), ensure_ascii=False)}"


def card_from_record(kept: str) -> Card:
    """The card that was kept, but for a picture that has no address; of older records its words alone."""
    try:
        form = json.loads(kept.rpartition("\n")[2])
        drawn = form["fallback"]
        fields = tuple(Field(each["name"], each["value"]) for each in drawn["fields"])
        card = Card(drawn["title"], drawn["text"], fields, drawn["picture"], drawn["link"])
        return replace(card, type=form["type"], version=form["version"], data=form["data"]).fitted()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        title, _, text = kept.partition("\n")
        return Card(title, text).fitted()


def _as_plain_json(data: Data) -> dict[str, Any] | list[Any] | None:
    """A copy of it that nobody alters; None: it is no JSON, or too much."""
    if isinstance(data, str | bytes):
        return None
    try:
        plain = dict(data) if isinstance(data, Mapping) else list(data)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        copy: dict[str, Any] | list[Any] = json.loads(text)
        return copy if len(text.encode()) <= _LONGEST_DATA else None
    except (ValueError, TypeError, RecursionError):
        return None


def _joined(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
