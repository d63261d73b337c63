"""The API described for programs: an OpenAPI 3.1 document, made from the table of routes.

Routing and this document read one table, so the document cannot name a path that is not served, nor leave
one out. Bodies are the msgspec Structs that requests are decoded by; events are described by `EVENTS`.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from pixi.channels.http.routes import Route

EVENT_STREAM = "text/event-stream"
_STREAM = {
    "type": "string",
    "description": "Server-sent events: each `data:` line holds one Event, its `id:` is TURN.SEQ.",
    "contentMediaType": EVENT_STREAM,
    "contentSchema": {"$ref": "#/components/schemas/Event"},
}
_CHUNKS = {
    "type": "string",
    "description": "Server-sent events: each `data:` line holds a chat.completion.chunk; [DONE] ends them.",
    "contentMediaType": EVENT_STREAM,
}
_PARAMETER = re.compile(r"\{(\w+)(?::[^}]*)?\}")

_CardField: Any = msgspec.defstruct("CardField", [("name", str), ("value", str)])
_CardFallback: Any = msgspec.defstruct(
    "CardFallback",
    [("title", str), ("text", str), ("fields", list[_CardField]), ("picture", str | None), ("link", str)],
)
_TokenUsage: Any = msgspec.defstruct(
    "TokenUsage",
    [("prompt_tokens", int), ("cached_tokens", int), ("completion_tokens", int), ("searches", int, 0)],
)
_PICTURES: Mapping[str, Any] = {"pictures?": dict[str, str]}
_Source: Any = msgspec.defstruct("Source", [("title", str), ("url", str)])

EVENTS: Mapping[str, Mapping[str, Any]] = {
    "turn_start": {"conversation": str, "persona": str, "answers": list[str]},
    "reading": {"done": int, "total": int, "seconds": float | None},
    "progress": {"text": str},
    "started": {"id": str, "name": str},
    "text": {"id": str, "name": str, "text": str},
    "send": {"id": str, "text": str},
    "note": {"id": str, "text": str},
    "react": {"id": str, "emoji": str, "message": str},
    "command": {"id": str, "name": str, "argument": str},
    "card": {
        "id": str,
        "type": str,
        "version": int,
        "data": dict[str, Any] | list[Any],
        "fallback": _CardFallback,
        **_PICTURES,
    },
    "said": {"id": str, "text": str, "at": float, "attachments": list[str]},
    "changed": {"ended?": int},
    "picture": {"id": str, "text": str, "link": str, "service": str, "address?": str, **_PICTURES},
    "tool_call": {"id": str, "name": str, "arguments": dict[str, Any]},
    "tool_result": {"id": str, "name": str, "ok": bool, "result": str},
    "approval": {"id": str, "tool": str, "does": str, "arguments": str, "expires": float},
    "approved": {"id": str, "verdict": Literal["yes", "no", "nobody"]},
    "sources": {"sources": list[_Source]},
    "error": {"text": str},
    "turn_end": {
        "finish": Literal["stop", "length", "cancelled", "error", "limit"],
        "steps": int,
        "usage": _TokenUsage,
    },
}
"""The fields of each event, by its name; those with `?` may be missing. `turn` and `seq` are in every one."""


def _event_type(name: str, fields: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Return the type of an event: `turn_end` is a `TurnEndEvent`."""
    title = "".join(word.title() for word in name.split("_")) + "Event"
    known: list[Any] = [("turn", int), ("seq", int)]
    for field, kind in fields.items():
        if field.endswith("?"):
            known.append((field[:-1], kind | msgspec.UnsetType, msgspec.UNSET))
        else:
            known.append((field, kind))
    return msgspec.defstruct(title, known, tag_field="event", tag=name, kw_only=True)


EVENT_TYPES: Mapping[str, type[msgspec.Struct]] = {
    name: _event_type(name, fields) for name, fields in EVENTS.items()
}


class FieldError(msgspec.Struct):
    """A field that is wrong, by its JSON pointer."""

    pointer: str
    detail: str


class ProblemBody(msgspec.Struct):
    """An error below `/api`, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    errors: list[FieldError] = []


_OpenAIError: Any = msgspec.defstruct(
    "OpenAIError",
    [("message", str), ("type", str), ("param", str | None, None), ("code", str | int | None, None)],
)
OpenAIErrorBody = msgspec.defstruct("OpenAIErrorBody", [("error", _OpenAIError)])
"""An error below `/v1`, as OpenAI's clients read it."""

_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of `pixi-persona keys add`. On the server's own machine people may talk without.",
}


def document(routes: Iterable["Route"], version: str) -> dict[str, Any]:
    """Describe the routes as OpenAPI 3.1. `version` is that of Pixi."""
    routes = tuple(routes)
    bodies = {
        body
        for route in routes
        for body in (*route.request, route.response, route.accepted, route.query)
        if body is not None and body is not bytes
    }
    named = (*bodies, *EVENT_TYPES.values(), ProblemBody, OpenAIErrorBody)
    found, schemas = msgspec.json.schema_components(named, ref_template="#/components/schemas/{name}")
    described = dict(zip(named, found, strict=True))
    schemas["Event"] = _any_event(described)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        # Two types of one name have longer names there.
        name = described[route.query]["$ref"].rpartition("/")[2] if route.query else ""
        query = schemas[name]["properties"] if name else {}
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, described, query)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pixi",
            "version": version,
            "description": "Talk to a persona, as JSON or as a stream of events.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": _KEY}},
    }


def _any_event(described: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    """Describe one event of whatever kind; its field `event` says which."""
    references = {name: described[event] for name, event in EVENT_TYPES.items()}
    return {
        "description": "One event of a turn. Others and further fields may come: a client ignores them.",
        "anyOf": list(references.values()),
        "discriminator": {
            "propertyName": "event",
            "mapping": {name: reference["$ref"] for name, reference in references.items()},
        },
    }


def _operation(
    route: "Route", described: Mapping[Any, dict[str, Any]], query: Mapping[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "responses": _responses(route, described),
        "security": _security(route),
    }
    part = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 128}}
    parameters: list[dict[str, Any]] = [{"name": name, **part} for name in _PARAMETER.findall(route.path)]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]
    if parameters:
        operation["parameters"] = parameters
    if route.request == (bytes,):
        file = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}}
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": file}}}
    elif route.request:
        kinds = [described[kind] for kind in route.request]
        schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _security(route: "Route") -> list[dict[str, list[str]]]:
    """Return the ways in which a caller may be let in; none: everybody is."""
    if not route.scope:
        return []
    with_key = {"key": [route.scope]}
    # On the server's own machine a key is only needed for what `chat` does not cover.
    return [with_key, {}] if route.scope == "chat" or route.local else [with_key]


def _operation_id(route: "Route") -> str:
    """Name the operation for generated clients: `post_api_chat_id_stop`."""
    words = re.findall(r"\w+", _PARAMETER.sub(r"\1", route.path))
    return "_".join((route.method.lower(), *words))


def _responses(route: "Route", described: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    """Describe the answer and the errors of a route, by status."""
    content: dict[str, Any] = {}
    openai = route.path.startswith(("/v1/", "/chat/", "/models"))
    if route.response is bytes:
        content["*/*"] = {}
    elif route.response is not None:
        content["application/json"] = {"schema": described[route.response]}
    if route.streams:
        content[EVENT_STREAM] = {"schema": _CHUNKS if openai else _STREAM}
    answer: dict[str, Any] = {"description": "It is done."}
    if content:
        answer["content"] = content
    responses = {"200": answer}
    if route.accepted is not None:
        responses["202"] = {
            "description": "It is on record, and is done beside: `Prefer: respond-async` asked for that.",
            "content": {"application/json": {"schema": described[route.accepted]}},
        }
    if route.empty:
        responses["204"] = {"description": "There is nothing."}
    media, body = (
        ("application/json", OpenAIErrorBody) if openai else ("application/problem+json", ProblemBody)
    )
    problem: dict[str, Any] = {media: {"schema": described[body]}}
    if route.plain:
        problem["text/plain"] = {"schema": {"type": "string"}}
    for status in route.errors:
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    return responses
