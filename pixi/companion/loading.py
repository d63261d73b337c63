"""Spots and tricks of a file, which take the place of the sample that comes along, or stand beside it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pixi.companion.data import (
    KINDS,
    LONGEST_LINK,
    LONGEST_NAME,
    LONGEST_TEXT,
    CompanionError,
    Kind,
    Spot,
    Trick,
    in_lines,
    one_line,
    wrong_coordinates,
)

_HALF = re.compile(r"[\ud800-\udfff]")
_MOST_FAULTS = 20
_MOST_BYTES = 50_000_000
_TEXTS = {"name": LONGEST_NAME, "city": LONGEST_NAME, "state": LONGEST_NAME, "country": LONGEST_NAME}
_TEXTS |= {"category": LONGEST_NAME, "difficulty": LONGEST_NAME, "description": LONGEST_TEXT}
_TEXTS |= {"_id": LONGEST_NAME, "imageUrl": LONGEST_LINK}


@dataclass(frozen=True, slots=True)
class SpotsAndTricks:
    """What stands in a file."""

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
    """The entries that are right; what is wrong with the others is added to `faults`."""
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
        called = (
            f" ({one_line(str(entry['name']))[:40]!r})" if isinstance(entry, dict) and "name" in entry else ""
        )
        faults += [f"{name[:-1]} {number}{called}: {each}" for each in wrong]


def _wrong(entry: Any, *, is_spot: bool) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "it must be an object."
        return
    for key in ("_id", "name", "type" if is_spot else "category"):
        if not isinstance(entry.get(key), str) or not one_line(entry[key]):
            yield f"{key} is missing: give a text."
    for key, longest in _TEXTS.items():
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
