"""The companion's cards: for an app that draws them in its own way, and for everybody else.

`data` holds what the app draws, under the keys that its client knows; the types in `CARDS` say them, and from
these the JSON Schemas are made. The other fields of a card are drawn where nobody knows its type: on Discord,
in the terminal, by chat programs.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from pixi.companion.data import Spot, SpotDraft, Trick, Tricklist
from pixi.core.errors import ConfigError
from pixi.core.message import Card, Field

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,40}")
_NEVER = frozenset({"javascript", "data", "vbscript", "file", "about", "blob", "http", "https"})
_WEB = re.compile(r"https://[^\s<>\"\x00-\x20]{1,2000}", re.IGNORECASE)
_MOST_LISTED, _MOST_BYTES = 25, 15_000  # of `spots_list`; the bytes are those of its data as JSON
_ZOOM = 17  # of a map: a few streets
_LONGEST_LINE = 200


class SpotData(msgspec.Struct):
    """Data of `spot_card`, and of each in `spots_list`. `deepLink`: "" where the app has none."""

    _id: str
    name: str
    city: str
    state: str
    rating: float | None
    imageUrl: str
    deepLink: str


class TricklistData(msgspec.Struct):
    """Data of `tricklist_card`."""

    _id: str
    name: str
    trickCount: int
    deepLink: str


class TrickData(msgspec.Struct):
    """Data of `trick_card`."""

    _id: str
    name: str
    category: str
    difficulty: str
    deepLink: str


class DraftData(msgspec.Struct):
    """Data of `spot_draft_confirmation`."""

    _id: str
    name: str
    city: str
    state: str
    status: str


CARDS: dict[str, Any] = {
    "spot_card": SpotData,
    "spots_list": list[SpotData],
    "tricklist_card": TricklistData,
    "trick_card": TrickData,
    "spot_draft_confirmation": DraftData,
}
"""Each type of card, and what its data is."""

_STATUS = {"pending_approval": "Pending approval", "approved": "Approved", "rejected": "Rejected"}


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema (2020-12) of each card's data, by its type."""
    made = {}
    for name, kind in CARDS.items():
        schema = msgspec.json.schema(kind)
        made[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **schema}
    return made


def checked_scheme(scheme: str) -> str:
    """Return the scheme of an app's links, e.g. `trickbook`; "" for none.

    Raises:
        ConfigError: it is none, or one that runs something or leads to the web.
    """
    if scheme and (not _SCHEME.fullmatch(scheme) or scheme in _NEVER):
        raise ConfigError(
            f"[addon.companion] deep_links is {scheme[:40]!r}: write the scheme of your app's links in small "
            "letters, e.g. trickbook."
        )
    return scheme


def spot_card(spot: Spot, scheme: str = "") -> Card:
    """Make the card of a spot."""
    fields = [
        Field("Where", _where(spot.city, spot.state, spot.country)),
        Field("Type", spot.kind),
        Field("Rating", _rating(spot)),
        Field("Distance", _distance(spot)),
    ]
    return _card(
        "spot_card",
        _spot_data(spot, scheme),
        title=spot.name,
        text=spot.description,
        fields=fields,
        picture=_web(spot.image_url),
        link=_map(spot.latitude, spot.longitude),
    )


def spots_list(spots: Sequence[Spot], scheme: str = "") -> Card:
    """Make the card of several spots: the first 25, or those of them for which 15,000 bytes of data do."""
    data, fields, room = list[SpotData](), list[Field](), _MOST_BYTES - len("[]")
    for spot in spots[:_MOST_LISTED]:
        shown = _spot_data(spot, scheme)
        size = len(json.dumps(msgspec.to_builtins(shown), ensure_ascii=False).encode()) + len(", ")
        if size > room:
            continue
        room -= size
        data.append(shown)
        parts = (_where(spot.city, spot.state), spot.kind, _rating(spot), _distance(spot))
        fields.append(Field(spot.name, " · ".join(part for part in parts if part)))
    title = "1 spot" if len(spots) == 1 else f"{len(spots)} spots"
    text = f"{len(data)} of them are shown." if len(data) < len(spots) else ""
    return _card("spots_list", data, title=title, text=text, fields=fields)


def tricklist_card(tricklist: Tricklist, scheme: str = "") -> Card:
    """Make the card of a list of tricks."""
    data = TricklistData(
        tricklist.id, tricklist.name, len(tricklist.tricks), _deep(scheme, "tricklist", tricklist.id)
    )
    lines = [f"{'☑' if each.checked else '☐'} {each.name}" for each in tricklist.tricks]
    count = "1 trick" if len(lines) == 1 else f"{len(lines)} tricks"
    fields = [Field("Sport", tricklist.category), Field("Tricks", count)]
    return _card("tricklist_card", data, title=tricklist.name, text="\n".join(lines), fields=fields)


def trick_card(trick: Trick, scheme: str = "") -> Card:
    """Make the card of a trick."""
    data = TrickData(trick.id, trick.name, trick.category, trick.difficulty, _deep(scheme, "trick", trick.id))
    fields = [Field("Sport", trick.category), Field("Difficulty", trick.difficulty)]
    video = next(filter(None, map(_web, trick.videos)), "")
    return _card("trick_card", data, title=trick.name, text=trick.description, fields=fields, link=video)


def spot_draft_confirmation(draft: SpotDraft) -> Card:
    """Make the card of a spot that somebody submitted."""
    data = DraftData(draft.id, draft.name, draft.city, draft.state, draft.status)
    fields = [
        Field("Status", _STATUS[draft.status]),
        Field("Where", _where(draft.city, draft.state, draft.country)),
        Field("Type", draft.kind),
        Field("Reason", draft.why),
    ]
    link = _map(draft.latitude, draft.longitude)
    return _card(
        "spot_draft_confirmation", data, title=draft.name, text=draft.description, fields=fields, link=link
    )


def _card(
    kind: str,
    data: object,
    *,
    title: str,
    text: str = "",
    fields: Sequence[Field],
    picture: str = "",
    link: str = "",
) -> Card:
    return Card(
        title=title,
        text=text,
        fields=tuple(field for field in fields if field.value),
        picture=picture or None,
        link=link,
        type=kind,
        data=msgspec.to_builtins(data),
    )


def _spot_data(spot: Spot, scheme: str) -> SpotData:
    name, city, state = (text[:_LONGEST_LINE] for text in (spot.name, spot.city, spot.state))
    deep_link = _deep(scheme, "spot", spot.id)
    return SpotData(spot.id, name, city, state, spot.rating, _web(spot.image_url), deep_link)


def _deep(scheme: str, kind: str, thing_id: str) -> str:
    """Return a link into the host app. What is no plain id has none: it might lead elsewhere."""
    is_plain = re.fullmatch(r"[\w-]{1,100}", thing_id, re.ASCII)
    return f"{scheme}://{kind}/{thing_id}" if scheme and is_plain else ""


def _web(address: str) -> str:
    """Return an https address; "" for what is none: a client opens or shows it."""
    return address if _WEB.fullmatch(address) else ""


def _map(latitude: float | None, longitude: float | None) -> str:
    if latitude is None or longitude is None:
        return ""
    return f"https://www.openstreetmap.org/?mlat={latitude:.6f}&mlon={longitude:.6f}&zoom={_ZOOM}"


def _where(*parts: str) -> str:
    return ", ".join(part for part in parts if part)[:_LONGEST_LINE]


def _rating(spot: Spot) -> str:
    return "" if spot.rating is None else f"★ {spot.rating:.1f}"


def _distance(spot: Spot) -> str:
    return "" if spot.distance_km is None else f"{spot.distance_km:.1f} km"
