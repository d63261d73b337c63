"""The one JSON form of what is shown of a turn."""

import json

import pytest

from pixi.core.card import Card, Field
from pixi.core.deltas import Cited, Usage
from pixi.core.events import (
    Failed,
    Grew,
    Noted,
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
    to_json,
)
from pixi.core.message import Image
from pixi.core.picture import Picture

CARD = Card("Pancakes", "flat", (Field("eggs", "2"),), "https://example.org/a.png", "https://example.org")


@pytest.mark.parametrize(
    ("event", "form"),
    [
        (Opened("send"), {"event": "started", "name": "send"}),
        (Grew("send", "h"), {"event": "text", "name": "send", "text": "h"}),
        (Noted("hm"), {"event": "note", "text": "hm"}),
        (Sent("hi"), {"event": "send", "text": "hi"}),
        (Reacted("🥞"), {"event": "react", "emoji": "🥞"}),
        (Performed("wave", "at Mo"), {"event": "command", "name": "wave", "argument": "at Mo"}),
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
            Shown(CARD),
            {
                "event": "card",
                "title": "Pancakes",
                "text": "flat",
                "fields": [{"name": "eggs", "value": "2"}],
                "link": "https://example.org",
                "picture": "https://example.org/a.png",
            },
        ),
        (
            Pictured(Picture("a cat", "https://klipy.com/gifs/x", "KLIPY")),
            {"event": "picture", "text": "a cat", "link": "https://klipy.com/gifs/x", "service": "KLIPY"},
        ),
    ],
)
def test_each_event_has_its_form(event: TurnEvent, form: dict[str, object]) -> None:
    assert to_json(event) == form
    assert json.loads(json.dumps(to_json(event))) == form


def test_a_picture_itself_is_not_told() -> None:
    assert to_json(Shown(Card("Cat", picture=Image("image/png", b"cat"))))["picture"] is None
