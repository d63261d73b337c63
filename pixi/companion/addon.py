"""The companion as an addon: `addons = ["companion"]` in pixi.toml, and `tools: [companion]` in a persona."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pixi.companion.backend import CompanionBackend
from pixi.companion.cards import checked_scheme
from pixi.companion.data import (
    KINDS,
    LONGEST_LINK,
    LONGEST_NAME,
    LONGEST_TEXT,
    CompanionData,
    CompanionError,
    Kind,
    Spot,
    SpotDraft,
    Trick,
    in_lines,
    one_line,
    wrong_coordinates,
)
from pixi.companion.maps import find_map_link, resolve_map_link
from pixi.companion.routes import routes_of
from pixi.companion.tables import SCHEMA, CompanionTables
from pixi.companion.tools import SOURCE, Companion, register_deciding
from pixi.core.errors import ConfigError
from pixi.core.message import Message
from pixi.fetching.web import Web
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Notice

_HALF = re.compile(r"[\ud800-\udfff]")
_MOST_FAULTS = 20
_MOST_BYTES = 50_000_000
_LONGEST = {
    **dict.fromkeys(("_id", "name", "city", "state", "country", "category", "difficulty"), LONGEST_NAME),
    "description": LONGEST_TEXT,
    "imageUrl": LONGEST_LINK,
}
"""Characters of each text of an entry."""


@dataclass(frozen=True, slots=True)
class SpotsAndTricks:
    """Content of a file."""

    spots: tuple[Spot, ...]
    tricks: tuple[Trick, ...]


def sample() -> SpotsAndTricks:
    """Return some 60 tricks, and 40 spots of a town that is invented."""
    return read(resources.files("pixi.companion").joinpath("sample.json").read_text("utf-8"))


def read_file(path: Path) -> SpotsAndTricks:
    """Read a file.

    Raises:
        CompanionError: it cannot be read, or something in it is wrong; the first 20 faults are told.
    """
    path = path.expanduser()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CompanionError(f"{path} has more than {_MOST_BYTES:,} bytes: split it into several files.")
        return read(path.read_text("utf-8-sig"))
    except OSError as error:
        raise CompanionError(f"{path} cannot be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise CompanionError(f"{path} is not UTF-8; save it so.") from error


def read(text: str) -> SpotsAndTricks:
    """Read JSON of the form `{"spots": [...], "tricks": [...]}`; the keys of each are those of the cards.

    Raises:
        CompanionError: something is wrong; the first 20 faults are told.
    """
    try:
        # Every number as a float: one that is too large for any becomes infinite, and is told by its place.
        whole = json.loads(text, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise CompanionError(f"It is not JSON: {error}.") from None
    if not isinstance(whole, dict) or not {"spots", "tricks"} & whole.keys():
        raise CompanionError('It must be an object with "spots" or "tricks", each a list.')
    faults: list[str] = []
    spots = tuple(_spot(each) for each in _entries(whole, "spots", faults))
    tricks = tuple(_trick(each) for each in _entries(whole, "tricks", faults))
    if faults:
        more = [f"… and {len(faults) - _MOST_FAULTS} more."] if len(faults) > _MOST_FAULTS else []
        raise CompanionError("\n".join([*faults[:_MOST_FAULTS], *more]))
    return SpotsAndTricks(spots, tricks)


def _entries(whole: Mapping[str, Any], name: str, faults: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries that are right; what is wrong with the others is added to `faults`."""
    entries = whole.get(name, [])
    if not isinstance(entries, list):
        faults.append(f"{name} must be a list.")
        return
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        wrong = list(_wrong(entry, is_spot=name == "spots"))
        if not wrong and entry["_id"] in seen:
            wrong = [f"the _id {entry['_id']!r} stands there twice."]
        if not wrong:
            seen.add(entry["_id"])
            yield entry
            continue
        called = ""
        if isinstance(entry, dict) and "name" in entry:
            called = f" ({one_line(str(entry['name']))[:40]!r})"
        faults += [f"{name[:-1]} {number}{called}: {each}" for each in wrong]


def _wrong(entry: Any, *, is_spot: bool) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "it must be an object."
        return
    for key in ("_id", "name", "type" if is_spot else "category"):
        if not isinstance(entry.get(key), str) or not one_line(entry[key]):
            yield f"{key} is missing: give a text."
    for key, longest in _LONGEST.items():
        value = entry.get(key, "")
        if not isinstance(value, str):
            yield f"{key} must be a text."
        elif len(value) > longest:
            yield f"{key} has {len(value)} characters: {longest} is the most."
        elif _HALF.search(value):
            yield f"{key} has half a character (a lone surrogate, \\ud800 to \\udfff): write it whole."
    if isinstance(entry.get("_id"), str) and entry["_id"] != one_line(entry["_id"]):
        yield "_id has characters that cannot be seen, or blanks round it: leave them out."
    if not is_spot:
        videos = entry.get("videos", [])
        if not isinstance(videos, list) or not all(isinstance(each, str) for each in videos):
            yield "videos must be a list of addresses."
        elif any(len(each) > LONGEST_LINK or _HALF.search(each) for each in videos):
            yield f"videos has an address that is none, or of more than {LONGEST_LINK} characters."
        return
    if isinstance(entry.get("type"), str) and entry["type"] not in KINDS:
        yield f"type {one_line(entry['type'])[:40]!r} is not known: give one of {', '.join(KINDS)}."
    numbers = [entry.get(key) for key in ("latitude", "longitude", "rating")]
    if not all(each is None or isinstance(each, float) for each in numbers):
        yield "latitude, longitude and rating must be numbers."
        return
    latitude, longitude, rating = numbers
    yield from wrong_coordinates(latitude, longitude)
    if rating is not None and not 0 <= rating <= 5:
        yield f"rating is {rating:g}: give 0 to 5."


def _spot(entry: Mapping[str, Any]) -> Spot:
    kind: Kind = entry["type"]
    city, state, country = (one_line(entry.get(key, "")) for key in ("city", "state", "country"))
    return Spot(
        entry["_id"],
        one_line(entry["name"]),
        kind,
        city,
        state,
        country,
        entry.get("latitude"),
        entry.get("longitude"),
        in_lines(entry.get("description", "")),
        entry.get("rating"),
        one_line(entry.get("imageUrl", "")),
    )


def _trick(entry: Mapping[str, Any]) -> Trick:
    return Trick(
        entry["_id"],
        one_line(entry["name"]),
        one_line(entry["category"]),
        one_line(entry.get("difficulty", "")),
        in_lines(entry.get("description", "")),
        tuple(one_line(each) for each in entry.get("videos", [])),
    )


_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@dataclass(frozen=True, slots=True)
class CompanionSettings:
    """`[addon.companion]`.

    Attributes:
        data: where spots, tricks and lists are kept: `store`, beside the talks; or the address of a host app.
        key: sent to the host app; better by PIXI_ADDON__COMPANION__KEY than in the file.
        app_keys: names of our keys that the host app has: their users are asked for by its own ids.
        deep_links: scheme of the links into the host app, e.g. `trickbook`; "": its cards have none.
        writes_per_hour: lists and drafts that are made for one person within an hour, all together.
    """

    data: str = "store"
    key: str = ""
    app_keys: tuple[str, ...] = ()
    deep_links: str = ""
    writes_per_hour: int = 5


def setup(addon: Addon) -> None:
    """Register the tools, the routes for those who approve, and what is noticed by itself."""
    settings = addon.settings("companion", CompanionSettings)
    if not 1 <= settings.writes_per_hour <= 1_000:
        raise ConfigError(
            f"[addon.companion] writes_per_hour is {settings.writes_per_hour}: it must be 1 to 1000."
        )
    data, web = _data(addon, settings), Web()
    addon.on_close(web.close)
    companion = Companion(data, web, checked_scheme(settings.deep_links), settings.writes_per_hour)
    companion.setup(addon)
    register_deciding(addon, data)
    for route in routes_of(companion):
        addon.route(route)
    if isinstance(data, CompanionTables):  # a host app tells its own people
        news = _News(data)
        addon.notice(Notice(SOURCE, news.look, news.answered))
    addon.notice(Notice(SOURCE, _Links(web).look))


def _data(addon: Addon, settings: CompanionSettings) -> CompanionData:
    if settings.data == "store":
        return CompanionTables(addon.tables(SCHEMA))
    if not _ADDRESS.fullmatch(settings.data):
        raise ConfigError(
            "[addon.companion] data is no address of an app: write store, or e.g. https://app.example.org, "
            "without a user or a password."
        )
    if not (settings.key.isascii() and settings.key.isprintable()):
        raise ConfigError("[addon.companion] key is not a key: copy it again, without line breaks or quotes.")
    backend = CompanionBackend(settings.data, settings.key, settings.app_keys)
    addon.on_close(backend.close)
    return backend


def _became(draft: SpotDraft, message: Message) -> str:
    """Return what became of a draft, in one line; the reason only where nobody else reads it."""
    why = f" The reason: {one_line(draft.why)}" if draft.why and not message.group else ""
    return f"The spot {draft.name!r} that they submitted was {draft.status}. Tell them so.{why}"


@dataclass(frozen=True, slots=True)
class _News:
    """Tells people what became of the spots that they submitted, until a reply to it stands."""

    data: CompanionTables

    async def look(self, message: Message) -> Sequence[str]:
        return [_became(draft, message) for draft in await self.data.news(message.author.id)]

    async def answered(self, message: Message, lines: Sequence[str]) -> None:
        news = await self.data.news(message.author.id)
        told = [draft.id for draft in news if _became(draft, message) in lines]
        await self.data.were_told(told)


@dataclass(frozen=True, slots=True)
class _Links:
    """Notices links to maps in messages."""

    web: Web

    async def look(self, message: Message) -> Sequence[str]:
        link = find_map_link(message.text)
        return [await self._place(link)] if link else []

    async def _place(self, link: str) -> str:
        try:
            found = await resolve_map_link(link, self.web)
        except CompanionError as error:
            return f"The link to a map in the message cannot be used: {error}"
        where = "" if found.latitude is None else f" at {found.latitude:.5f}, {found.longitude:.5f}"
        shown = f"{found.name or 'a place'}{where}"
        return f"The link to a map shows {shown}. It can be submitted as a spot with create_spot_draft."
