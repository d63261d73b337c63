"""The description of the API: a valid OpenAPI 3.1 document that holds each route and each event."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest

from pixi.channels.http.openapi import EVENT_TYPES, document
from pixi.core.events import (
    Answered,
    Asked,
    Failed,
    Grew,
    Noted,
    Numbering,
    Opened,
    Performed,
    PersonSaid,
    Pictured,
    Progressed,
    Reacted,
    Sent,
    Shown,
    Sourced,
    TalkChanged,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from pixi.core.llm import Cited, PromptProgress, Usage
from pixi.core.message import Card, Field, Picture
from tests.channels.http.served import served


class Question(msgspec.Struct, forbid_unknown_fields=True):
    message: str


class Page(msgspec.Struct):
    limit: Annotated[int, msgspec.Meta(ge=1)] = 50


class Reply(msgspec.Struct):
    text: str


@dataclass(frozen=True)
class Served:
    """A line of a table of routes."""

    method: str
    path: str
    request: tuple[type[msgspec.Struct], ...] = ()
    response: type[msgspec.Struct] | None = None
    errors: tuple[int, ...] = ()
    scope: str = ""
    summary: str = "It is done."
    streams: bool = False
    query: type[msgspec.Struct] | None = None
    empty: bool = False
    accepted: type[msgspec.Struct] | None = None
    plain: bool = False
    local: bool = False


ROUTES = (
    Served("GET", "/healthz"),
    Served("POST", "/api/chat", (Question,), Reply, (400, 401, 422), "chat", streams=True),
    Served(
        "GET",
        r"/api/chat/{id:[^/]+}/stream",
        errors=(404,),
        scope="chat",
        streams=True,
        query=Page,
        empty=True,
    ),
    Served("POST", "/api/chat/{id}/approvals/{aid}", (Question,), None, (404,), "approve"),
)

PAGE_FILES = "/page/{version}/{path}"
CARD = Card("Pancakes", "flat", (Field("eggs", "2"),), None, "https://example.org")
EVENTS: tuple[TurnEvent, ...] = (
    TurnStarted(7, "http:0:pixi", "Pixi", ("a",)),
    PromptProgress(1, 2, None),
    PromptProgress(1, 2, 3.5),
    Opened("send", "message", "7.0"),
    Grew("send", "h", "7.0"),
    Sent("hi", "7.0"),
    Noted("hm", "7.1"),
    Reacted("🥞", "7.2", "a"),
    Shown(CARD, "7.3"),
    Pictured(Picture("a cat", "https://example.org/cat.gif"), "7.4"),
    Pictured(Picture("a cat", "https://example.org/cat", address="https://example.org/cat.gif"), "7.4"),
    Performed("wave", "at Mo", "7.5"),
    ToolCalled("c", "weather", {"in": "Porto"}),
    Progressed("looking"),
    ToolAnswered("c", "weather", True, "sun"),
    Asked("7-3-x", "book", "Books a table.", "day: 1", 12.5),
    Answered("7-3-x", "nobody"),
    Sourced((Cited("https://x.example/", "All"),)),
    Failed("it broke"),
    PersonSaid("m1", "hi", 12.5, ("cat.png",)),
    TalkChanged(),
    TurnEnded("stop", 1, Usage(5, 4, 3)),
    TurnEnded("stop", 1, Usage(5, 4, 3, searches=2)),
)


def described() -> dict[str, Any]:
    return document(ROUTES, "1.2.3")  # type: ignore[arg-type]


def references(node: object) -> Iterator[str]:
    """All references below a node."""
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from references(each)


def complaint_of(told: dict[str, Any], folder: Path) -> str:
    """What the validator says, in a process of its own: it takes much memory."""
    (folder / "openapi.json").write_bytes(msgspec.json.encode(told))
    words = (sys.executable, "-m", "openapi_spec_validator", "openapi.json")
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr


async def test_what_is_served_is_described_in_a_valid_form(tmp_path: Path) -> None:
    async with served() as here:
        _, told = await here.get("/openapi.json")
        registered = {
            (route.method, route.resource.canonical)
            for route in here.server._app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    assert complaint_of(told, tmp_path) == ""
    described = {(method.upper(), path) for path, item in told["paths"].items() for method in item}
    assert described <= registered
    assert registered - described == {
        ("GET", page) for page in ("/", "/studio{path}", "/embed/{persona}", "/widget.js", PAGE_FILES)
    }
    assert told["paths"]["/api/chat"]["post"]["responses"]["202"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/SaidAnswer"}}
    }
    for path in ("/v1/chat/completions", "/chat/completions"):
        answers = told["paths"][path]["post"]["responses"]
        assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
        assert answers["400"]["content"] == {
            "application/json": {"schema": {"$ref": "#/components/schemas/OpenAIErrorBody"}}
        }


def test_it_is_valid_and_json(tmp_path: Path) -> None:
    told = msgspec.json.decode(msgspec.json.encode(described()))
    assert complaint_of(told, tmp_path) == ""
    assert told["info"]["version"] == "1.2.3"


def test_every_reference_leads_somewhere() -> None:
    told = described()
    known = {f"#/components/schemas/{name}" for name in told["components"]["schemas"]}
    assert set(references(told)) <= known


def test_what_a_route_takes_and_gives() -> None:
    chat = described()["paths"]["/api/chat"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Question"
    }
    assert set(chat["responses"]) == {"200", "400", "401", "422"}
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert set(chat["responses"]["401"]["content"]) == {"application/problem+json"}


def test_scopes_are_told() -> None:
    paths = described()["paths"]
    assert paths["/healthz"]["get"]["security"] == []
    assert paths["/api/chat"]["post"]["security"] == [{"key": ["chat"]}, {}]
    assert {"key": ["approve"]} in paths["/api/chat/{id}/approvals/{aid}"]["post"]["security"]


def test_what_stands_in_a_path_is_described() -> None:
    operation = described()["paths"]["/api/chat/{id}/approvals/{aid}"]["post"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["id", "aid"]


def test_what_stands_behind_a_path_is_described_and_that_there_may_be_nothing() -> None:
    stream = described()["paths"]["/api/chat/{id}/stream"]["get"]
    assert stream["parameters"][1:] == [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 50}}
    ]
    assert stream["responses"]["204"] == {"description": "There is nothing."}


def test_the_examples_hold_every_kind_of_event() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(TurnEvent))
    numbering = Numbering()
    assert {numbering.form(event)["event"] for event in EVENTS} == set(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_as_they_are_described(event: TurnEvent) -> None:
    form = Numbering().form(event)
    kind = EVENT_TYPES[form["event"]]
    needed = {field.name for field in msgspec.structs.fields(kind) if field.required}
    assert needed <= form.keys() - {"event"} <= set(kind.__struct_fields__)
    msgspec.convert(form, kind, strict=True)
