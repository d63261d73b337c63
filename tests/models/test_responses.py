"""What is particular to the Responses API, over real sockets; for the rest: `test_every_door`."""

import json
import logging
from typing import Any

import pytest

from pixi.core.language import Thought
from pixi.core.llm import AssistantLine, Cited, Finished, Request, ToolCall, ToolLine, Usage, UserLine
from pixi.core.message import Image
from pixi.models.dialects.prompt import Style
from pixi.models.dialects.responses import Responses, response_fields
from pixi.models.model import Traits
from tests.models.doors import HI, LOOK, MakeModel, ask, text_of
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, answer, error
from tests.servers.scripted_responses import (
    call,
    completed,
    incomplete,
    message,
    response,
    responses,
    searched,
    thought,
)

FINE = responses("[SEND: hi]")


@pytest.fixture
def dialect() -> type[Responses]:
    return Responses


PANCAKES = responses(
    thought("they like ", "pancakes", sealed="gAAAA"),
    searched("pancakes", index=1),
    message(
        "[SEND: pan",
        "cakes 🥞 für alle",
        "]",
        cited=[("https://pancakes.example/", "All of them"), ("https://x.example/a", "1")],
        index=2,
    ),
    # As documented: two calls may be written at the same time.
    [
        event
        for pair in zip(
            call("look", '{"at":', ' "cat"}', call_id="c1", index=3, item="fc_1"),
            call("look", '{"at":', ' "dog"}', call_id="c2", index=4, item="fc_2"),
            strict=True,
        )
        for event in pair
    ],
)
SOURCES = [Cited("https://pancakes.example/", "All of them"), Cited("https://x.example/a")]
CALLS = [ToolCall("c1", "look", '{"at": "cat"}'), ToolCall("c2", "look", '{"at": "dog"}')]


async def test_a_reply(make: MakeModel) -> None:
    async with ScriptedOpenAI(PANCAKES) as server:
        deltas = await ask(make(server))
    assert text_of(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert "".join(d.text for d in deltas if isinstance(d, Thought)) == "they like pancakes"
    assert [delta for delta in deltas if isinstance(delta, Cited)] == SOURCES
    assert deltas[-3:] == [*CALLS, Finished("stop", Usage(20, 16, 9, searches=1))]


async def test_a_reply_that_is_not_streamed(make: MakeModel) -> None:
    output = [event["item"] for event in PANCAKES_DONE]
    whole = response("completed", output, usage=completed()["response"]["usage"])
    async with ScriptedOpenAI(answer(200, whole)) as server:
        deltas = await ask(make(server))
    assert text_of(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert [delta for delta in deltas if isinstance(delta, Cited)] == SOURCES
    assert deltas[-3:] == [*CALLS, Finished("stop", Usage(20, 16, 9, searches=1))]


def _events(reply: Reply) -> list[Json]:
    data = b"".join(step for step in reply.steps if isinstance(step, bytes))
    return [
        json.loads(line.removeprefix(b"data: ")) for line in data.split(b"\n") if line.startswith(b"data: ")
    ]


PANCAKES_DONE = [event for event in _events(PANCAKES) if event["type"] == "response.output_item.done"]


async def test_what_is_asked(make: MakeModel) -> None:
    cat = Image("image/png", b"cat")
    lines = (
        *HI.lines,
        AssistantLine("[SEND: hey]"),
        UserLine("mo: look", (cat,)),
        AssistantLine(
            "[SEND: wait]", (ToolCall("c1", "look", '{"at": "cat"}'), ToolCall("c2", "look", "[1]"))
        ),
        ToolLine("c1", "look", "a cat", (cat,)),
        ToolLine("c2", "look", "nothing"),
    )
    schema = {"type": "object"}
    async with ScriptedOpenAI(FINE) as server:
        model = make(
            server, traits=Traits(vision=True), temperature=0.5, max_tokens=99, extra_body={"user": "mo"}
        )
        await ask(model, Request(lines, (LOOK,), grammar="root", schema=schema))
        sent = server.requests[0]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,Y2F0", "detail": "auto"}
    assert sent.path == "/v1/responses"
    assert sent.headers["authorization"] == "Bearer none"
    assert sent.json() == {
        "model": "scripted",
        "input": [
            {"role": "system", "content": "You are Pixi."},
            {"role": "user", "content": "mo: hi"},
            {"role": "assistant", "content": "[SEND: hey]"},
            {"role": "user", "content": [{"type": "input_text", "text": "mo: look"}, picture]},
            {"role": "assistant", "content": "[SEND: wait]"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "cat"}'},
            {
                "type": "function_call",
                "call_id": "c2",
                "name": "look",
                "arguments": '{"not_an_object": "[1]"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
            {"type": "function_call_output", "call_id": "c2", "output": "nothing"},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "(The picture that look gave.)"}, picture],
            },
        ],
        "stream": True,
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "look at something",
                "parameters": LOOK.parameters,
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "max_output_tokens": 99,
        "text": {"format": {"type": "json_schema", "name": "reply", "strict": True, "schema": schema}},
        "user": "mo",
    }


@pytest.mark.parametrize(
    ("ending", "reason"),
    [(completed(), "stop"), (incomplete(), "length"), (incomplete("content_filter"), "stop")],
    ids=["completed", "cut", "filtered"],
)
async def test_how_a_reply_ends(make: MakeModel, ending: Json, reason: str) -> None:
    async with ScriptedOpenAI(responses("hi", ending)) as server:
        deltas = await ask(make(server))
    finished = deltas[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == reason
    assert text_of(deltas) == "hi"


async def test_messages_stand_apart_and_a_refusal_is_said(make: MakeModel) -> None:
    refusal = {
        "type": "response.refusal.delta",
        "delta": "I'd rather not.",
        "item_id": "msg_3",
        "output_index": 2,
    }
    reply = responses(message("[SEND: a]"), message("[SEND: b]", index=1, item="msg_2"), refusal)
    async with ScriptedOpenAI(reply) as server:
        assert text_of(await ask(make(server))) == "[SEND: a]\n[SEND: b]I'd rather not."


async def test_calls_that_a_server_numbers_alike_or_not_at_all(make: MakeModel) -> None:
    alike = [*call("look", "{}", call_id="a", item="fc_1"), *call("look", "{}", call_id="b", item="fc_2")]
    bare = [*call("look", call_id="", item="fc_3", index=2), *call("look", call_id="a", item="fc_4", index=3)]
    for event in bare:
        event.pop("output_index")
    async with ScriptedOpenAI(responses(alike, bare)) as server:
        calls = [delta for delta in await ask(make(server)) if isinstance(delta, ToolCall)]
    assert [each.id for each in calls[:3]] == ["a", "b", "fc_3"]
    assert len({each.id for each in calls}) == 4
    assert {each.arguments for each in calls} == {"{}"}


async def test_what_counts_as_a_search(make: MakeModel) -> None:
    reply = responses(
        searched("pancakes", item="ws_1"),
        searched("pancakes", action="open_page", item="ws_2"),
        searched("waffles", item="ws_3", status="failed"),
        [{"type": "response.output_item.done", "item": {"id": "ws_4", "type": "openrouter:web_search"}}],
        "hi",
    )
    told = responses("hi", completed(server_tool_use={"web_search_requests": 3}))
    async with ScriptedOpenAI(reply, told) as server:
        model = make(server)
        ends = [(await ask(model))[-1], (await ask(model))[-1]]
    assert [end.usage.searches for end in ends if isinstance(end, Finished)] == [2, 3]


@pytest.mark.parametrize(
    ("host", "tool"),
    [
        ("api.openai.com", "web_search"),
        ("api.x.ai", "web_search"),
        ("openrouter.ai", "openrouter:web_search"),
    ],
)
def test_each_host_has_its_word_for_searching(host: str, tool: str) -> None:
    assert Responses().search_tool(host) == tool
    style = Style("m", search=tool)
    assert response_fields(Request(HI.lines, search=True), style)["tools"] == [{"type": tool}]
    assert "tools" not in response_fields(HI, style)


REFUSALS = [
    error(400, "Hosted tool 'web_search' is not supported with scripted.", code="unsupported_value"),
    error(
        400, "Invalid value: 'web_search'. Supported values are: 'function', and 'mcp'.", code="invalid_value"
    ),
    answer(422, {"detail": [{"loc": ["body", "tools", 1, "type"], "msg": "Input should be 'function'"}]}),
    error(400, "Tool type web_search is not supported"),
    error(400, "Built-in tools and function calling cannot be combined."),
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_server_that_will_not_search_is_asked_without_from_then_on(
    make: MakeModel, refusal: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    def choose(seen: Any) -> Reply:
        searching = {"type": "web_search"} in seen.json().get("tools", ())
        return refusal if searching else FINE

    request = Request(HI.lines, (LOOK,), search=True)
    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server, search=True)
        assert model.traits.searches
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert text_of(await ask(model, request)) == "[SEND: hi]"
        assert [len(seen.json()["tools"]) for seen in server.requests] == [2, 1, 1]
    assert not model.traits.searches
    assert [record.message[:42] for record in caplog.records] == [
        "scripted cannot search the web by itself: "
    ]


async def test_a_server_that_takes_no_tools_at_all_loses_the_search_first(make: MakeModel) -> None:
    def choose(seen: Any) -> Reply:
        return error(400, "Tools are not supported by this model.") if "tools" in seen.json() else FINE

    request = Request(HI.lines, (LOOK,), search=True)
    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server, search=True)
        assert text_of(await ask(model, request)) == "[SEND: hi]"
        assert [len(seen.json().get("tools", ())) for seen in server.requests] == [2, 1, 0]
    assert not model.traits.searches


async def test_what_may_pass_is_no_refusal_to_search(make: MakeModel) -> None:
    request = Request(HI.lines, search=True)
    async with ScriptedOpenAI(error(503, "web_search is not available right now"), FINE) as server:
        model = make(server, search=True)
        await ask(model, request)
        assert [len(seen.json()["tools"]) for seen in server.requests] == [1, 1]
    assert model.traits.searches


async def test_a_temperature_that_a_model_does_not_take_is_left_out_from_then_on(make: MakeModel) -> None:
    words = "Unsupported parameter: 'temperature' is not supported with this model."
    async with ScriptedOpenAI(error(400, words), FINE) as server:
        model = make(server, temperature=0.5)
        for _ in range(2):
            assert text_of(await ask(model)) == "[SEND: hi]"
        assert ["temperature" in seen.json() for seen in server.requests] == [True, False, False]


async def test_sealed_reasoning_is_handed_back_with_its_calls_alone(make: MakeModel) -> None:
    reasoned = responses(
        thought("hm", sealed="first"),
        searched("pancakes", index=1),
        thought("so", sealed="second", item="rs_2", index=2),
        call("look", "{}", call_id="c1", index=3),
    )
    lines = (*HI.lines, AssistantLine("", (ToolCall("c1", "look", "{}"),)), ToolLine("c1", "look", "a cat"))
    async with ScriptedOpenAI(reasoned, FINE, error(400, "Encrypted content is not valid"), FINE) as server:
        model = make(server)
        await ask(model, Request(HI.lines, (LOOK,)))
        await ask(model, Request(lines, (LOOK,)))
        sealed = {
            "type": "reasoning",
            "id": "rs_2",
            "summary": [{"type": "summary_text", "text": "so"}],
            "encrypted_content": "second",
        }
        assert [item["type"] for item in server.requests[1].json()["input"][2:]] == [
            "reasoning",
            "function_call",
            "function_call_output",
        ]
        assert server.requests[1].json()["input"][2] == sealed
        # One that it no longer takes is left out, for good.
        await ask(model, Request(lines, (LOOK,)))
        assert [item["type"] for item in server.requests[3].json()["input"][2:]] == [
            "function_call",
            "function_call_output",
        ]
