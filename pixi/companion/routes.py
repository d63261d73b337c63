"""The routes that a host app offers its companion, and those by which an app submits spots and decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from pixi.companion.data import (
    CompanionError,
    Kind,
    NewDraft,
    NewTricklist,
    Spot,
    SpotDraft,
    Trick,
    Tricklist,
    TrickMatch,
    Uncertain,
)
from pixi.companion.maps import MapLink, resolve_map_link
from pixi.companion.tools import HOUR, WRITES, Companion
from pixi.core.routes import AddonRoute, Caller, RouteError, RouteWrites

T = TypeVar("T")


class SpotsJson(Struct):
    """Spots of a search, the best fit first."""

    spots: list[Spot]


class TricksJson(Struct):
    """Tricks of a search, the best fit first."""

    tricks: list[Trick]


class NamesJson(Struct):
    """Names of tricks as somebody wrote them."""

    names: list[str]
    category: str = ""


class MatchesJson(Struct):
    """Matches, one for each name, in their order."""

    matches: list[TrickMatch]


class TricklistsJson(Struct):
    """A person's lists, the latest first."""

    tricklists: list[Tricklist]


class NewTricklistJson(NewTricklist, frozen=True):
    """A list that is to be made, of tricks that there are."""


class NewDraftJson(NewDraft, frozen=True, kw_only=True):
    """A spot that is submitted."""

    submitted_by: str


class DraftsJson(Struct):
    """Drafts, the oldest first."""

    drafts: list[SpotDraft]


class RefusalJson(Struct):
    """A host app's refusal: of RFC 9457, what is read."""

    title: str = ""
    detail: str = ""


class DecisionJson(Struct):
    """Decider and reason."""

    decidedBy: str
    reason: str = ""


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
_TRICKS = {"query": _TEXT, "category": _TEXT, "limit": _COUNT}
_OF_STATUS = {"status": _TEXT, "limit": _COUNT, "after": _TEXT}
ROUTES: tuple[tuple[str, str, str, Query, Any, Any], ...] = (
    ("GET", "/api/spots/drafts", "List drafts", _OF_STATUS, None, DraftsJson),
    ("POST", "/api/spots/draft", "Submit a spot", {}, NewDraftJson, SpotDraft),
    ("GET", "/api/spots/drafts/{id}", "Get a draft", {}, None, SpotDraft),
    ("PUT", "/api/spots/drafts/{id}/approve", "Make a spot of a draft", {}, DecisionJson, SpotDraft),
    ("PUT", "/api/spots/drafts/{id}/reject", "Reject a draft", {}, DecisionJson, SpotDraft),
    ("GET", "/api/spots", "Search spots", _SPOTS, None, SpotsJson),
    ("GET", "/api/spots/{id}", "Get a spot", {}, None, Spot),
    ("GET", "/api/tricks", "Search tricks", _TRICKS, None, TricksJson),
    ("POST", "/api/tricks/match", "Tell which tricks are meant by names", {}, NamesJson, MatchesJson),
    ("GET", "/api/tricks/{id}", "Get a trick", {}, None, Trick),
    ("GET", "/api/users/{userId}/tricklists", "List a person's lists", {"name": _TEXT}, None, TricklistsJson),
    ("POST", "/api/users/{userId}/tricklists", "Make a list", {}, NewTricklistJson, Tricklist),
    ("GET", "/api/users/{userId}/tricklists/{id}", "Get a list", {}, None, Tricklist),
)
"""Routes that a host app offers: method, path, what it does, query, and the types of body and answer."""


_REFUSED = {
    "404": "There is nothing of that id, or it is another person's.",
    "409": "It was decided otherwise before.",
    "422": "Something is wrong with it; `detail` says what.",
}


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
            words = "The same again gives what the first made; with another body it is 422."
            key = {"description": words, "schema": _TEXT}
            parameters.append({"name": "Idempotency-Key", "in": "header", "required": True, **key})
        operation: dict[str, Any] = {"summary": summary, "parameters": parameters}
        if body is not None:
            content = {"application/json": {"schema": told[body]}}
            operation["requestBody"] = {"required": True, "content": content}
        refused = {"application/problem+json": {"schema": told[RefusalJson]}}
        done = {"description": "Done.", "content": {"application/json": {"schema": told[answer]}}}
        operation["responses"] = {"200": done} | {
            status: {"description": words, "content": refused} for status, words in _REFUSED.items()
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
_ONCE_MORE = (
    "No answer came from where it is kept. Send the same once more, with the same key: it is done once."
)


class DraftRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A spot that is submitted; coordinates in degrees. `userId`: for whom; needs `chat:on-behalf`."""

    name: str
    type: Kind
    city: str = ""
    state: str = ""
    country: str = ""
    latitude: float | None = None
    longitude: float | None = None
    description: str = ""
    mapsUrl: str = ""
    userId: str | None = None


class DraftsQuery(msgspec.Struct):
    """A choice of drafts: of a status, `pending_approval` where nothing is said, or `all`.

    `limit`, 1 to 500; with `after`, the `_id` of a draft, those that came behind it.
    """

    status: Literal["pending_approval", "approved", "rejected", "all"] = "pending_approval"
    limit: int = 50
    after: str = ""


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """A decision by `userId` (needs the scope `chat:on-behalf`), and its reason for whoever submitted it."""

    reason: str = ""
    userId: str | None = None


class DraftsShown(msgspec.Struct):
    """Drafts, the oldest first. `more`: there are others, to be asked for `after` the last of these."""

    drafts: list[SpotDraft]
    count: int
    more: bool = False


def routes_of(companion: Companion) -> tuple[AddonRoute, ...]:
    """Return the routes over the companion's data."""
    data = companion.data
    writes = RouteWrites("create_spot_draft", companion.writes_per_hour, HOUR, WRITES)

    async def submit(caller: Caller, asked: DraftRequest) -> SpotDraft:
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
            return await data.create_draft(caller.person, new, key)

    async def drafts(caller: Caller, asked: DraftsQuery) -> DraftsShown:
        with _told():
            status = None if asked.status == "all" else asked.status
            found = await data.drafts(status, asked.limit, asked.after)
            more = len(found) == asked.limit and await data.drafts(status, 1, found[-1].id)
            return DraftsShown(list(found), len(found), bool(more))

    async def approve(caller: Caller, asked: Decision) -> SpotDraft:
        with _told():
            return await data.approve(caller.path["id"], caller.person)

    async def reject(caller: Caller, asked: Decision) -> SpotDraft:
        with _told():
            return await data.reject(caller.path["id"], caller.person, asked.reason)

    return (
        AddonRoute(
            *("POST", "/api/spots/draft", submit, "Submit a spot", "chat", DraftRequest, SpotDraft),
            writes=writes,
        ),
        AddonRoute("GET", _DRAFTS, drafts, "List submitted spots", "approve", DraftsQuery, DraftsShown),
        AddonRoute(
            "PUT", f"{_DRAFT}/approve", approve, "Make a spot of a draft", "approve", Decision, SpotDraft
        ),
        AddonRoute("PUT", f"{_DRAFT}/reject", reject, "Reject a draft", "approve", Decision, SpotDraft),
    )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except CompanionError as error:
        detail = _ONCE_MORE if isinstance(error, Uncertain) else str(error)
        raise RouteError(error.status, error.title, detail) from error
