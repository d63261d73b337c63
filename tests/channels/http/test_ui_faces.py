"""AI SDK's and AG-UI's streams as bytes: every message opened and closed once, in every order of events."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.http.faces.ag_ui import AgUiStream
from pixi.channels.http.faces.ai_sdk import AiSdkStream
from pixi.channels.http.streams import Face

USAGE = {"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2}
START = {"event": "turn_start", "turn": 7, "conversation": "a", "persona": "pixi", "answers": ["m"]}
END = {"event": "turn_end", "finish": "stop", "steps": 1, "usage": USAGE}
ASKED = {
    "event": "approval",
    "id": "q1",
    "tool": "book",
    "does": "Book a table.",
    "arguments": "day: monday",
    "expires": 1_800_000_000.0,
}
REACTION = {"event": "react", "id": "7.0", "emoji": "🥞", "message": "m"}


def grown(key: str, *pieces: str, name: str = "send") -> list[dict[str, Any]]:
    started = {"event": "started", "id": key, "name": name}
    return [started, *({"event": "text", "id": key, "name": name, "text": piece} for piece in pieces)]


def sent(key: str, text: str) -> dict[str, Any]:
    return {"event": "send", "id": key, "text": text}


def read(face: Face, events: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Feed all, close, and read the stream as its clients do."""
    stream = b"".join([*(face.feed(event) for event in events), face.close()])
    frames = stream.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [frame[6:] if frame == "data: [DONE]" else json.loads(frame[6:]) for frame in frames]


def kinds(chunks: Iterable[Any]) -> list[str]:
    return [chunk["type"] for chunk in chunks if isinstance(chunk, dict)]


def test_ai_sdk_has_each_message_as_a_part() -> None:
    events = [START, *grown("7.1", " he", "y "), sent("7.1", "hey"), REACTION, sent("7.2", "you!"), END]
    assert read(AiSdkStream(), events) == [
        {
            "type": "start",
            "messageId": "turn-7",
            "messageMetadata": {"conversation": "a", "persona": "pixi", "turn": 7},
        },
        {"type": "start-step"},
        {"type": "text-start", "id": "7.1"},
        {"type": "text-delta", "id": "7.1", "delta": "he"},
        {"type": "text-delta", "id": "7.1", "delta": "y"},
        {"type": "text-end", "id": "7.1"},
        {"type": "data-reaction", "id": "7.0", "data": {"emoji": "🥞", "message": "m"}},
        {"type": "text-start", "id": "7.2"},
        {"type": "text-delta", "id": "7.2", "delta": "you!"},
        {"type": "text-end", "id": "7.2"},
        {"type": "finish-step"},
        {"type": "finish", "messageMetadata": {"finish": "stop", "usage": USAGE}},
        "[DONE]",
    ]


def test_ag_ui_has_each_message_as_a_message() -> None:
    events = [START, *grown("7.1", " he", "y "), sent("7.1", "hey"), REACTION, END]
    run = {"threadId": "t", "runId": "r"}
    assert read(AgUiStream("t", "r"), events) == [
        {"type": "RUN_STARTED", **run},
        {"type": "TEXT_MESSAGE_START", "messageId": "7.1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "7.1", "delta": "he"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "7.1", "delta": "y"},
        {"type": "TEXT_MESSAGE_END", "messageId": "7.1"},
        {"type": "CUSTOM", "name": "reaction", "value": {"id": "7.0", "emoji": "🥞", "message": "m"}},
        {
            "type": "RUN_FINISHED",
            **run,
            "outcome": {"type": "success"},
            "usage": [{"inputTokens": 9, "outputTokens": 2, "totalTokens": 11, "cachedInputTokens": 4}],
        },
    ]


def test_silence_is_a_message_without_parts() -> None:
    assert kinds(read(AiSdkStream(), [START, END])) == ["start", "start-step", "finish-step", "finish"]
    assert kinds(read(AgUiStream("t", "r"), [START, END])) == ["RUN_STARTED", "RUN_FINISHED"]


def test_a_turn_that_begins_anew_has_the_id_of_the_last() -> None:
    again = START | {"turn": 8}
    events = [START, *grown("7.0", "hm", name="note"), again, sent("8.0", "hey"), END]
    first, *rest = read(AiSdkStream(), events)
    assert first["messageId"] == "turn-8"
    assert "start" not in kinds(rest)


def test_notes_are_shown_where_they_may() -> None:
    note = {"event": "note", "id": "7.0", "text": "they came"}
    events = [START, *grown("7.0", "they came", name="note"), note, END]
    for face in (AiSdkStream(), AgUiStream("t", "r")):
        assert "they came" not in str(read(face, events))
    shown = read(AiSdkStream(notes=True), events)
    assert kinds(shown)[2:5] == ["reasoning-start", "reasoning-delta", "reasoning-end"]
    shown = read(AgUiStream("t", "r", notes=True), events)
    names = ("START", "MESSAGE_START", "MESSAGE_CONTENT", "MESSAGE_END", "END")
    assert kinds(shown)[1:-1] == [f"REASONING_{name}" for name in names]


def test_tools_are_shown_where_they_may() -> None:
    events: list[dict[str, Any]] = [
        START,
        {"event": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "\ud800"}},
        {"event": "progress", "text": "half"},
        {"event": "tool_result", "id": "c1", "name": "look", "ok": True, "result": {"n": 1}},
        {"event": "tool_result", "id": "c1", "name": "look", "ok": False, "result": "no"},
        END,
    ]
    for face in (AiSdkStream(), AgUiStream("t", "r")):
        assert "look" not in str(read(face, events))
    assert kinds(read(AiSdkStream(tools=True), events))[2:6] == [
        *("tool-input-available", "data-progress", "tool-output-available", "tool-output-error")
    ]
    shown = read(AgUiStream("t", "r", tools=True), events)
    assert kinds(shown)[1:4] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert [event["content"] for event in shown if event["type"] == "TOOL_CALL_RESULT"] == ['{"n": 1}', "no"]


def test_what_failed_is_told_at_the_end_alone() -> None:
    events: list[dict[str, Any]] = [
        START,
        {"event": "error", "text": "the model is gone"},
        sent("7.0", "oh"),
        END,
    ]
    for face in (AiSdkStream(), AgUiStream("t", "r")):
        assert "the model is gone" not in str(read(face, events))  # the turn did not fail
    failed = [*events[:-1], END | {"finish": "error"}]
    *_, error, step, finish, done = read(AiSdkStream(), failed)
    assert error == {"type": "error", "errorText": "the model is gone"}
    assert (step["type"], finish["type"], done) == ("finish-step", "finish", "[DONE]")
    assert read(AgUiStream("t", "r"), failed)[-1]["message"] == "the model is gone"


def test_a_question_is_asked_as_each_version_can() -> None:
    *_, asked, approved, _, _, _ = read(
        AiSdkStream(), [START, ASKED, {"event": "approved", "id": "q1", "verdict": "no"}, END]
    )
    assert (asked["type"], approved["type"]) == ("data-approval", "data-approved")
    newer = AiSdkStream(newer=True)
    chunks = read(newer, [START, ASKED])  # the stream ends here: the client answers by another request
    assert kinds(chunks)[2:] == ["tool-input-available", "tool-approval-request", "finish-step", "finish"]
    assert "finishReason" not in chunks[-2]
    (finished,) = read(AgUiStream("t", "r"), [START, ASKED])[1:]
    (interrupt,) = finished["outcome"]["interrupts"]
    assert (finished["outcome"]["type"], interrupt["id"]) == ("interrupt", "q1")
    assert interrupt["expiresAt"] == "2027-01-15T08:00:00+00:00"


@pytest.mark.parametrize(("verdict", "kind"), [("yes", "available"), ("no", "denied"), ("nobody", "denied")])
def test_what_came_of_a_question(verdict: str, kind: str) -> None:
    events: list[dict[str, Any]] = [START, {"event": "approved", "id": "q1", "verdict": verdict}, END]
    chunks = read(AiSdkStream(newer=True), events)
    assert chunks[2]["type"] == f"tool-output-{kind}"
    assert chunks[-2]["finishReason"] == "stop"


_KEY = st.sampled_from(["7.0", "7.1", "7.2"])
_TEXT = st.sampled_from(["", " ", "\n", "hey", " you ", "a\r\nb\u2028c", "\ud800"])
_EVENT = st.one_of(
    st.just(START),
    st.just(ASKED),
    st.just(REACTION),
    st.builds(sent, _KEY, _TEXT),
    st.builds(
        lambda key, text, name: grown(key, text, name=name)[1], _KEY, _TEXT, st.sampled_from(["send", "note"])
    ),
    st.builds(lambda key, text: {"event": "note", "id": key, "text": text}, _KEY, _TEXT),
)


@given(st.lists(_EVENT, max_size=12), st.booleans())
def test_whatever_comes_every_message_is_opened_and_closed(events: list[dict[str, Any]], ends: bool) -> None:
    told = [START, *events, *([END] if ends else [])]
    chunks = [each for each in read(AiSdkStream(newer=True, notes=True), told) if isinstance(each, dict)]
    events_told = read(AgUiStream("t", "r", notes=True), told)
    _check(chunks, "text-start", "text-delta", "text-end", "id")
    _check(chunks, "reasoning-start", "reasoning-delta", "reasoning-end", "id")
    for kind in ("TEXT_MESSAGE", "REASONING_MESSAGE"):
        _check(events_told, f"{kind}_START", f"{kind}_CONTENT", f"{kind}_END", "messageId")
    assert [kind for kind in kinds(chunks) if "finish" in kind] == ["finish-step", "finish"]
    assert kinds(events_told)[-1] == "RUN_FINISHED"


def _check(told: list[Any], opens: str, adds: str, closes: str, key: str) -> None:
    open_now: set[str] = set()
    for each in told:
        if each["type"] == opens:
            assert each[key] not in open_now
            open_now.add(each[key])
        elif each["type"] == adds:
            assert each[key] in open_now
            assert each["delta"]
        elif each["type"] == closes:
            open_now.remove(each[key])
    assert not open_now
