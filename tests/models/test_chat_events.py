"""Events into deltas."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.language import Thought
from pixi.core.llm import Delta, Finished, Text, ToolCall, Usage
from pixi.models.dialects.chat import ChatReader
from tests.models.doors import SERVER
from tests.servers.scripted_openai import Json, call, chunk, content, finish, usage


def payloads(*events: Json | bytes) -> list[bytes]:
    return [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]


def read(*events: Json | bytes) -> list[Delta]:
    """All deltas of a stream whose events came one by one."""
    reader = ChatReader(SERVER)
    deltas = [delta for payload in payloads(*events) for delta in reader.feed([payload])]
    return deltas + reader.close()


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def test_one_read_makes_one_delta_of_each_kind_in_order() -> None:
    reader = ChatReader(SERVER)
    events = payloads(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"reasoning_content": "m"}),
        content("[SEND: "),
        content("hi]"),
        chunk({"reasoning": "done"}),
        content("!"),
    )
    assert reader.feed(events) == [Thought("hmm"), Text("[SEND: hi]"), Thought("done"), Text("!")]
    assert reader.close() == [Finished("stop")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(field: str) -> None:
    assert read(chunk({field: "why"}), content("because"))[:2] == [Thought("why"), Text("because")]


def test_reasoning_that_is_sent_in_two_fields_is_thought_once() -> None:
    deltas = read(chunk({"reasoning_content": "why", "reasoning": "why"}))
    assert deltas[:-1] == [Thought("why")]


def test_content_as_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
        {"type": "text", "text": "because"},
    ]
    assert read(chunk({"content": parts}))[:-1] == [Thought("why"), Text("because")]


def test_calls_come_whole_and_before_the_end() -> None:
    deltas = read(
        call("look", "", index=0, call_id="a"),
        call(arguments='{"at":', index=0),
        call(arguments='"cat"}', index=0),
        finish("stop"),
    )
    assert deltas == [ToolCall("a", "look", '{"at":"cat"}'), Finished("stop")]


@pytest.mark.parametrize(
    ("reason", "finished"),
    [("stop", "stop"), ("length", "length"), ("tool_calls", "stop"), ("content_filter", "stop")],
)
def test_finish_reasons(reason: str, finished: str) -> None:
    (end,) = read(finish(reason))
    assert isinstance(end, Finished)
    assert end.reason == finished


def test_a_reason_stands_whatever_comes_after_it() -> None:
    (end,) = read(finish("length"), chunk({}), usage(1, 2))
    assert isinstance(end, Finished)
    assert end.reason == "length"


@pytest.mark.parametrize(
    ("event", "cached"),
    [
        (usage(100, 7), 0),
        (usage(100, 7, prompt_tokens_details={"cached_tokens": 64}), 64),
        (usage(100, 7, prompt_tokens_details=None), 0),
        (usage(100, 7, prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36), 64),
        (usage(100, 7, cached_tokens=64), 64),
        ({**usage(100, 7), "timings": {"cache_n": 64, "prompt_n": 36, "predicted_n": 7}}, 64),
        (content("x", timings={"cache_n": 64, "prompt_n": 36, "predicted_n": 7, "prompt_ms": 1.5}), 64),
    ],
)
def test_usage(event: Json, cached: int) -> None:
    end = read(event)[-1]
    assert end == Finished("stop", Usage(100, cached, 7))


def test_usage_that_grows_with_each_event_counts_once() -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 1}
    end = read(content("a", usage=counts), content("b", usage={**counts, "completion_tokens": 2}))[-1]
    assert end == Finished("stop", Usage(5, 0, 2))


@pytest.mark.parametrize(
    "rubbish",
    [b'{"choices": [', b"null", b"[]", b"hello", b'{"choices": 7}', b"[" * 200_000, b'{"x":' * 200_000],
    ids=lambda rubbish: repr(rubbish[:12]),
)
def test_a_broken_event_is_skipped(rubbish: bytes) -> None:
    assert said(read(content("a"), rubbish, content("b"))) == "ab"


def test_nothing_is_read_after_the_end_mark() -> None:
    reader = ChatReader(SERVER)
    assert reader.feed(payloads(content("a"), b" [DONE] ", content("b"))) == [Text("a")]
    assert reader.done
    assert reader.feed(payloads(content("c"))) == []


def test_events_without_a_blank_line_between() -> None:
    joined = b"\n".join(payloads(content("a"), content("b"), b"[DONE]"))
    assert said(read(joined)) == "ab"


def test_bytes_that_are_no_utf8_cost_one_character() -> None:
    assert said(read(json.dumps(content("a§b")).encode().replace(rb"\u00a7", b"\xff"))) == "a\ufffdb"


@given(st.text(st.sampled_from("a🥞é😀"), max_size=12), st.integers(1, 3))
def test_a_surrogate_pair_cut_between_events_is_joined(text: str, size: int) -> None:
    escaped = [f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H")]
    pieces = ["".join(escaped[i : i + size]) for i in range(0, len(escaped), size)]
    events = [b'{"choices":[{"delta":{"content":"%b"}}]}' % piece.encode() for piece in pieces]
    assert said(read(*events)) == text


def test_half_a_surrogate_pair_at_the_end_is_one_odd_character() -> None:
    text = said(read(rb'{"choices":[{"delta":{"content":"a\ud83e"}}]}'))
    assert text == "a\ufffd"


@given(st.data())
def test_cutting_changes_nothing(data: st.DataObject) -> None:
    kinds = st.sampled_from(["content", "reasoning"])
    pieces = data.draw(st.lists(st.tuples(kinds, st.text(max_size=3)), max_size=12))
    events = payloads(*(chunk({kind: text}) for kind, text in pieces))

    def joined(groups: list[list[bytes]]) -> list[tuple[type, str]]:
        reader = ChatReader(SERVER)
        runs: list[tuple[type, str]] = []
        for delta in (delta for group in groups for delta in reader.feed(group)):
            assert isinstance(delta, Text | Thought)
            if runs and runs[-1][0] is type(delta):
                runs[-1] = (type(delta), runs[-1][1] + delta.text)
            else:
                runs.append((type(delta), delta.text))
        return runs

    cut = data.draw(st.integers(0, len(events)))
    assert joined([events]) == joined([[event] for event in events]) == joined([events[:cut], events[cut:]])


@pytest.mark.parametrize(
    ("event", "status", "message"),
    [
        ({"error": {"message": "too many", "type": "rate_limit_error", "code": None}}, 429, "too many"),
        ({"error": {"message": "boom", "code": 502}}, 502, "boom"),
        ({"error": {"message": "boom", "type": "server_error", "code": None}}, 0, "boom"),
        ({"error": "boom"}, 0, "boom"),
        ({"object": "error", "message": "boom", "type": "BadRequestError", "code": 400}, 400, "boom"),
    ],
)
def test_an_error_inside_the_stream(event: Json, status: int, message: str) -> None:
    reader = ChatReader(SERVER)
    assert reader.feed(payloads(content("a"), event)) == [Text("a")]
    assert reader.complaint is not None
    assert (reader.complaint.status, reader.complaint.message) == (status, message)
