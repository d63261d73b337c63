"""The table of routes: what is served is what stands here, and so is what is described."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec.structs import replace

from pixi.channels.http import bodies
from pixi.channels.http.access import LOCAL, Problem
from pixi.channels.http.api import Api
from pixi.channels.http.faces.ag_ui import RunInput
from pixi.channels.http.faces.ai_sdk import UiRequest
from pixi.channels.http.history import TalkHistory
from pixi.channels.http.requests import (
    check_parameters,
    decode_body,
    idempotency_key,
    json_answer,
    read_body,
    read_query,
)
from pixi.channels.http.streams import PlainStream, kept_alive, write_stream
from pixi.core.errors import ConfigError, OverQuota, StoreError
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.store.kept import AuditOutcome, Deed, Quota
from pixi.store.store import Store


class Route(msgspec.Struct, frozen=True):
    """One way in.

    Attributes:
        method: of HTTP.
        path: with `{name}` where a part is free.
        handler: answers.
        summary: what it does, in a line.
        scope: that the caller needs; "": everybody may; `visitors`: a publishable key is needed.
        request: the types that the body may have; (): there is none; `bytes`: a file, in a form.
        response: the type of the JSON answer; None: there is none, or it has no type of ours; `bytes`: a
            file.
        streams: it answers with events, too.
        errors: statuses of the problems that it may answer.
        query: the type of what may stand behind `?`; None: nothing.
        empty: it may answer with 204, that there is nothing.
        accepted: the type of the answer 202 to a client that does not wait; None: there is none.
        plain: it may tell problems as plain text, for pages that show them to people.
        local: callers on the server's own machine need no key; so it is wherever the scope is `chat`.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    scope: str = ""
    request: tuple[type[Any], ...] = ()
    response: type[Any] | None = None
    streams: bool = False
    errors: tuple[int, ...] = ()
    query: type[Any] | None = None
    empty: bool = False
    accepted: type[Any] | None = None
    plain: bool = False
    local: bool = False

    @classmethod
    def at(
        cls,
        line: str,
        handler: Handler,
        summary: str,
        scope: str = "",
        *,
        also: tuple[int, ...] = (),
        **parts: Any,
    ) -> "Route":
        """Make a route of its method and path, with the errors that its parts bring, and `also` those."""
        method, path = line.split(" ")
        errors = (
            *(_NOT_IN if scope else ()),
            *((400,) if path.startswith(BELOW) else ()),  # a parameter that there is not
            *((404,) if "{" in path else ()),
            *(_BODY if "request" in parts else ()),
            *also,
        )
        return cls(method, path, handler, summary, scope, errors=errors, **parts)


BELOW = "/api/"
"""The begin of the paths whose parameters are checked. Others take any: programs add their own."""

_WITHOUT_BODY = ("GET", "DELETE")
_SESSION = "/api/studio/session"
_NOT_IN = (401, 403, 429)
_BODY = (400, 408, 413, 415, 422)


def routes_of(api: Api, history: TalkHistory) -> tuple[Route, ...]:
    """Return the table of what is below `/api`, and of the server itself."""
    table = (*_of_talks(api, history), *_of_people(api, history), *_of_the_server(api))
    return tuple(
        replace(each, handler=partial(_checked, each)) if each.path.startswith(BELOW) else each
        for each in table
    )


async def _checked(route: Route, request: web.Request) -> web.StreamResponse:
    """Answer a request, once its parameters are known."""
    check_parameters(request, route.query)
    return await route.handler(request)


# fmt: off


def _of_talks(api: Api, history: TalkHistory) -> Sequence[Route]:
    talk = "/api/chat/{id}"
    return (
        Route.at("POST /api/chat", api.chat, "Say something to a persona", "chat", query=bodies.ChatQuery,
                 request=(bodies.ChatRequest, UiRequest), response=bodies.ChatAnswer,
                 accepted=bodies.SaidAnswer, streams=True, plain=True, also=(404, 409)),
        Route.at("GET /api/talks", history.talks, "List one's talks", "chat", query=bodies.OwnTalksQuery,
                 response=bodies.OwnTalksAnswer),
        Route.at(f"GET {talk}/stream", history.stream, "Follow a turn, or a whole talk", "chat",
                 query=bodies.StreamQuery, streams=True, empty=True),
        Route.at(f"POST {talk}/stop", api.stop, "Stop a reply", "chat", query=bodies.TalkQuery,
                 request=(bodies.StopRequest,), response=bodies.StopAnswer),
        Route.at(f"POST {talk}/approvals/{{aid}}", api.approve,
                 "Answer a question whether a tool may do something", "approve", query=bodies.TalkQuery,
                 request=(bodies.ApprovalRequest,), response=bodies.Done),
        Route.at(f"GET {talk}/messages", history.messages, "Read what was said", "chat",
                 query=bodies.MessagesQuery, response=bodies.MessagesAnswer),
        Route.at(f"GET {talk}/branches", history.branches, "List what was set aside", "chat",
                 query=bodies.TalkQuery, response=bodies.BranchesAnswer),
        Route.at(f"POST {talk}/branch", history.branch, "Go back to what was set aside", "chat",
                 query=bodies.TalkQuery, request=(bodies.BranchRequest,), response=bodies.Done),
        Route.at(f"POST {talk}/undo", history.undo, "Take the last words and their answer out", "chat",
                 query=bodies.TalkQuery, response=bodies.UndoAnswer),
        Route.at(f"POST {talk}/reset", history.reset, "Forget what was said", "chat",
                 query=bodies.TalkQuery, response=bodies.Done),
        Route.at("POST /api/agui", api.run, "Say something to a persona, by AG-UI", "chat",
                 query=bodies.PersonaQuery, request=(RunInput,), streams=True, also=(404,)),
    )


def _of_people(api: Api, history: TalkHistory) -> Sequence[Route]:
    file = "/api/files/{id}"
    return (
        Route.at("GET /api/personas", api.personas, "List personas", "chat", response=bodies.PersonasAnswer),
        Route.at("GET /api/pictures/{name}", api.pictures.answer, "Get a picture that a talk showed",
                 response=bytes, also=(503,)),
        Route.at("GET /api/usage", history.usage, "See what was used of what is limited", "chat",
                 query=bodies.UserQuery, response=bodies.UsageAnswer),
        Route.at("GET /api/me/export", history.export, "Get all that is kept of oneself", "chat",
                 query=bodies.UserQuery),
        Route.at("POST /api/me/forget", history.forget, "Have oneself forgotten", "chat",
                 query=bodies.UserQuery, request=(bodies.ForgetMeRequest,), response=bodies.Done),
        Route.at("POST /api/files", api.take_file, "Send a file", "chat", query=bodies.UserQuery,
                 request=(bytes,), response=bodies.FileAnswer, also=(503,)),
        Route.at(f"GET {file}", api.give_file, "Get a file back", "chat", query=bodies.UserQuery,
                 response=bytes),
        Route.at(f"DELETE {file}", api.drop_file, "Delete a file", "chat", query=bodies.UserQuery,
                 response=bodies.Done),
        Route.at("POST /api/visitors", api.visitor, "Get a visitor's token, with a publishable key",
                 "visitors", request=(bodies.VisitorRequest,), response=bodies.VisitorAnswer),
    )


def _of_the_server(api: Api) -> Sequence[Route]:
    operators = api.operators
    return (
        Route.at(f"POST {_SESSION}", api.enter, "Begin a session of an operator in a browser",
                 request=(bodies.SessionRequest,), response=bodies.SessionAnswer, also=_NOT_IN),
        Route.at(f"GET {_SESSION}", operators.session, "See whose session it is", "operate",
                 response=bodies.SessionAnswer),
        Route.at(f"DELETE {_SESSION}", operators.leave, "End a session", "operate", response=bodies.Done),
        Route.at("GET /healthz", api.health, "See whether the server answers", response=bodies.Health),
        Route.at("GET /readyz", api.ready, "See whether personas can answer", response=bodies.Health,
                 also=(503,)),
        Route.at("GET /metrics", api.metrics, "Read the metrics, for Prometheus", "operate", response=bytes,
                 local=True),
        Route.at("GET /openapi.json", api.description, "Read this description"),
    )


# fmt: on


def routes_of_addons(api: Api, added: Iterable[AddonRoute], taken: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes that addons bring, for whoever has a key, or a token of the host application.

    Raises:
        ConfigError: the server, or another addon, has one of the same method and path.
    """
    known = {(route.method, _shape(route.path)) for route in taken}
    made: list[Route] = []
    for each in added:
        if (each.method, _shape(each.path)) in known:
            raise ConfigError(f"route {each.method} {each.path} of an addon is taken: it needs another path.")
        known.add((each.method, _shape(each.path)))
        takes = () if each.request is None else (each.request,)
        reads = each.method in _WITHOUT_BODY
        made.append(
            Route.at(
                f"{each.method} {each.path}",
                partial(_answer, api, each),
                each.summary,
                each.scope,
                also=(400, 404, 409, 422),
                response=each.response or bodies.Done,
                streams=each.streams,
                **({"query": each.request} if reads else {"request": takes}),
            )
        )
    return tuple(made)


async def _answer(api: Api, route: AddonRoute, request: web.Request) -> web.StreamResponse:
    """Read a request, let the addon answer it, and tell what it refuses."""
    # Operators are known before anything is read: nobody else learns even what a body should be.
    operator = await api.operators.authenticate(request) if route.scope == "operate" else None
    asked: Any = None
    check_parameters(request, route.request if route.method in _WITHOUT_BODY else None)
    if route.request is not None and route.method in _WITHOUT_BODY:
        asked = read_query(request, route.request)
    elif route.request is not None:
        asked = decode_body(await read_body(request), route.request)
    user = getattr(asked, "userId", None) or ""
    if operator is not None:
        principal = operator
        if user:
            raise Problem(403, "Not allowed", "Users for whom a key speaks do not operate: leave out userId.")
    else:
        principal = await api.authenticate_key(request, user, scope=route.scope)
    if route.scope != "chat" and not (principal.key or principal.id == LOCAL):
        # A user's own token has `approve` for what they themselves are asked, not for what is everybody's.
        raise Problem(
            403, "Not allowed", f"This needs a key with the scope {route.scope}; a token has it not."
        )
    caller = Caller(principal.id, principal.name, dict(request.match_info), idempotency_key(request))
    try:
        answer = (
            _on_record(api.backend.store, route, caller, asked)
            if route.writes
            else route.answer(caller, asked)
        )
        if isinstance(answer, AsyncGenerator):
            return await write_stream(request, PlainStream(), kept_alive(answer, api.closing))
        answered = await answer
    except RouteError as error:
        raise Problem(error.status, error.title, error.detail, type="about:blank") from error
    return json_answer(bodies.Done() if route.response is None else answered)


async def _on_record(store: Store, route: AddonRoute, caller: Caller, asked: Any) -> Any:
    """Let an addon answer that changes something, with an entry in the record begun before and ended after.

    Raises:
        Problem: 429, as much was changed for this person as may be; nothing was done.
    """
    writes = route.writes
    assert writes is not None
    given = msgspec.json.encode({"request": asked, "key": caller.key, **caller.path}).decode()
    quota = Quota(writes.times, writes.seconds, (writes.name, *writes.others), once=True)
    try:
        number = await store.audit_begin(Deed("", "", 0, "", caller.person, writes.name, given), quota=quota)
    except OverQuota as error:
        wait = math.ceil(error.wait)
        raise Problem(
            429,
            "Changed too often",
            f"At most {writes.times} changes within {writes.seconds:g} seconds are made for one person, and "
            f"this one was not. Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        ) from error
    clock = asyncio.get_running_loop()
    began = clock.time()
    outcome: AuditOutcome = "unknown"
    try:
        answering = route.answer(caller, asked)
        assert not isinstance(answering, AsyncGenerator)  # no stream is put on record
        answer = await answering
        outcome = "done"
        return answer
    except RouteError as error:
        if error.status < 500 or error.status == 503:
            outcome = "failed"
        raise
    finally:
        with suppress(StoreError):  # then it stands there as one of which nobody knows
            await store.audit_end(number, outcome, clock.time() - began)


def _shape(path: str) -> str:
    """Return a path with all free parts alike, by which two routes are told apart."""
    return re.sub(r"\{[^}]*\}", "{}", path)
