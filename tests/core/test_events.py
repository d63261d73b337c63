"""The one JSON form of what is shown of a turn."""

import json

import pytest

from pixi.core.events import (
    Answered,
    Asked,
    Failed,
    Grew,
    Noted,
    Numbering,
    Opened,
    Performed,
    Pictured,
    Reacted,
    Sent,
    Shown,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    act_id,
    to_json,
)
from pixi.core.llm import Cited, Usage
from pixi.core.message import Card, Field, Image, Picture

CARD = Card(
    "Pancakes",
    "flat",
    (Field("eggs", "2"),),
    "https://example.org/a.png",
    "https://example.org",
    type="recipe_card",
    version=2,
    data={"minutes": 20},
)


@pytest.mark.parametrize(
    ("event", "form"),
    [
        (
            TurnStarted(7, "terminal:pixi:mo", "Pixi", ("a", "b")),
            {
                "event": "turn_start",
                "conversation": "terminal:pixi:mo",
                "persona": "Pixi",
                "answers": ["a", "b"],
            },
        ),
        (Opened("send", "message", "7.0"), {"event": "started", "id": "7.0", "name": "send"}),
        (Grew("send", "h", "7.0"), {"event": "text", "id": "7.0", "name": "send", "text": "h"}),
        (Noted("hm", "7.1"), {"event": "note", "id": "7.1", "text": "hm"}),
        (Sent("hi", "7.0"), {"event": "send", "id": "7.0", "text": "hi"}),
        (Reacted("🥞", "7.2", "a"), {"event": "react", "id": "7.2", "emoji": "🥞", "message": "a"}),
        (
            Performed("wave", "at Mo", "7.3"),
            {"event": "command", "id": "7.3", "name": "wave", "argument": "at Mo"},
        ),
        (
            Asked("7-3-x", "book", "Books a table.", "day: 1", 12.5),
            {
                "event": "approval",
                "id": "7-3-x",
                "tool": "book",
                "does": "Books a table.",
                "arguments": "day: 1",
                "expires": 12.5,
            },
        ),
        (Answered("7-3-x", "no"), {"event": "approved", "id": "7-3-x", "verdict": "no"}),
        (
            Sourced((Cited("https://x.example/", "All"), Cited("https://y.example/"))),
            {
                "event": "sources",
                "sources": [
                    {"title": "All", "url": "https://x.example/"},
                    {"title": "", "url": "https://y.example/"},
                ],
            },
        ),
        (
            ToolCalled("c", "weather", {"in": "Porto"}),
            {"event": "tool_call", "id": "c", "name": "weather", "arguments": {"in": "Porto"}},
        ),
        (
            ToolAnswered("c", "weather", True, "sun"),
            {"event": "tool_result", "id": "c", "name": "weather", "ok": True, "result": "sun"},
        ),
        (Failed("It broke."), {"event": "error", "text": "It broke."}),
        (
            TurnEnded("stop", 2, Usage(9, 8, 7)),
            {
                "event": "turn_end",
                "finish": "stop",
                "steps": 2,
                "usage": {"prompt_tokens": 9, "cached_tokens": 8, "completion_tokens": 7},
            },
        ),
        (
            TurnEnded("stop", 1, Usage(9, 8, 7, searches=2)),
            {
                "event": "turn_end",
                "finish": "stop",
                "steps": 1,
                "usage": {"prompt_tokens": 9, "cached_tokens": 8, "completion_tokens": 7, "searches": 2},
            },
        ),
        (
            Shown(CARD, "7.t4"),
            {
                "event": "card",
                "id": "7.t4",
                "type": "recipe_card",
                "version": 2,
                "data": {"minutes": 20},
                "fallback": {
                    "title": "Pancakes",
                    "text": "flat",
                    "fields": [{"name": "eggs", "value": "2"}],
                    "link": "https://example.org",
                    "picture": "https://example.org/a.png",
                },
            },
        ),
        (
            Pictured(Picture("a cat", "https://klipy.com/gifs/x", "KLIPY"), "7.5"),
            {
                "event": "picture",
                "id": "7.5",
                "text": "a cat",
                "link": "https://klipy.com/gifs/x",
                "service": "KLIPY",
            },
        ),
    ],
)
def test_each_event_has_its_form(event: TurnEvent, form: dict[str, object]) -> None:
    assert to_json(event) == form
    assert json.loads(json.dumps(to_json(event))) == form


def test_a_picture_itself_is_not_told() -> None:
    assert to_json(Shown(Card("Cat", picture=Image("image/png", b"cat"))))["fallback"]["picture"] is None


def test_events_are_counted_in_each_turn() -> None:
    numbering = Numbering()
    shown: list[TurnEvent] = [
        Failed("before"),
        TurnStarted(7, "a:b", "Pixi", ("m",)),
        Sent("hi", "7.0"),
        TurnStarted(8, "a:b", "Pixi", ("m", "n")),  # begun anew
        TurnEnded("stop", 1),
        Failed("between"),
        TurnStarted(9, "a:b", "Pixi", ("o",)),
        TurnEnded("stop", 1),
    ]
    forms = [numbering.form(event) for event in shown]
    assert [(form["turn"], form["seq"]) for form in forms] == [
        (0, 0),
        (7, 0),
        (7, 1),
        (8, 0),
        (8, 1),
        (0, 1),
        (9, 0),
        (9, 1),
    ]
    assert [list(form)[:3] for form in forms] == [["event", "turn", "seq"]] * len(forms)


def test_ids_of_what_stands_in_the_chat() -> None:
    assert act_id(7, 3, 0) == "7.0"
    assert act_id(7, 4, 0, first=False) == "7.0.4"
    assert act_id(7, 5) == "7.t5"
