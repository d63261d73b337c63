"""Events of the Responses API into deltas: the same however they are cut."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.language import Thought
from pixi.core.llm import Cited, Delta, Finished, Text, ToolCall
from pixi.models.dialects.responses import ResponseReader, Sealed
from pixi.models.reply import SSEDecoder
from tests.models.doors import SERVER
from tests.servers.scripted_openai import Json
from tests.servers.scripted_responses import (
    call,
    completed,
    created,
    incomplete,
    message,
    named,
    searched,
    thought,
)

STREAMS = {
    "text": [*created(), *message("[SEND: 🥞 ", "for ", "all]"), completed()],
    "everything": [
        *created(),
        *thought("well, ", "pancakes", sealed="gAAA"),
        *searched("pancakes", index=1),
        *message("[SEND: é]", cited=[("https://a.example", "A"), ("https://a.example", "A")], index=2),
        *call("look", '{"at": "', '🥞"}', index=3),
        *call("look", "{}", call_id="c2", item="fc_2", index=4),
        completed(),
    ],
    "cut": [*created(), *message("[SEND: half"), incomplete()],
}


def deltas_of(pieces: list[bytes]) -> tuple[str, str, list[Delta]]:
    """Text, reasoning and all else of a stream that comes in these pieces."""
    decoder, reader = SSEDecoder(), ResponseReader(SERVER, Sealed())
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += reader.feed(decoder.feed(piece))
    deltas += reader.feed(decoder.close())
    deltas += reader.close()
    text = "".join(delta.text for delta in deltas if isinstance(delta, Text))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, Thought))
    return text, reasoning, [delta for delta in deltas if not isinstance(delta, Text | Thought)]


def written(events: list[Json]) -> bytes:
    return b"".join(map(named, events))


@pytest.mark.parametrize("name", STREAMS)
def test_cutting_changes_nothing(name: str) -> None:
    whole = written(STREAMS[name])
    expected = deltas_of([whole])
    assert isinstance(expected[2][-1], Finished)
    assert deltas_of([whole[at : at + 1] for at in range(len(whole))]) == expected
    chance = random.Random(name)
    for _ in range(50):
        cuts = sorted(chance.sample(range(1, len(whole)), 12))
        edges = zip([0, *cuts], [*cuts, len(whole)], strict=True)
        assert deltas_of([whole[start:end] for start, end in edges]) == expected


def test_all_that_stands_in_a_stream() -> None:
    text, reasoning, others = deltas_of([written(STREAMS["everything"])])
    assert (text, reasoning) == ("[SEND: é]", "well, pancakes")
    assert others[:-1] == [
        Cited("https://a.example", "A"),
        ToolCall("call_1", "look", '{"at": "🥞"}'),
        ToolCall("c2", "look", "{}"),
    ]


@given(st.data())
def test_events_that_are_lost_twisted_or_unknown_break_nothing(data: st.DataObject) -> None:
    events = list(STREAMS["everything"])
    odd = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=4,
    )
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(events) - 1))
        key = data.draw(st.sampled_from(sorted(events[at])))
        events[at] = {**events[at], key: data.draw(odd)}
    kept = [each for each in events if data.draw(st.integers(0, 9))]
    raw = [b"data: " + json.dumps(each).encode() + b"\n\n" for each in kept]
    _, _, others = deltas_of(raw)
    assert isinstance(others[-1], Finished)


def test_a_surrogate_pair_in_two_events_is_one_sign() -> None:
    halves = [{"type": "response.output_text.delta", "delta": half} for half in ("\ud83e", "\udd5e")]
    raw = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in halves)
    assert deltas_of([raw])[0] == "🥞"


def test_citations_without_end_are_left_out() -> None:
    many = [(f"https://a.example/{number}", "") for number in range(500)]
    others = deltas_of([written(message("hi", cited=many))])[2]
    assert sum(isinstance(delta, Cited) for delta in others) == 100
