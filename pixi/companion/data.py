"""Data of a companion: spots, tricks, lists of tricks, and drafts of new spots.

`CompanionData` is the port between the companion's tools and wherever its host keeps these things. There is
no way to delete anything through it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from pixi.core.errors import PixiError

Kind = Literal["skatepark", "street", "diy", "snow", "mountain", "resort"]
Status = Literal["pending_approval", "approved", "rejected"]

KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_TRICKS = 50
"""Limit of one list."""
MOST_FOUND = 50
"""Limit of one search."""
MOST_DRAFTS = 500
"""Limit of one list of drafts."""
LONGEST_NAME, LONGEST_TEXT, LONGEST_LINK = 100, 2_000, 2_000
"""Characters of a name or place, of a description or reason, and of an address."""
FARTHEST_KM = 20_000.0
JSON_NAMES = {
    "id": "_id",
    "kind": "type",
    "image_url": "imageUrl",
    "created_by": "createdBy",
    "created_at": "createdAt",
    "distance_km": "distanceKm",
    "maps_url": "mapsUrl",
    "submitted_by": "submittedBy",
    "submitted_via": "submittedVia",
    "decided_by": "decidedBy",
    "decided_at": "decidedAt",
    "why": "reason",
    "spot_id": "spotId",
    "trick_ids": "trickIds",
}

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
_LONGEST_SHOWN = 200  # characters of a reason within an error


class CompanionError(PixiError):
    """Something cannot be done. The text says what is wrong and what to do, all faults at once.

    Attributes:
        status: of HTTP, by which programs are told.
        title: the kind of error, in a few words.
    """

    status = 422
    title = "Something is wrong with it"


class NotFound(CompanionError):
    """Nothing has that id, or it belongs to somebody else."""

    status = 404
    title = "No such draft"


class AlreadyDecided(CompanionError):
    """Somebody decided about the draft before, and otherwise."""

    status = 409
    title = "Decided before"


class KeyReused(CompanionError):
    """The key of a write came before, with another thing to write. Nothing was written."""

    title = "Used before"


class Unavailable(CompanionError):
    """The service that keeps the data does not answer, or answers nonsense. Try again later."""

    status = 503
    title = "Not now"


class Uncertain(CompanionError):
    """No answer came to a write: nobody knows whether it was done."""

    status = 504
    title = "Nobody knows whether it was done"


# What a companion has. In JSON the names are those of the app's own client, see `JSON_NAMES`. Both sides read
# and write by these types, and from them the OpenAPI file is made that ships.


class Spot(Struct, frozen=True, rename=JSON_NAMES):
    """A place to skate or ride. Coordinates are degrees of WGS 84; null: not known."""

    id: str
    name: str
    kind: Kind
    city: str = ""
    state: str = ""
    country: str = ""
    latitude: float | None = None
    longitude: float | None = None
    description: str = ""
    rating: float | None = None  # from 0 to 5; None: nobody rated it
    image_url: str = ""
    created_by: str = ""  # the persona that submitted it; "": not one
    distance_km: float | None = None  # from where a search was made; None: it named no place


class Trick(Struct, frozen=True, rename=JSON_NAMES):
    """A trick of the trickipedia."""

    id: str
    name: str
    category: str  # the sport, e.g. `skateboard`
    difficulty: str = ""  # a word for it, e.g. `beginner`
    description: str = ""
    videos: tuple[str, ...] = ()  # addresses


class ListedTrick(Struct, frozen=True, rename=JSON_NAMES):
    """A trick in somebody's list, by the trick's id."""

    id: str
    name: str
    checked: bool = False


class Tricklist(Struct, frozen=True, rename=JSON_NAMES):
    """A person's list of tricks, in their order. Times are seconds since the epoch."""

    id: str
    name: str
    category: str = ""
    tricks: tuple[ListedTrick, ...] = ()
    created_by: str = ""  # the persona that made it; "": the person did
    created_at: float = 0.0


class SpotDraft(Struct, frozen=True, rename=JSON_NAMES):
    """A spot that somebody submitted and that people decide about. Times are seconds since the epoch."""

    id: str
    name: str
    kind: Kind
    status: Status
    city: str = ""
    state: str = ""
    country: str = ""
    latitude: float | None = None
    longitude: float | None = None
    maps_url: str = ""
    description: str = ""
    submitted_by: str = ""  # id of the person; "" where they were forgotten
    submitted_via: str = ""  # name of the persona
    created_at: float = 0.0
    decided_by: str = ""  # "" while it is pending
    decided_at: float = 0.0  # 0: not decided
    why: str = ""  # of a rejection
    spot_id: str = ""  # of the spot that approval made


@dataclass(frozen=True, slots=True)
class SpotSearch:
    """A search for spots. The nearest come first where there are coordinates, else what fits best.

    Attributes:
        words: of the name, the place or the description, maybe misspelt; "": any.
        kind: None: any.
        latitude, longitude: of the middle; None: anywhere.
        within_km: of the middle.
        limit: at most so many.

    Raises:
        CompanionError: a number is out of range, or there are half coordinates.
    """

    words: str = ""
    kind: Kind | None = None
    latitude: float | None = None
    longitude: float | None = None
    within_km: float = 50.0
    limit: int = 5

    def __post_init__(self) -> None:
        faults = [*_wrong_kind(self.kind), *wrong_coordinates(self.latitude, self.longitude)]
        if not 0 < self.within_km <= FARTHEST_KM:
            far = as_float(self.within_km)
            faults.append(f"within_km is {far:g}: give more than 0 and at most {FARTHEST_KM:.0f}.")
        _refuse([*faults, *_wrong_limit(self.limit, MOST_FOUND)])


class NewTricklist(Struct, frozen=True, rename=JSON_NAMES):
    """A list that is to be made.

    Attributes:
        trick_ids: of tricks that there are, in their order.
        created_by: name of the persona.

    Raises:
        CompanionError: there is no name, or too much.
    """

    name: str
    category: str
    trick_ids: tuple[str, ...]
    created_by: str

    def __post_init__(self) -> None:
        _tidy(self, "name", "category")
        faults = [*_wrong_text("name", self.name, LONGEST_NAME, needed=True)]
        faults += _wrong_text("category", self.category, LONGEST_NAME, needed=True)
        if len(self.trick_ids) > MOST_TRICKS:
            faults.append(f"There are {len(self.trick_ids)} tricks: {MOST_TRICKS} is the most for one list.")
        _refuse(faults)


class NewDraft(Struct, frozen=True, rename=JSON_NAMES):
    """A spot that is to be submitted.

    Raises:
        CompanionError: something is missing, out of range, or too long.
    """

    name: str
    kind: Kind
    city: str = ""
    state: str = ""
    country: str = ""
    latitude: float | None = None
    longitude: float | None = None
    maps_url: str = ""
    description: str = ""
    submitted_via: str = ""

    def __post_init__(self) -> None:
        _tidy(self, "name", "city", "state", "country", "maps_url")
        force_setattr(self, "description", in_lines(self.description))
        faults = [*_wrong_text("name", self.name, LONGEST_NAME, needed=True), *_wrong_kind(self.kind)]
        for place in ("city", "state", "country"):
            faults += _wrong_text(place, getattr(self, place), LONGEST_NAME)
        faults += _wrong_text("mapsUrl", self.maps_url, LONGEST_LINK)
        faults += _wrong_text("description", self.description, LONGEST_TEXT)
        faults += wrong_coordinates(self.latitude, self.longitude)
        if not (self.maps_url or self.city or self.latitude is not None or self.longitude is not None):
            faults.append("Nobody could find it: give a maps link, coordinates, or at least the city.")
        _refuse(faults)


class TrickMatch(Struct, frozen=True, rename=JSON_NAMES):
    """The trick that is meant by a name that somebody wrote, or the nearest names, the likest first."""

    asked: str
    trick: Trick | None = None
    nearest: tuple[str, ...] = ()


class CompanionData(Protocol):
    """The place where the things are kept. Every method raises `CompanionError` alone.

    People are named by the ids of authors, e.g. `discord:7`. A write with the same `key` again changes
    nothing, and gives what the first one made. Where a write is not answered it is `Uncertain`.
    """

    async def search_spots(self, search: SpotSearch) -> tuple[Spot, ...]:
        """Find spots, with mistakes forgiven; () where nothing fits."""
        ...

    async def spot(self, spot_id: str) -> Spot | None:
        """Return the spot of that id."""
        ...

    async def search_tricks(self, words: str, category: str = "", limit: int = 10) -> tuple[Trick, ...]:
        """Find up to 50 tricks, with mistakes forgiven, what fits best first; "": of every category."""
        ...

    async def trick(self, trick_id: str) -> Trick | None:
        """Return the trick of that id."""
        ...

    async def match_tricks(self, names: Sequence[str], category: str = "") -> tuple[TrickMatch, ...]:
        """Return for each of up to 50 names the trick that is meant, if that is sure."""
        ...

    async def tricklists(self, person: str, name: str = "") -> tuple[Tricklist, ...]:
        """Return the lists of a person, the latest first; with a name those whose names are nearly that."""
        ...

    async def tricklist(self, person: str, tricklist_id: str) -> Tricklist | None:
        """Return the person's own list of that id."""
        ...

    async def create_tricklist(self, person: str, new: NewTricklist, key: str) -> Tricklist:
        """Make a list. `NotFound`: there is no trick of one of the ids."""
        ...

    async def create_draft(self, person: str, new: NewDraft, key: str) -> SpotDraft:
        """Submit a spot, which waits for approval. `KeyReused`: another was submitted by that key."""
        ...

    async def draft(self, draft_id: str) -> SpotDraft | None:
        """Return the draft of that id."""
        ...

    async def drafts(
        self, status: Status | None = "pending_approval", limit: int = 50, after: str = ""
    ) -> tuple[SpotDraft, ...]:
        """Return up to 500 drafts of a status, the oldest first; None: of any.

        With `after`, the id of a draft, those that came behind it. `NotFound`: there is none of that id.
        """
        ...

    async def approve(self, draft_id: str, by: str) -> SpotDraft:
        """Make a spot of a draft. The same again changes nothing.

        `NotFound`: there is none; `AlreadyDecided`: it was rejected.
        """
        ...

    async def reject(self, draft_id: str, by: str, why: str = "") -> SpotDraft:
        """Reject a draft. The same again changes nothing.

        `NotFound`: there is none; `AlreadyDecided`: it was approved.
        """
        ...


def wrong_coordinates(latitude: float | None, longitude: float | None) -> list[str]:
    """Return what is wrong with coordinates; [] where they are right, or none."""
    if latitude is None and longitude is None:
        return []
    if latitude is None or longitude is None:
        missing = "latitude" if latitude is None else "longitude"
        return [f"There is no {missing}: give both latitude and longitude, or neither."]
    latitude, longitude = as_float(latitude), as_float(longitude)
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        return ["Coordinates must be numbers in degrees, e.g. latitude 52.5 and longitude 13.4."]
    if abs(latitude) <= 90 and abs(longitude) <= 180:
        return []
    if abs(longitude) <= 90 and abs(latitude) <= 180:
        return [
            f"latitude {latitude:g} is not within -90 to 90: latitude and longitude seem to be swapped. Give "
            "them the other way round, or ask which is which."
        ]
    return [
        f"latitude {latitude:g}, longitude {longitude:g}: latitude goes from -90 to 90, longitude from -180 "
        "to 180."
    ]


def as_float(number: float) -> float:
    """Return a number as a float; one that is too large for any as infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def one_line(text: str) -> str:
    """Return text without line breaks, invisible characters and blanks round it."""
    return " ".join(_INVISIBLE.sub(" ", text).split())


def in_lines(text: str) -> str:
    """Return text without invisible characters, in its lines; several empty lines become one."""
    lines = "\n".join(map(one_line, text.splitlines()))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def checked_reason(why: str) -> str:
    """Return the reason of a rejection, tidied.

    Raises:
        CompanionError: it is too long.
    """
    why = in_lines(why)
    _refuse([*_wrong_text("why", why, LONGEST_TEXT)])
    return why


def check_limit(limit: int, most: int) -> None:
    """See that so many may be asked for.

    Raises:
        CompanionError: they may not.
    """
    _refuse([*_wrong_limit(limit, most)])


def check_names(names: Sequence[str]) -> None:
    """See that names of tricks are no more and no longer than can be looked up at once.

    Raises:
        CompanionError: they are.
    """
    if len(names) > MOST_TRICKS:
        raise CompanionError(f"There are {len(names)} names of tricks: {MOST_TRICKS} is the most at once.")
    for number, name in enumerate(names, 1):
        _refuse([*_wrong_text(f"The name of trick {number}", name, LONGEST_NAME)])


def decided_before(draft: SpotDraft) -> AlreadyDecided:
    """Return the error that says who decided about a draft, when, and why."""
    when = datetime.fromtimestamp(draft.decided_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    why = one_line(draft.why)
    shown = f" The reason: {why[:_LONGEST_SHOWN]}{'…' if len(why) > _LONGEST_SHOWN else ''}" if why else ""
    return AlreadyDecided(
        f"{draft.name!r} was {draft.status} before, by {draft.decided_by or 'somebody'} on {when}.{shown}"
    )


def _tidy(value: Struct, *names: str) -> None:
    for name in names:
        force_setattr(value, name, one_line(getattr(value, name)))


def _wrong_text(name: str, text: str, longest: int, *, needed: bool = False) -> Iterator[str]:
    if needed and not text:
        yield f"{name} is empty: give one."
    if len(text) > longest:
        yield f"{name} has {len(text)} characters: {longest} is the most."


def _wrong_limit(limit: int, most: int) -> Iterator[str]:
    if not 1 <= limit <= most:
        yield f"limit is {as_float(limit):g}: give 1 to {most}."


def _wrong_kind(kind: str | None) -> Iterator[str]:
    if kind is not None and kind not in KINDS:
        yield f"type {one_line(kind)[:40]!r} is not known: give one of {', '.join(KINDS)}."


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise CompanionError(" ".join(faults))
