"""The companion's data at a host app: asked over its REST routes, which `openapi.json` describes.

A write has an `Idempotency-Key`. Where its answer is lost it is asked once more with the same key, so that it
is done once; where that answer is lost, too, nobody knows whether it was done. What an app answers is a
stranger's: it is read within limits, checked by its types, and only the `detail` of a refusal is told on, cut
and on one line."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import ClientConnectorError, ClientError, ClientResponse, ClientSession, web
from msgspec.structs import asdict
from yarl import URL

from pixi.companion.data import (
    MOST_DRAFTS,
    MOST_FOUND,
    AlreadyDecided,
    CompanionData,
    CompanionError,
    NewDraft,
    NewTricklist,
    NotFound,
    Spot,
    SpotDraft,
    SpotSearch,
    Status,
    Trick,
    Tricklist,
    TrickMatch,
    Unavailable,
    Uncertain,
    check_limit,
    check_names,
    checked_reason,
    one_line,
)
from pixi.companion.routes import (
    ROUTES,
    DecisionJson,
    DraftsJson,
    MatchesJson,
    NamesJson,
    NewDraftJson,
    RefusalJson,
    SpotsJson,
    TricklistsJson,
    TricksJson,
)

T = TypeVar("T", bound=msgspec.Struct)
Handler = Callable[[web.Request], Awaitable[msgspec.Struct]]


# A host app of the companion, on this machine: the routes of `pixi/companion/openapi.json` over any data.
#
# For tests, and for whoever builds such an app and wants to see what is asked of it.


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
        """Return method, path and handler of each of `ROUTES`, in their order."""
        handlers: dict[str, Handler] = {
            "GET /api/spots/drafts": self.drafts,
            "POST /api/spots/draft": self.submit,
            "GET /api/spots/drafts/{id}": self.draft,
            "PUT /api/spots/drafts/{id}/approve": self.approve,
            "PUT /api/spots/drafts/{id}/reject": self.reject,
            "GET /api/spots": self.spots,
            "GET /api/spots/{id}": self.spot,
            "GET /api/tricks": self.tricks,
            "POST /api/tricks/match": self.match,
            "GET /api/tricks/{id}": self.trick,
            "GET /api/users/{userId}/tricklists": self.lists,
            "POST /api/users/{userId}/tricklists": self.make_list,
            "GET /api/users/{userId}/tricklists/{id}": self.list_of_id,
        }
        return [(method, path, handlers[f"{method} {path}"]) for method, path, *_ in ROUTES]

    async def spots(self, request: web.Request) -> SpotsJson:
        asked = request.query
        keys = {"latitude": "latitude", "longitude": "longitude", "withinKm": "within_km"}
        numbers = {name: float(asked[key]) for key, name in keys.items() if key in asked}
        kind: Any = asked.get("type") or None
        search = SpotSearch(asked.get("query", ""), kind, limit=int(asked.get("limit", "5")), **numbers)
        return SpotsJson(list(await self._data.search_spots(search)))

    async def spot(self, request: web.Request) -> Spot:
        return _there(await self._data.spot(request.match_info["id"]))

    async def tricks(self, request: web.Request) -> TricksJson:
        asked = request.query
        limit = int(asked.get("limit", "10"))
        found = await self._data.search_tricks(asked.get("query", ""), asked.get("category", ""), limit)
        return TricksJson(list(found))

    async def trick(self, request: web.Request) -> Trick:
        return _there(await self._data.trick(request.match_info["id"]))

    async def match(self, request: web.Request) -> MatchesJson:
        asked = await _body(request, NamesJson)
        found = await self._data.match_tricks(asked.names, asked.category)
        return MatchesJson(list(found))

    async def lists(self, request: web.Request) -> TricklistsJson:
        person = request.match_info["userId"]
        found = await self._data.tricklists(person, request.query.get("name", ""))
        return TricklistsJson(list(found))

    async def list_of_id(self, request: web.Request) -> Tricklist:
        person, list_id = request.match_info["userId"], request.match_info["id"]
        return _there(await self._data.tricklist(person, list_id))

    async def make_list(self, request: web.Request) -> Tricklist:
        new = await _body(request, NewTricklist)
        return await self._data.create_tricklist(request.match_info["userId"], new, _key(request))

    async def submit(self, request: web.Request) -> SpotDraft:
        new = await _body(request, NewDraftJson)
        return await self._data.create_draft(new.submitted_by, new, _key(request))

    async def drafts(self, request: web.Request) -> DraftsJson:
        status: Any = request.query.get("status", "pending_approval")
        limit, after = int(request.query.get("limit", "50")), request.query.get("after", "")
        found = await self._data.drafts(None if status == "all" else status, limit, after)
        return DraftsJson(list(found))

    async def draft(self, request: web.Request) -> SpotDraft:
        return _there(await self._data.draft(request.match_info["id"]))

    async def approve(self, request: web.Request) -> SpotDraft:
        asked = await _body(request, DecisionJson)
        return await self._data.approve(request.match_info["id"], asked.decidedBy)

    async def reject(self, request: web.Request) -> SpotDraft:
        asked = await _body(request, DecisionJson)
        return await self._data.reject(request.match_info["id"], asked.decidedBy, asked.reason)


def _answering(handler: Handler, key: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return _problem(401, "Send the key of the app.")
        try:
            return web.Response(
                body=msgspec.json.encode(await handler(request)), content_type="application/json"
            )
        except CompanionError as error:
            return _problem(error.status, str(error))
        except (ValueError, msgspec.DecodeError) as error:
            return _problem(422, str(error))

    return answer


def _problem(status: int, detail: str) -> web.Response:
    body = msgspec.json.encode(RefusalJson(title="Refused", detail=detail))
    return web.Response(status=status, body=body, content_type="application/problem+json")


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


_MOST_BYTES = 2_000_000
_LONGEST_DETAIL = 300
_TRIES = 2
_OURS = ("discord:", "terminal:", "mcp:", "web:")
_AGAIN = "Tell them that the app cannot be reached just now, and try again later."
_UNKNOWN = (
    "Nobody knows whether it was done. Tell them so, and do not do it again by yourself: only once they have "
    "looked whether it is there, and ask for it."
)


class CompanionBackend:
    """`CompanionData` at a host app. Close it.

    Args:
        url: of the app, above `/api`.
        key: sent as a bearer; "": none is sent.
        app_keys: names of the app's own keys: whom they speak for is known to the app by its own id. Users
            of other programs' keys may be called the same and be others.
        seconds: for one answer.
    """

    def __init__(self, url: str, key: str = "", app_keys: Collection[str] = (), seconds: float = 8.0) -> None:
        self._url = url.rstrip("/")
        self._own = tuple(f"web:{name}:" for name in ("jwt", *app_keys))
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._seconds = seconds
        self._session: ClientSession | None = None

    async def close(self) -> None:
        """Give back the connections."""
        if self._session is not None:
            await self._session.close()

    async def search_spots(self, search: SpotSearch) -> tuple[Spot, ...]:
        """See `CompanionData.search_spots`."""
        query = {"query": search.words, "type": search.kind or "", "limit": search.limit}
        if search.latitude is not None:
            query |= {
                "latitude": search.latitude,
                "longitude": search.longitude,
                "withinKm": search.within_km,
            }
        found = await self._get("/api/spots", SpotsJson, query)
        return tuple(found.spots[: search.limit])

    async def spot(self, spot_id: str) -> Spot | None:
        """See `CompanionData.spot`."""
        return await self._find("/api/spots", spot_id, Spot)

    async def search_tricks(self, words: str, category: str = "", limit: int = 10) -> tuple[Trick, ...]:
        """See `CompanionData.search_tricks`."""
        check_limit(limit, MOST_FOUND)
        query = {"query": words, "category": category, "limit": limit}
        found = await self._get("/api/tricks", TricksJson, query)
        return tuple(found.tricks[:limit])

    async def trick(self, trick_id: str) -> Trick | None:
        """See `CompanionData.trick`."""
        return await self._find("/api/tricks", trick_id, Trick)

    async def match_tricks(self, names: Sequence[str], category: str = "") -> tuple[TrickMatch, ...]:
        """See `CompanionData.match_tricks`."""
        check_names(names)
        asked = NamesJson(list(names), category)
        found = await self._ask("POST", "/api/tricks/match", MatchesJson, body=asked)
        if [each.asked for each in found.matches] != list(names):
            raise Unavailable(f"The app's answer about tricks does not fit. {_AGAIN}")
        return tuple(found.matches)

    async def tricklists(self, person: str, name: str = "") -> tuple[Tricklist, ...]:
        """See `CompanionData.tricklists`."""
        found = await self._get(
            f"/api/users/{_part(self._user(person))}/tricklists", TricklistsJson, {"name": name}
        )
        return tuple(found.tricklists)

    async def tricklist(self, person: str, tricklist_id: str) -> Tricklist | None:
        """See `CompanionData.tricklist`."""
        return await self._find(f"/api/users/{_part(self._user(person))}/tricklists", tricklist_id, Tricklist)

    async def create_tricklist(self, person: str, new: NewTricklist, key: str) -> Tricklist:
        """See `CompanionData.create_tricklist`."""
        path = f"/api/users/{_part(self._user(person))}/tricklists"
        return await self._ask("POST", path, Tricklist, body=new, key=key)

    async def create_draft(self, person: str, new: NewDraft, key: str) -> SpotDraft:
        """See `CompanionData.create_draft`."""
        body = NewDraftJson(**asdict(new), submitted_by=self._user(person))
        return await self._ask("POST", "/api/spots/draft", SpotDraft, body=body, key=f"{person} {key}")

    async def draft(self, draft_id: str) -> SpotDraft | None:
        """See `CompanionData.draft`."""
        return await self._find("/api/spots/drafts", draft_id, SpotDraft)

    async def drafts(
        self, status: Status | None = "pending_approval", limit: int = 50, after: str = ""
    ) -> tuple[SpotDraft, ...]:
        """See `CompanionData.drafts`."""
        check_limit(limit, MOST_DRAFTS)
        query = {"status": status or "all", "limit": limit, "after": after}
        found = await self._get("/api/spots/drafts", DraftsJson, query)
        return tuple(found.drafts[:limit])

    async def approve(self, draft_id: str, by: str) -> SpotDraft:
        """See `CompanionData.approve`."""
        return await self._decide(draft_id, "approve", DecisionJson(self._user(by)))

    async def reject(self, draft_id: str, by: str, why: str = "") -> SpotDraft:
        """See `CompanionData.reject`."""
        decision = DecisionJson(self._user(by), checked_reason(why))
        return await self._decide(draft_id, "reject", decision)

    async def _decide(self, draft_id: str, verb: str, decision: DecisionJson) -> SpotDraft:
        path = f"/api/spots/drafts/{_part(draft_id)}/{verb}"
        return await self._ask("PUT", path, SpotDraft, body=decision, key=path)

    def _user(self, person: str) -> str:
        """Return a person as the app knows them: by its own id where it named them, else by ours.

        An id of its own that reads as one of ours stays whole: a user who is called `discord:7` is not who
        talks on Discord.
        """
        own = next((begins for begins in self._own if person.startswith(begins)), "")
        user = person.removeprefix(own)
        return user if user and not user.startswith(_OURS) else person

    async def _find(self, path: str, thing_id: str, kind: type[T]) -> T | None:
        try:
            return await self._get(f"{path}/{_part(thing_id)}", kind, {})
        except NotFound:
            return None

    async def _get(self, path: str, kind: type[T], query: Mapping[str, Any]) -> T:
        # Half a surrogate pair is no text that can be sent.
        texts = {name: str(value).encode("utf-8", "replace").decode() for name, value in query.items()}
        given = {name: text for name, text in texts.items() if text}
        return await self._ask("GET", path, kind, query=given)

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Mapping[str, str] | None = None,
        body: msgspec.Struct | None = None,
        key: str = "",
    ) -> T:
        """Ask the app; what may have been done and was not answered is asked once more.

        Raises:
            CompanionError: it refused, or gave no answer that fits; `Uncertain` where it may have been done.
        """
        headers = {"Accept": "application/json", **self._headers}
        if key:
            headers["Idempotency-Key"] = quote(key)
        data = None if body is None else msgspec.json.encode(body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        url = URL(f"{self._url}{path}{f'?{urlencode(query)}' if query else ''}", encoded=True)
        tries = _TRIES if key or method == "GET" else 1
        status, told = await self._send(method, url, data, headers, tries=tries, writes=bool(key))
        if len(told) > _MOST_BYTES:
            raise _lost("The app answers more than can be read.", writes=bool(key))
        if status not in (200, 201):
            raise _refused(status, told, writes=bool(key))
        try:
            return msgspec.json.decode(told, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _lost("The app answers something that is not understood.", writes=bool(key)) from None

    async def _send(
        self,
        method: str,
        url: URL,
        data: bytes | None,
        headers: Mapping[str, str],
        *,
        tries: int,
        writes: bool,
    ) -> tuple[int, bytes]:
        """Send a request, up to `tries` times; return the status and the body of the answer.

        Raises:
            CompanionError: no answer came; `Uncertain` where one of the requests may have arrived.
        """
        if self._session is None:
            self._session = ClientSession()
        arrived = False
        while True:
            tries -= 1
            asking = self._session.request(method, url, data=data, headers=headers, allow_redirects=False)
            try:
                async with asyncio.timeout(self._seconds), asking as answer:
                    return answer.status, await _read(answer)
            except (TimeoutError, ClientError, OSError) as error:
                arrived = arrived or not isinstance(error, ClientConnectorError)
                if tries:
                    continue
                reason = "The app cannot be reached."
                if isinstance(error, TimeoutError):
                    reason = f"The app took longer than {self._seconds:g} seconds."
                raise _lost(reason, writes=writes and arrived) from error


async def _read(answer: ClientResponse) -> bytes:
    """Return an answer's body; of one that is too long, the first bytes that are too many."""
    told = bytearray()
    async for piece in answer.content.iter_chunked(65_536):
        told += piece
        if len(told) > _MOST_BYTES:
            break
    return bytes(told)


def _lost(reason: str, *, writes: bool) -> CompanionError:
    """Return the error of no answer; of something that was to be written nobody knows whether it was."""
    return Uncertain(f"{reason} {_UNKNOWN}") if writes else Unavailable(f"{reason} {_AGAIN}")


def _refused(status: int, told: bytes, *, writes: bool) -> CompanionError:
    """Return what an app said with a status; of its body only the words of a problem."""
    try:
        detail = one_line(msgspec.json.decode(told, type=RefusalJson).detail)[:_LONGEST_DETAIL]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        detail = ""
    match status:
        case 404:
            return NotFound(detail or "There is nothing of that id.")
        case 409:
            return AlreadyDecided(detail or "It was decided otherwise before.")
        case 400 | 422:
            return CompanionError(detail or "The app does not take it.")
        case 401 | 403:
            return Unavailable(f"The app does not let the companion in; its operator has to look. {_AGAIN}")
        case 429:
            return Unavailable(f"The app was asked too often. {_AGAIN}")
    # 503 says that it took nothing up; of other trouble a write may have been done before.
    return _lost(
        f"The app has trouble of its own (status {status}).",
        writes=writes and status >= 500 and status != 503,
    )


def _part(text: str) -> str:
    """Return an id as one part of a path.

    Raises:
        NotFound: it can be none: it would lead elsewhere.
    """
    if not 1 <= len(text) <= 200 or not text.isprintable() or not text.strip("."):
        raise NotFound("There is nothing of that id.")
    return quote(text, safe="")
