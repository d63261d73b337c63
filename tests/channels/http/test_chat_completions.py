"""What a program that speaks OpenAI's chat completions is sent, to the byte."""

import json
from typing import Any

import pytest

from pixi.channels.http.faces.chat_completions import (
    ChatCompletionStream,
    CompletionOptions,
    card_markdown,
    picture_markdown,
)

USAGE = {"prompt_tokens": 12, "cached_tokens": 8, "completion_tokens": 3}
HEAD = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"mathilde"'
START: dict[str, Any] = {"event": "turn_start", "turn": 1}


def end(finish: str = "stop") -> dict[str, Any]:
    return {"event": "turn_end", "finish": finish, "steps": 1, "usage": USAGE}


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"event": "send", "id": f"1.{n}", "text": text} for n, text in enumerate(texts)]


def face_of(*, usage: bool = False, **wishes: Any) -> ChatCompletionStream:
    options = CompletionOptions(**wishes)
    return ChatCompletionStream(
        answer_id="chatcmpl-1", model="mathilde", created=7, options=options, usage=usage
    )


def whole(events: list[dict[str, Any]], **wishes: Any) -> tuple[dict[str, Any], str]:
    face = face_of(**wishes)
    for event in events:
        face.feed(event)
    return face.whole()


def stream(events: list[dict[str, Any]], **given: Any) -> bytes:
    face = face_of(**given)
    return b"".join(face.feed(event) for event in events) + face.close()


def chunk(delta: str, finish: str = "null") -> str:
    return f'data: {{{HEAD},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}\n\n'


def deltas(data: bytes) -> list[dict[str, Any]]:
    frames = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]
    assert frames[-1] == "[DONE]"
    return [json.loads(frame)["choices"][0]["delta"] for frame in frames[:-1]]


def text(events: list[dict[str, Any]], **wishes: Any) -> str:
    """The text of a stream, which is that of the whole answer too."""
    streamed = "".join(each.get("content", "") for each in deltas(stream(events, **wishes)))
    answer, problem = whole(events, **wishes)
    assert not problem
    assert answer["choices"][0]["message"]["content"] == streamed
    return streamed


def grown(key: str, *pieces: str) -> list[dict[str, Any]]:
    started = {"event": "started", "id": key, "name": "send"}
    texts = [{"event": "text", "id": key, "name": "send", "text": piece} for piece in pieces]
    return [started, *texts, {"event": "send", "id": key, "text": "".join(pieces).strip()}]


def test_a_stream_is_these_bytes() -> None:
    events = [START, *grown("1.1", "Good mor", "ning. "), START, *said("Tea?"), end()]
    assert stream(events, usage=True).decode() == "".join(
        [
            chunk('{"role":"assistant","content":""}'),
            chunk('{"content":"Good mor"}'),
            chunk('{"content":"ning."}'),
            chunk('{"content":"\\n\\nTea?"}'),
            chunk("{}", '"stop"'),
            f'data: {{{HEAD},"choices":[],"usage":{{"prompt_tokens":12,"completion_tokens":3,',
            '"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}}\n\n',
            "data: [DONE]\n\n",
        ]
    )


def test_usage_is_told_only_where_it_was_asked_for() -> None:
    assert b"usage" not in stream([START, *said("Hi."), end()])


REACTION = {"event": "react", "id": "1.9", "emoji": "👍", "message": "m"}


@pytest.mark.parametrize(
    ("events", "wishes", "expected"),
    [
        ([], {}, "…"),
        ([], {"silence": "(nods)"}, "(nods)"),
        ([REACTION], {}, "👍"),
        ([REACTION, *said("Yes.")], {}, "Yes."),
        ([*said("Yes."), REACTION], {"reactions": "line"}, "Yes.\n\n👍"),
        ([{"event": "note", "id": "1", "text": "He lies."}], {}, "…"),
        ([{"event": "tool_call", "id": "t", "name": "x", "arguments": {}}, *said("A.")], {}, "A."),
        (said("one", "two"), {}, "one\n\ntwo"),
        (grown("1", "  a", " ", "b "), {}, "a b"),
        (said("wait STOP here"), {"stop": ("STOP",)}, "wait "),
        (grown("1", "wait S", "TO", "P here"), {"stop": ("STOP",)}, "wait "),
        (grown("1", "wait S", "TOAT"), {"stop": ("STOP",)}, "wait STOAT"),
        (said("a", "User: b"), {"stop": ("\n\nUser:",)}, "a"),
        (said("ends in ST"), {"stop": ("STOP",)}, "ends in ST"),
        (
            [{"event": "picture", "id": "1", "text": "a cat", "link": "https://x.y/c.gif"}],
            {},
            "![a cat](https://x.y/c.gif)",
        ),
        (
            [
                {
                    "event": "picture",
                    "id": "1",
                    "text": "a cat",
                    "link": "https://x.y/page",
                    "service": "Cats",
                    "address": "https://x.y/c.gif",
                }
            ],
            {},
            "![a cat](https://x.y/c.gif)\nPowered by [Cats](https://x.y/page)",
        ),
    ],
)
def test_the_visible_text(events: list[dict[str, Any]], wishes: dict[str, Any], expected: str) -> None:
    assert text([START, *events, end()], **wishes) == expected


def test_a_bound_ends_the_text_and_says_so() -> None:
    events = [START, *said("word " * 200), end()]
    shown = text(events, max_tokens=10)
    assert 0 < len(shown) < 60
    assert b'"finish_reason":"length"' in stream(events, max_tokens=10)


@pytest.mark.parametrize(
    ("finish", "told"), [("limit", "length"), ("length", "length"), ("cancelled", "stop")]
)
def test_a_finish_is_one_of_openais(finish: str, told: str) -> None:
    assert f'"finish_reason":"{told}"'.encode() in stream([START, *said("Hi."), end(finish)])


BROKEN = [START, {"event": "error", "text": "No answer."}, *said("My head aches."), end("error")]


def test_a_broken_model_is_excused_in_character() -> None:
    assert text(BROKEN) == "My head aches."
    assert b'"finish_reason":"stop"' in stream(BROKEN)


def test_a_strict_program_is_told_an_error_and_no_excuse() -> None:
    data = stream(BROKEN, strict=True)
    assert b"aches" not in data
    assert data.endswith(
        b'data: {"error":{"message":"No answer.","type":"server_error","param":null,'
        b'"code":"persona_unavailable"}}\n\ndata: [DONE]\n\n'
    )
    assert whole(BROKEN, strict=True)[1] == "No answer."


def test_a_fault_that_did_not_end_the_turn_changes_nothing_for_a_strict_program() -> None:
    assert text([*BROKEN[:-1], end()], strict=True) == "My head aches."


def test_a_broken_model_without_an_excuse_is_an_error_for_all() -> None:
    assert b'"error"' in stream([START, BROKEN[1], end("error")])


def test_notes_are_reasoning_where_the_key_asks_for_them() -> None:
    notes = [{"event": "note", "id": str(n), "text": t} for n, t in enumerate(("one", "two"))]
    found = deltas(stream([START, *notes, *said("Hi."), end()], notes="reasoning"))
    assert [each for each in found if "reasoning_content" in each] == [
        {"reasoning_content": "one"},
        {"reasoning_content": "\n\ntwo"},
    ]


def test_a_stream_that_broke_is_closed_once_with_an_error() -> None:
    face = face_of()
    face.feed(START)
    assert face.close("The server stops.").endswith(b"data: [DONE]\n\n")
    assert face.close() == b""
    assert face.feed(end()) == b""


def test_a_card_is_its_fallback_without_strangers_markup() -> None:
    fallback = {
        "title": "[x](javascript:1)",
        "text": "![p](https://track.er/)",
        "fields": [{"name": "a_b", "value": "<b>"}],
        "picture": "https://x.y/a(1).png",
        "link": "javascript:alert(1)",
    }
    assert card_markdown({"event": "card", "fallback": fallback}) == (
        "**\\[x\\](javascript:1)**\n\n\\!\\[p\\](https://track.er/)\n\n- a\\_b: \\<b\\>\n\n"
        "![\\[x\\](javascript:1)](https://x.y/a%281%29.png)"
    )
    assert picture_markdown({"text": "a", "link": "https://x.y/\nz"}) == "a"
