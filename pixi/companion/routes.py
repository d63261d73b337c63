"""The routes by which a host app submits spots, and its admins decide about them."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Literal

import msgspec

from pixi.companion.data import (
    AlreadyDecided,
    CompanionError,
    KeyReused,
    Kind,
    NewDraft,
    NotFound,
    Unavailable,
    Uncertain,
)
from pixi.companion.maps import MapLink, resolve_map_link
from pixi.companion.tools import HOUR, WRITES, Companion
from pixi.companion.wire import DraftJson, PlaceJson, to_json
from pixi.core.routes import AddonRoute, Caller, RouteError, RouteWrites

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
