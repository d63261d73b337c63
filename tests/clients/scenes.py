"""Turns as the faces are given them: what each shows to its clients is kept in `streams/`."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    Progressed,
    Reacted,
    Sent,
    Shown,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from pixi.core.llm import Cited, PromptProgress, Usage
from pixi.core.message import Card, Field, Picture

_USAGE = Usage(900, 880, 21)
_SPOT = Card(
    "Venice <b>Skatepark</b>",
    "by the *beach*",
    (Field("rating", "4.6"),),
    "https://pictures.example/venice.png",
    "https://spots.example/venice",
    type="spot_card",
    data={"name": "Venice Skatepark", "rating": 4.6, "near": [{"name": "Stoner Park"}]},
)
_STRANGE = 'data: [DONE]\n\nevent: "x" \\ \u2028 \r\n </script> 👩‍🚀🥞 پیکسی'


def _written(act: str, text: str, pieces: Sequence[str]) -> list[TurnEvent]:
    return [Opened("send", "message", act), *(Grew("send", piece, act) for piece in pieces), Sent(text, act)]


def _called(call: str, *, ok: bool = True) -> list[TurnEvent]:
    result: object = {"booked": True} if ok else "no table is left"
    return [ToolCalled(call, "book", {"day": "monday"}), ToolAnswered(call, "book", ok, result)]


_ACTS: Mapping[str, tuple[TurnEvent, ...]] = {
    "talk": (
        PromptProgress(1, 2, None),
        Opened("note", "note", "7.0"),
        Grew("note", "they came", "7.0"),
        Noted("they came", "7.0"),
        Reacted("🥞", "7.1", "m1"),
        *_written("7.2", "hey you", [" hey", " ", "you"]),
        *_written("7.3", "coming?", ["coming?"]),
        TurnEnded("stop", 1, _USAGE),
    ),
    "things": (
        Sent("look", "7.0"),
        Shown(_SPOT, "7.t1"),
        Pictured(
            Picture(
                "a wave",
                "https://pictures.example/page",
                "Waves",
                address="https://pictures.example/wave.gif",
            ),
            "7.1",
        ),
        Performed("wave", "at Mo", "7.2"),
        Sourced((Cited("https://x.example/", "All of <it>"), Cited("https://y.example/", ""))),
        TurnEnded("stop", 1, _USAGE),
    ),
    "tools": (
        *_called("c1"),
        Progressed("asking elsewhere"),
        *_called("c2", ok=False),
        *_written("7.0", "half of it", ["half", " of it"]),
        TurnEnded("stop", 3, _USAGE),
    ),
    "question": (
        *_written("7.0", "one moment", ["one ", "moment"]),
        ToolCalled("c1", "book", {"day": "monday"}),
        Asked("7-1-ab", "book", "Books a table.", "day: monday", 4_000_000_000.0),
        Answered("7-1-ab", "yes"),
        ToolAnswered("c1", "book", True, "done"),
        Sent("it is booked", "7.1"),
        TurnEnded("stop", 2, _USAGE),
    ),
    "silence": (Noted("not my talk", "7.0"), TurnEnded("stop", 1, _USAGE)),
    "strange": (
        Reacted("👩‍🚀", "7.0", "m1"),
        *_written("7.1", _STRANGE, [_STRANGE[:9], _STRANGE[9:]]),
        Shown(Card(_STRANGE, _STRANGE, (Field(_STRANGE, _STRANGE),)), "7.t1"),
        TurnEnded("stop", 1, _USAGE),
    ),
    "cut": (
        Opened("send", "message", "7.0"),
        Grew("send", "and then he", "7.0"),
        Sent("and then he", "7.0"),
        TurnEnded("length", 1, _USAGE),
    ),
    "stopped": (
        Opened("send", "message", "7.0"),
        Grew("send", "and then", "7.0"),
        TurnEnded("cancelled", 1, _USAGE),
    ),
    "broken": (
        Opened("send", "message", "7.0"),
        Grew("send", "and", "7.0"),
        Failed("The model cannot be reached."),
        TurnEnded("error", 1, _USAGE),
    ),
}


def _forms(acts: Sequence[TurnEvent]) -> list[dict[str, Any]]:
    numbering = Numbering()
    return [numbering.form(event) for event in (TurnStarted(7, "kitchen", "pixi", ("m1",)), *acts)]


SCENES = {name: _forms(acts) for name, acts in _ACTS.items()}
"""The events of each turn, in their JSON form."""
