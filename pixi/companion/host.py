"""A host app of the companion, on this machine: the routes of `pixi/companion/openapi.json` over any data.

For tests, and for whoever builds such an app and wants to see what is asked of it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from pixi.companion.data import (
    AlreadyDecided,
    CompanionData,
    CompanionError,
    NewDraft,
    NewTricklist,
    NotFound,
    SpotSearch,
    Unavailable,
    Uncertain,
)
from pixi.companion.wire import (
    DecisionJson,
    DraftJson,
    DraftsJson,
    MatchesJson,
    MatchJson,
    NamesJson,
    NewDraftJson,
    NewTricklistJson,
    RefusalJson,
    SpotJson,
    SpotsJson,
    TrickJson,
    TricklistJson,
    TricklistsJson,
    TricksJson,
    to_json,
)

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[msgspec.Struct]]


@asynccontextmanager
async def companion_host(data: CompanionData, key: str = "") -> AsyncGenerator[str, None]:
    """Serve the routes over some data; gives the address of the app.

    Args:
        data: where the app keeps its things.
        key: that a bearer must be; "": everybody is let in.
    """
    app = web.Application(client_max_size=1_000_000)
    for method, path, handler in _Routes(data).all():
        app.router.add_route(method, path, _answering(handler, key))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class _Routes:
    """The handlers."""

    def __init__(self, data: CompanionData) -> None:
        self._data = data

    def all(self) -> list[tuple[str, str, Handler]]:
        draft, lists = "/api/spots/drafts/{id}", "/api/users/{userId}/tricklists"
        return [
            ("GET", "/api/spots/drafts", self.drafts),
            ("POST", "/api/spots/draft", self.submit),
            ("GET", draft, self.draft),
            ("PUT", f"{draft}/approve", self.approve),
            ("PUT", f"{draft}/reject", self.reject),
            ("GET", "/api/spots", self.spots),
            ("GET", "/api/spots/{id}", self.spot),
            ("GET", "/api/tricks", self.tricks),
            ("POST", "/api/tricks/match", self.match),
            ("GET", "/api/tricks/{id}", self.trick),
            ("GET", lists, self.lists),
            ("POST", lists, self.make_list),
            ("GET", f"{lists}/{{id}}", self.list_of_id),
        ]

    async def spots(self, request: web.Request) -> SpotsJson:
        asked = request.query
        keys = {"latitude": "latitude", "longitude": "longitude", "withinKm": "within_km"}
        numbers = {name: float(asked[key]) for key, name in keys.items() if key in asked}
        kind: Any = asked.get("type") or None
        search = SpotSearch(asked.get("query", ""), kind, limit=int(asked.get("limit", "5")), **numbers)
        return SpotsJson([to_json(each, SpotJson) for each in await self._data.search_spots(search)])

    async def spot(self, request: web.Request) -> SpotJson:
        return to_json(_there(await self._data.spot(request.match_info["id"])), SpotJson)

    async def tricks(self, request: web.Request) -> TricksJson:
        asked = request.query
        limit = int(asked.get("limit", "10"))
        found = await self._data.search_tricks(asked.get("query", ""), asked.get("category", ""), limit)
        return TricksJson([to_json(each, TrickJson) for each in found])

    async def trick(self, request: web.Request) -> TrickJson:
        return to_json(_there(await self._data.trick(request.match_info["id"])), TrickJson)

    async def match(self, request: web.Request) -> MatchesJson:
        asked = await _body(request, NamesJson)
        found = await self._data.match_tricks(asked.names, asked.category)
        return MatchesJson([to_json(each, MatchJson) for each in found])

    async def lists(self, request: web.Request) -> TricklistsJson:
        person = request.match_info["userId"]
        found = await self._data.tricklists(person, request.query.get("name", ""))
        return TricklistsJson([to_json(each, TricklistJson) for each in found])

    async def list_of_id(self, request: web.Request) -> TricklistJson:
        person, list_id = request.match_info["userId"], request.match_info["id"]
        return to_json(_there(await self._data.tricklist(person, list_id)), TricklistJson)

    async def make_list(self, request: web.Request) -> TricklistJson:
        asked = await _body(request, NewTricklistJson)
        new = NewTricklist(asked.name, asked.category, asked.trickIds, asked.createdBy)
        made = await self._data.create_tricklist(request.match_info["userId"], new, _key(request))
        return to_json(made, TricklistJson)

    async def submit(self, request: web.Request) -> DraftJson:
        asked = await _body(request, NewDraftJson)
        new = NewDraft(
            name=asked.name,
            kind=asked.type,
            city=asked.city,
            state=asked.state,
            country=asked.country,
            latitude=asked.latitude,
            longitude=asked.longitude,
            maps_url=asked.mapsUrl,
            description=asked.description,
            submitted_via=asked.submittedVia,
        )
        return to_json(await self._data.create_draft(asked.submittedBy, new, _key(request)), DraftJson)

    async def drafts(self, request: web.Request) -> DraftsJson:
        status: Any = request.query.get("status", "pending_approval")
        limit, after = int(request.query.get("limit", "50")), request.query.get("after", "")
        found = await self._data.drafts(None if status == "all" else status, limit, after)
        return DraftsJson([to_json(each, DraftJson) for each in found])

    async def draft(self, request: web.Request) -> DraftJson:
        return to_json(_there(await self._data.draft(request.match_info["id"])), DraftJson)

    async def approve(self, request: web.Request) -> DraftJson:
        asked = await _body(request, DecisionJson)
        return to_json(await self._data.approve(request.match_info["id"], asked.decidedBy), DraftJson)

    async def reject(self, request: web.Request) -> DraftJson:
        asked = await _body(request, DecisionJson)
        made = await self._data.reject(request.match_info["id"], asked.decidedBy, asked.reason)
        return to_json(made, DraftJson)


def _answering(handler: Handler, key: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return _problem(401, "Send the key of the app.")
        try:
            return web.Response(
                body=msgspec.json.encode(await handler(request)), content_type="application/json"
            )
        except CompanionError as error:
            return _problem(_status_of(error), str(error))
        except (ValueError, msgspec.DecodeError) as error:
            return _problem(422, str(error))

    return answer


def _problem(status: int, detail: str) -> web.Response:
    body = msgspec.json.encode(RefusalJson(title="Refused", detail=detail))
    return web.Response(status=status, body=body, content_type="application/problem+json")


def _status_of(error: CompanionError) -> int:
    match error:
        case NotFound():
            return 404
        case AlreadyDecided():
            return 409
        case Unavailable():
            return 503
        case Uncertain():
            return 504
        case _:
            return 422


async def _body(request: web.Request, kind: type[T]) -> T:
    return msgspec.json.decode(await request.read(), type=kind)


def _there(found: T | None) -> T:
    if found is None:
        raise NotFound("There is nothing of that id.")
    return found


def _key(request: web.Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        raise CompanionError("Send an Idempotency-Key with it.")
    return key
