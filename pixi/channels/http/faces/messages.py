"""Pieces of messages for protocols that want them whole, and cards as Adaptive Cards."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

BROKEN = "The persona could not answer. Try again."

Piece = tuple[Literal["open", "add", "close"], str, str]
"""A change of a message: its kind, the id, and the text that is added."""


# The messages of a turn as protocols have them: each is opened, added to and closed, in this order.
#
# Events tell more, and less. White space at both ends of a message is no part of it; a message may open and
# come to nothing; one that a tool makes is there at once; and a turn can end amid a message. A strict
# client ends the stream where a piece comes before its message, or where a message is never closed.


class Messages:
    """Makes pieces of the events of one kind of message.

    Args:
        name: the name of the event of a whole message, and of the command that grows into it.
    """

    def __init__(self, name: Literal["send", "note"] = "send") -> None:
        self._name = name
        # Texts of messages that are not closed, by id. White space at the end of each was not passed on yet.
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
        pieces: list[Piece] = [] if shown else [("open", key, "")]
        return [*pieces, ("add", key, after[shown:solid])]

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


_OF_TURN = re.compile(r"turn-(\d{1,18})|(\d{1,18})\.\d{1,9}")  # an id in AI SDK, and in AG-UI


def last_turn(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the turn that a client has last, by the ids of the persona's messages; 0 for none."""
    for message in reversed(messages):
        found = _OF_TURN.fullmatch(str(message.get("id")))
        if found and message.get("role") == "assistant":
            return int(found[1] or found[2])
    return 0


Element = dict[str, Any]

_LONGEST_ADDRESS = 2_000


# Cards as Adaptive Cards 1.5, for clients that have a renderer for these.
#
# Every word of a card may be a stranger's. A `TextBlock` and a `Fact` read Markdown, so that a name could
# be a link to elsewhere; a `TextRun` does not. So all words stand in text runs.


def adaptive(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event or the JSON of a card with an Adaptive Card as its `data`, whatever type it was.

    Args:
        card: with at least `data` and `fallback`, as `card_json` makes them. It is not changed.
    """
    fallback, data = card["fallback"], card["data"]
    title, text, link = fallback["title"], fallback["text"], fallback["link"]
    body = [
        _words(_run(title, size="Large", weight="Bolder")),
        _picture(fallback["picture"], title, "Stretch"),
        _words(_run(text)),
        *_fields(fallback["fields"], data),
    ]
    drawn: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.5",
        "body": [each for each in body if each],
    }
    if link:
        drawn["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": link}]
    return {**card, "type": "AdaptiveCard", "version": 1, "data": drawn}


def _fields(fields: Sequence[Mapping[str, str]], data: object) -> list[Element | None]:
    """Return the fields below one another; where `data` lists an object for each, with its pictures."""
    if isinstance(data, list) and len(data) == len(fields) and all(isinstance(each, dict) for each in data):
        return [_entry(shown, each.get("imageUrl")) for shown, each in zip(fields, data, strict=True)]
    rows = []
    for shown in fields:
        name = f"{shown['name']}: " if shown["name"] else ""
        rows.append(_words(_run(name, weight="Bolder"), _run(shown["value"]), spacing="Small"))
    return rows


def _entry(shown: Mapping[str, str], picture: object) -> Element:
    name, value = shown["name"], shown["value"]
    words = [_words(_run(name, weight="Bolder")), _words(_run(value, isSubtle=True), spacing="None")]
    columns = [{"type": "Column", "width": "stretch", "items": [each for each in words if each]}]
    if image := _picture(picture, name, "Medium"):
        columns.insert(0, {"type": "Column", "width": "auto", "items": [image]})
    return {"type": "ColumnSet", "separator": True, "columns": columns}


def _words(*runs: Element, **look: object) -> Element | None:
    said = [run for run in runs if run["text"]]
    return {"type": "RichTextBlock", "inlines": said, **look} if said else None


def _run(text: str, **look: object) -> Element:
    return {"type": "TextRun", "text": text, **look}


def _picture(address: object, words: str, size: str) -> Element | None:
    """Return a picture; None where its address is no https one. Nobody has checked those in `data`."""
    if not isinstance(address, str) or not address.lower().startswith("https://"):
        return None
    if len(address) > _LONGEST_ADDRESS or " " in address or not address.isprintable():
        return None
    return {"type": "Image", "url": address, "altText": words, "size": size}
