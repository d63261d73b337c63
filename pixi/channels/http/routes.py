"""The table of routes: what is served is what stands here, and so is what is described."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from pixi.channels.http.api import Api
from pixi.channels.http.bodies import (
    ApprovalRequest,
    ChatAnswer,
    ChatRequest,
    Done,
    FileAnswer,
    Health,
    MessagesAnswer,
    MessagesQuery,
    PersonaQuery,
    PersonasAnswer,
    ProtocolQuery,
    StopAnswer,
    StopRequest,
    StreamQuery,
    TalkQuery,
    UserQuery,
    VisitorAnswer,
    VisitorRequest,
)
from pixi.channels.http.faces.ag_ui import RunInput
from pixi.channels.http.faces.ai_sdk import UiRequest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
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
        plain: it may tell problems as plain text, for pages that show them to people.
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
    plain: bool = False


_NOT_IN = (401, 403, 429)


def routes_of(api: Api) -> tuple[Route, ...]:
    """Return the table of what is below `/api`, and of the server itself."""
    of_talk = (*_NOT_IN, 400, 404)
    body = (400, 408, 413, 415, 422)
    talk, file = "/api/chat/{id}", "/api/files/{id}"
    return (
        Route(
            "POST",
            "/api/chat",
            api.chat,
            "Say something to a persona",
            "chat",
            (ChatRequest, UiRequest),
            ChatAnswer,
            streams=True,
            errors=(*of_talk, *body, 409),
            query=ProtocolQuery,
            plain=True,
        ),
        Route(
            "GET",
            f"{talk}/stream",
            api.stream,
            "Follow a turn",
            "chat",
            streams=True,
            errors=of_talk,
            query=StreamQuery,
            empty=True,
        ),
        Route(
            "POST",
            f"{talk}/stop",
            api.stop,
            "Stop a reply",
            "chat",
            (StopRequest,),
            StopAnswer,
            errors=(*of_talk, *body),
            query=TalkQuery,
        ),
        Route(
            "POST",
            f"{talk}/approvals/{{aid}}",
            api.approve,
            "Answer a question whether a tool may do something",
            "approve",
            (ApprovalRequest,),
            Done,
            errors=(*of_talk, *body),
            query=TalkQuery,
        ),
        Route(
            "GET",
            f"{talk}/messages",
            api.messages,
            "Read what was said",
            "chat",
            response=MessagesAnswer,
            errors=of_talk,
            query=MessagesQuery,
        ),
        Route(
            "POST",
            f"{talk}/reset",
            api.reset,
            "Forget what was said",
            "chat",
            response=Done,
            errors=of_talk,
            query=TalkQuery,
        ),
        Route(
            "POST",
            "/api/agui",
            api.run,
            "Say something to a persona, by AG-UI",
            "chat",
            (RunInput,),
            streams=True,
            errors=(*of_talk, *body),
            query=PersonaQuery,
        ),
        Route(
            "GET",
            "/api/personas",
            api.personas,
            "List personas",
            "chat",
            response=PersonasAnswer,
            errors=_NOT_IN,
        ),
        Route(
            "POST",
            "/api/files",
            api.take_file,
            "Send a file",
            "chat",
            (bytes,),
            FileAnswer,
            errors=(*_NOT_IN, *body, 503),
            query=UserQuery,
        ),
        Route(
            "GET",
            file,
            api.give_file,
            "Get a file back",
            "chat",
            response=bytes,
            errors=of_talk,
            query=UserQuery,
        ),
        Route(
            "DELETE",
            file,
            api.drop_file,
            "Delete a file",
            "chat",
            response=Done,
            errors=of_talk,
            query=UserQuery,
        ),
        Route(
            "POST",
            "/api/visitors",
            api.visitor,
            "Get a visitor's token, with a publishable key",
            "visitors",
            (VisitorRequest,),
            VisitorAnswer,
            errors=(401, 403, 429, *body),
        ),
        Route("GET", "/healthz", api.health, "See whether the server answers", response=Health),
        Route("GET", "/readyz", api.health, "See whether personas can answer", response=Health),
        Route("GET", "/openapi.json", api.description, "Read this description"),
    )
