"""The description of the API: a valid OpenAPI 3.1 document that holds each route and each event."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pixi.channels.http.openapi import EVENT_TYPES
from pixi.companion.routes import description
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


def complaint_of(folder: Path, **documents: Any) -> str:
    """What the validator says, in a process of its own: it takes much memory."""
    for name, told in documents.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(told))
    words = (sys.executable, "-m", "openapi_spec_validator", *(f"{name}.json" for name in documents))
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
    assert complaint_of(tmp_path, own=told, of_a_host_app=description()) == ""
    described = {(method.upper(), path) for path, item in told["paths"].items() for method in item}
    assert described <= registered
    assert registered - described == {
        ("GET", page) for page in ("/", "/studio{path}", "/embed/{persona}", "/widget.js", PAGE_FILES)
    }
    chat, stream = told["paths"]["/api/chat"]["post"], told["paths"]["/api/chat/{id}/stream"]["get"]
    approve = told["paths"]["/api/chat/{id}/approvals/{aid}"]["post"]
    assert chat["responses"]["202"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/SaidAnswer"}}
    }
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert set(chat["responses"]["401"]["content"]) == {"application/problem+json", "text/plain"}
    assert [told["paths"]["/healthz"]["get"]["security"], chat["security"]] == [[], [{"key": ["chat"]}, {}]]
    assert approve["security"] == [{"key": ["approve"]}]
    assert [each["name"] for each in approve["parameters"]] == ["id", "aid", "userId", "persona"]
    after = {"name": "after", "in": "query", "schema": {"type": "string", "maxLength": 64, "default": ""}}
    assert after in stream["parameters"]
    assert stream["responses"]["204"] == {"description": "There is nothing."}
    for path in ("/v1/chat/completions", "/chat/completions"):
        answers = told["paths"][path]["post"]["responses"]
        assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
        assert answers["400"]["content"] == {
            "application/json": {"schema": {"$ref": "#/components/schemas/OpenAIErrorBody"}}
        }


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
