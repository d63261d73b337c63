"""The routes by which a host app submits spots, and its admins decide about them."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from pixi.companion.data import (
    AlreadyDecided,
    CompanionError,
    KeyReused,
    Kind,
    ListedTrick,
    NewDraft,
    NewTricklist,
    NotFound,
    Spot,
    SpotDraft,
    Status,
    Trick,
    Tricklist,
    TrickMatch,
    Unavailable,
    Uncertain,
)
from pixi.companion.maps import MapLink, resolve_map_link
from pixi.companion.tools import HOUR, WRITES, Companion
from pixi.core.routes import AddonRoute, Caller, RouteError, RouteWrites

T = TypeVar("T")


# The companion's data as JSON: what a host app is asked and answers, and what our own routes tell.
#
# The names are those of the app's own client: `_id`, `createdBy`, `submittedVia`, `mapsUrl`. From these
# types the OpenAPI file is made that ships, see `description`; both sides read and write by them.


class PlaceJson(Struct, kw_only=True):
    """Where something is, and what it is like. Coordinates in degrees."""

    city: str = ""
    state: str = ""
    country: str = ""
    latitude: float | None = None
    longitude: float | None = None
    description: str = ""


class SpotJson(PlaceJson, kw_only=True):
    """A spot. `rating` from 0 to 5; `distanceKm` where a search had a middle."""

    _id: str
    name: str
    type: Kind
    rating: float | None = None
    imageUrl: str = ""
    createdBy: str = ""
    distanceKm: float | None = None


class SpotsJson(Struct):
    """What a search found, what fits best first."""

    spots: list[SpotJson]


class TrickJson(Struct, kw_only=True):
    """A trick."""

    _id: str
    name: str
    category: str
    difficulty: str = ""
    description: str = ""
    videos: list[str] = []


class TricksJson(Struct):
    """What a search found, what fits best first."""

    tricks: list[TrickJson]


class NamesJson(Struct):
    """Names of tricks as somebody wrote them."""

    names: list[str]
    category: str = ""


class MatchJson(Struct):
    """The trick that is meant by a name, or the nearest names."""

    asked: str
    trick: TrickJson | None = None
    nearest: list[str] = []


class MatchesJson(Struct):
    """One for each name, in their order."""

    matches: list[MatchJson]


class ListedTrickJson(Struct, kw_only=True):
    """A trick in a list."""

    _id: str
    name: str
    checked: bool = False


class TricklistJson(Struct, kw_only=True):
    """A person's list. `createdBy`: the persona that made it; `createdAt`: seconds since the epoch."""

    _id: str
    name: str
    category: str = ""
    tricks: list[ListedTrickJson] = []
    createdBy: str = ""
    createdAt: float = 0.0


class TricklistsJson(Struct):
    """A person's lists, the latest first."""

    tricklists: list[TricklistJson]


class NewTricklistJson(Struct, kw_only=True):
    """A list that is to be made, of tricks that there are."""

    name: str
    category: str
    trickIds: list[str]
    createdBy: str


class NewDraftJson(PlaceJson, kw_only=True):
    """A spot that is submitted."""

    name: str
    type: Kind
    submittedBy: str
    mapsUrl: str = ""
    submittedVia: str = ""


class DraftJson(PlaceJson, kw_only=True):
    """A draft. `spotId`: the spot that approval made of it; times are seconds since the epoch."""

    _id: str
    name: str
    type: Kind
    status: Status
    mapsUrl: str = ""
    submittedBy: str = ""
    submittedVia: str = ""
    createdAt: float = 0.0
    decidedBy: str = ""
    decidedAt: float = 0.0
    reason: str = ""
    spotId: str = ""


class DraftsJson(Struct):
    """Drafts, the oldest first."""

    drafts: list[DraftJson]


class RefusalJson(Struct):
    """What a host app says where it refuses: of RFC 9457, what is read."""

    title: str = ""
    detail: str = ""


class DecisionJson(Struct):
    """Who decides, and why."""

    decidedBy: str
    reason: str = ""


_KEYS = {
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
_FIELDS = {key: name for name, key in _KEYS.items()}
_Value = Spot | Trick | Tricklist | SpotDraft | NewTricklist | NewDraft | TrickMatch


def to_json(value: _Value, kind: type[T], **more: object) -> T:
    """Return a value as JSON has it. `more`: what JSON holds besides."""
    plain = {_KEYS.get(name, name): each for name, each in _fields(value).items()}
    return msgspec.convert(plain | more, kind)


def from_json(kind: type[T], told: Struct) -> T:
    """Return the value that JSON tells."""
    plain = {_FIELDS.get(name, name): getattr(told, name) for name in told.__struct_fields__}
    for name, of in (("trick", Trick), ("tricks", ListedTrick)):
        inner = plain.get(name)
        if isinstance(inner, list):
            plain[name] = tuple(from_json(of, each) for each in inner)
        elif isinstance(inner, Struct):
            plain[name] = from_json(of, inner)
    for name in ("videos", "nearest"):
        if name in plain:
            plain[name] = tuple(plain[name])
    return kind(**plain)


def _fields(value: Any) -> dict[str, Any]:
    plain = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(plain.get("tricks"), tuple):
        plain["tricks"] = [to_plain(each) for each in plain["tricks"]]
    if isinstance(value, TrickMatch) and value.trick is not None:
        plain["trick"] = to_plain(value.trick)
    return plain


def to_plain(value: Any) -> dict[str, Any]:
    """Return a value within another as JSON has it."""
    return {_KEYS.get(name, name): getattr(value, name) for name in value.__dataclass_fields__}


Query = dict[str, Any]
_TEXT, _NUMBER, _COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer"}
_SPOTS = {
    "query": _TEXT,
    "type": _TEXT,
    "latitude": _NUMBER,
    "longitude": _NUMBER,
    "withinKm": _NUMBER,
    "limit": _COUNT,
}
ROUTES: tuple[tuple[str, str, str, Query, Any, Any], ...] = (
    (
        "GET",
        "/api/spots/drafts",
        "List drafts",
        {"status": _TEXT, "limit": _COUNT, "after": _TEXT},
        None,
        DraftsJson,
    ),
    ("POST", "/api/spots/draft", "Submit a spot", {}, NewDraftJson, DraftJson),
    ("GET", "/api/spots/drafts/{id}", "Get a draft", {}, None, DraftJson),
    ("PUT", "/api/spots/drafts/{id}/approve", "Make a spot of a draft", {}, DecisionJson, DraftJson),
    ("PUT", "/api/spots/drafts/{id}/reject", "Reject a draft", {}, DecisionJson, DraftJson),
    ("GET", "/api/spots", "Search spots", _SPOTS, None, SpotsJson),
    ("GET", "/api/spots/{id}", "Get a spot", {}, None, SpotJson),
    (
        *("GET", "/api/tricks", "Search tricks"),
        *({"query": _TEXT, "category": _TEXT, "limit": _COUNT}, None, TricksJson),
    ),
    ("POST", "/api/tricks/match", "Tell which tricks are meant by names", {}, NamesJson, MatchesJson),
    ("GET", "/api/tricks/{id}", "Get a trick", {}, None, TrickJson),
    ("GET", "/api/users/{userId}/tricklists", "List a person's lists", {"name": _TEXT}, None, TricklistsJson),
    ("POST", "/api/users/{userId}/tricklists", "Make a list", {}, NewTricklistJson, TricklistJson),
    ("GET", "/api/users/{userId}/tricklists/{id}", "Get a list", {}, None, TricklistJson),
)
"""What a host app offers: method, path, what it does, query, and the types of body and answer."""


def description() -> dict[str, Any]:
    """Return the OpenAPI document of the routes that a host app offers."""
    bodies = [kind for route in ROUTES for kind in route[4:] if kind is not None]
    named = (*dict.fromkeys(bodies), RefusalJson)
    found, schemas = msgspec.json.schema_components(named, ref_template="#/components/schemas/{name}")
    told = dict(zip(named, found, strict=True))
    paths: dict[str, Any] = {}
    for method, path, summary, query, body, answer in ROUTES:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
        parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]
        if method == "POST" and path != "/api/tricks/match":
            key = {
                "description": "The same again gives what the first made; with another body it is 422.",
                "schema": _TEXT,
            }
            parameters.append({"name": "Idempotency-Key", "in": "header", "required": True, **key})
        operation: dict[str, Any] = {"summary": summary, "parameters": parameters}
        if body is not None:
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": told[body]}},
            }
        refused = {"application/problem+json": {"schema": told[RefusalJson]}}
        operation["responses"] = {
            "200": {"description": "Done.", "content": {"application/json": {"schema": told[answer]}}},
            **{
                status: {"description": words, "content": refused}
                for status, words in (
                    ("404", "There is nothing of that id, or it is another person's."),
                    ("409", "It was decided otherwise before."),
                    ("422", "Something is wrong with it; `detail` says what."),
                )
            },
        }
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "A host app, as the companion asks it", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
    }


_DRAFTS, _DRAFT = "/api/spots/drafts", "/api/spots/drafts/{id}"


class DraftRequest(PlaceJson, forbid_unknown_fields=True, kw_only=True):
    """A spot that is submitted. `userId`: for whom; needs the scope `chat:on-behalf`."""

    name: str
    type: Kind
    mapsUrl: str = ""
    userId: str | None = None


class DraftsQuery(msgspec.Struct):
    """Which drafts: of a status, `pending_approval` where nothing is said, or `all`.

    `limit`, 1 to 500; with `after`, the `_id` of a draft, those that came behind it.
    """

    status: Literal["pending_approval", "approved", "rejected", "all"] = "pending_approval"
    limit: int = 50
    after: str = ""


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """Who decides (`userId`, needs the scope `chat:on-behalf`), and what is told to whoever submitted it."""

    reason: str = ""
    userId: str | None = None


class DraftsShown(msgspec.Struct):
    """Drafts, the oldest first. `more`: there are others, to be asked for `after` the last of these."""

    drafts: list[DraftJson]
    count: int
    more: bool = False


def routes_of(companion: Companion) -> tuple[AddonRoute, ...]:
    """Return the routes over the companion's data."""
    data = companion.data
    writes = RouteWrites("create_spot_draft", companion.writes_per_hour, HOUR, WRITES)

    async def submit(caller: Caller, asked: DraftRequest) -> DraftJson:
        with _told():
            link = await resolve_map_link(asked.mapsUrl, companion.web) if asked.mapsUrl else MapLink("")
            given = asked.latitude is not None or asked.longitude is not None
            new = NewDraft(
                name=asked.name,
                kind=asked.type,
                city=asked.city,
                state=asked.state,
                country=asked.country,
                latitude=asked.latitude if given else link.latitude,
                longitude=asked.longitude if given else link.longitude,
                maps_url=link.url,
                description=asked.description,
            )
            # Without a key of its own the same spot of the same person is the same draft.
            key = caller.key or f"route:{sha256(repr(new).encode()).hexdigest()}"
            return to_json(await data.create_draft(caller.person, new, key), DraftJson)

    async def drafts(caller: Caller, asked: DraftsQuery) -> DraftsShown:
        with _told():
            status = None if asked.status == "all" else asked.status
            found = await data.drafts(status, asked.limit, asked.after)
            more = len(found) == asked.limit and await data.drafts(status, 1, found[-1].id)
            return DraftsShown([to_json(draft, DraftJson) for draft in found], len(found), bool(more))

    async def approve(caller: Caller, asked: Decision) -> DraftJson:
        with _told():
            return to_json(await data.approve(caller.path["id"], caller.person), DraftJson)

    async def reject(caller: Caller, asked: Decision) -> DraftJson:
        with _told():
            return to_json(await data.reject(caller.path["id"], caller.person, asked.reason), DraftJson)

    return (
        AddonRoute(
            *("POST", "/api/spots/draft", submit, "Submit a spot", "chat", DraftRequest, DraftJson),
            writes=writes,
        ),
        AddonRoute("GET", _DRAFTS, drafts, "List submitted spots", "approve", DraftsQuery, DraftsShown),
        AddonRoute(
            "PUT", f"{_DRAFT}/approve", approve, "Make a spot of a draft", "approve", Decision, DraftJson
        ),
        AddonRoute("PUT", f"{_DRAFT}/reject", reject, "Reject a draft", "approve", Decision, DraftJson),
    )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise RouteError(404, "No such draft", str(error)) from error
    except AlreadyDecided as error:
        raise RouteError(409, "Decided before", str(error)) from error
    except KeyReused as error:
        raise RouteError(422, "Used before", str(error)) from error
    except Unavailable as error:
        raise RouteError(503, "Not now", str(error)) from error
    except Uncertain as error:
        raise RouteError(
            504,
            "Nobody knows whether it was done",
            "No answer came from where it is kept. Send the same request once more, with the same key: it is "
            "done once.",
        ) from error
    except CompanionError as error:
        raise RouteError(422, "Something is wrong with it", str(error)) from error
