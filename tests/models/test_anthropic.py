"""What is particular to Anthropic's Messages API, over real sockets; for the rest: `test_every_door`."""

import base64
from collections.abc import Callable

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import (
    AssistantLine,
    Cited,
    Finished,
    Line,
    Request,
    SystemLine,
    ToolCall,
    ToolLine,
    Usage,
    UserLine,
)
from pixi.core.message import Image
from pixi.models.dialects.anthropic import Anthropic
from pixi.models.model import Traits
from tests.models.doors import HI, HI_WITH_TOOLS, LOOK, MakeModel, ask, text_of
from tests.servers.scripted_anthropic import call, error, message, search, text, thought
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen

SEARCHING = Request(HI.lines, tools=(LOOK,), search=True)
FOUND = ("https://pancakes.example/", "Pancakes")
MARKED = {"cache_control": {"type": "ephemeral"}}


@pytest.fixture
def dialect() -> type[Anthropic]:
    return Anthropic


async def test_what_is_asked(make: MakeModel) -> None:
    async with ScriptedOpenAI(message(text("hi"))) as server:
        model = make(server, api_key="sk-secret", extra_body={"top_k": 5})
        await ask(model)
        await ask(make(server, max_tokens=300), HI_WITH_TOOLS)
    plain, with_tools = server.requests
    assert (plain.method, plain.path) == ("POST", "/v1/messages")
    assert plain.headers["authorization"] == "Bearer sk-secret"
    assert plain.headers["anthropic-version"]
    assert plain.json() == {
        "model": "scripted",
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "You are Pixi.", **MARKED}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "mo: hi", **MARKED}]}],
        "stream": True,
        "top_k": 5,
    }
    assert with_tools.json()["max_tokens"] == 300
    assert with_tools.json()["tools"] == [
        {"name": "look", "description": "look at something", "input_schema": LOOK.parameters}
    ]


ROUND: tuple[Line, ...] = (
    AssistantLine(
        "[NOTE: hm]", (ToolCall("toolu_1", "look", '{"at": "cat"}'), ToolCall("b:2", "look", "no"))
    ),
    ToolLine("toolu_1", "look", "asleep", (Image("image/png", b"cat"),)),
    ToolLine("b:2", "look", ""),
)


async def test_a_temperature_is_left_out_and_that_is_said(
    make: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedOpenAI(message(text("hi"))) as server:
        await ask(make(server, temperature=0.7))
    assert "temperature" not in server.requests[0].json()
    assert "takes no temperature any more: that of scripted is left out" in caplog.text


async def test_calls_and_results_of_the_past(make: MakeModel) -> None:
    async with ScriptedOpenAI(message(text("hi"))) as server:
        request = Request((*HI.lines, *ROUND), tools=(LOOK,))
        await ask(make(server, traits=Traits(vision=True)), request)
    first, asked, answered = server.requests[0].json()["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": "mo: hi", **MARKED}]}
    assert asked == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "[NOTE: hm]"},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "cat"}},
            {"type": "tool_use", "id": "b_2", "name": "look", "input": {"not_an_object": "no"}},
        ],
    }
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"cat").decode()}
    assert answered == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": "asleep"}, {"type": "image", "source": source}],
            },
            {"type": "tool_result", "tool_use_id": "b_2", "content": [], **MARKED},
        ],
    }


async def test_a_round_of_many_calls_does_not_lose_what_is_cached(make: MakeModel) -> None:
    """The provider looks back some twenty blocks from a mark: what was marked last is marked once more."""
    calls = tuple(ToolCall(f"toolu_{n}", "look", "{}") for n in range(30))
    answers = tuple(ToolLine(each.id, each.name, "asleep") for each in calls)
    lines = (
        *HI.lines,
        AssistantLine("", calls),
        *answers,
        AssistantLine("[SEND: a cat]"),
        UserLine("mo: aw"),
    )
    async with ScriptedOpenAI(message(text("hi"))) as server:
        model = make(server)
        for count in (2, 33, len(lines)):
            await ask(model, Request(lines[:count], tools=(LOOK,)))
    marks = []
    for seen in server.requests:
        blocks = [block for told in seen.json()["messages"] for block in told["content"]]
        marks.append([at for at, block in enumerate(blocks) if "cache_control" in block])
        assert seen.body.count(b"cache_control") <= 4  # are taken
    assert marks == [[0], [0, 60], [60, 62]]


async def test_two_rounds_hand_back_what_was_thought(make: MakeModel) -> None:
    """A thought is signed, and wanted back before the calls that it led to."""
    first = message(
        thought("I must look", signature="c2lnbmVk"),
        text("[NOTE: hm]"),
        call("toolu_1", "look", '{"at": "cat"}'),
        stop="tool_use",
    )
    async with ScriptedOpenAI(first, message(text("[SEND: a cat]"))) as server:
        model = make(server)
        deltas = await ask(model, HI_WITH_TOOLS)
        calls = tuple(delta for delta in deltas if isinstance(delta, ToolCall))
        past = (AssistantLine("[NOTE: hm]", calls), ToolLine("toolu_1", "look", "asleep"))
        assert text_of(await ask(model, Request((*HI.lines, *past), tools=(LOOK,)))) == "[SEND: a cat]"
        # Another that knows nothing of it goes without.
        await ask(make(server), Request((*HI.lines, *past), tools=(LOOK,)))
    kinds = [
        [block["type"] for block in seen.json()["messages"][1]["content"]] for seen in server.requests[1:]
    ]
    assert kinds == [["thinking", "text", "tool_use"], ["text", "tool_use"]]
    assert server.requests[1].json()["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "I must look",
        "signature": "c2lnbmVk",
    }


async def test_a_last_round_without_tools_still_names_those_that_were_called(make: MakeModel) -> None:
    async with ScriptedOpenAI(message(text("hi"))) as server:
        await ask(make(server), Request((*HI.lines, *ROUND)))
    body = server.requests[0].json()
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


async def test_what_was_thought_in_an_earlier_turn_stays_there(make: MakeModel) -> None:
    """It is refused where the talk before it is not what it was."""
    asked, found = search("cats", FOUND)
    first = message(thought("hm"), asked, found, call("toolu_1", "look", "{}"), stop="tool_use")
    async with ScriptedOpenAI(first, message(text("hi"))) as server:
        model = make(server, search=True)
        await ask(model, SEARCHING)
        past = (
            AssistantLine("", (ToolCall("toolu_1", "look", "{}"),)),
            ToolLine("toolu_1", "look", "asleep"),
        )
        await ask(model, Request((*HI.lines, *past, UserLine("mo: and?")), tools=(LOOK,), search=True))
        later = (AssistantLine("[SEND: hi]"), UserLine("mo: and?"))
        await ask(model, Request((*HI.lines, *past, *later), tools=(LOOK,), search=True))
    for seen in server.requests[1:]:
        kinds = [block["type"] for block in seen.json()["messages"][1]["content"]]
        assert kinds == ["server_tool_use", "web_search_tool_result", "tool_use"]


async def test_a_last_round_without_tools_has_those_of_the_round_before(make: MakeModel) -> None:
    """So the cache hits, and what was thought is still good."""
    first = message(thought("hm"), call("toolu_1", "look", "{}"), stop="tool_use")
    async with ScriptedOpenAI(first, message(text("hi"))) as server:
        model = make(server, search=True)
        await ask(model, SEARCHING)
        past = (
            AssistantLine("", (ToolCall("toolu_1", "look", "{}"),)),
            ToolLine("toolu_1", "look", "asleep"),
        )
        await ask(model, Request((*HI.lines, *past), search=True))
    one, two = (seen.json() for seen in server.requests)
    assert one["tools"] == two["tools"]
    assert two["tool_choice"] == {"type": "none"}
    assert [block["type"] for block in two["messages"][1]["content"]] == ["thinking", "tool_use"]


async def test_sides_alternate_and_none_is_empty(make: MakeModel) -> None:
    lines = (
        SystemLine("You are Pixi."),
        AssistantLine("[SEND: hello?]"),
        AssistantLine(""),
        AssistantLine("[SEND: anybody?]"),
        UserLine("mo: yes"),
        UserLine("bo: see", (Image("image/png", b"png"),)),
        UserLine("mo: half \ud83e of a pair"),
    )
    async with ScriptedOpenAI(message(text("hi"))) as server:
        await ask(make(server), Request(lines))
    told = [
        (part["role"], [block["text"] for block in part["content"]])
        for part in server.requests[0].json()["messages"]
    ]
    assert told == [
        ("user", ["(The talk began before this.)"]),
        ("assistant", ["[SEND: hello?]", "[SEND: anybody?]"]),
        ("user", ["mo: yes", "bo: see\n(a picture that you cannot see)", "mo: half \ufffd of a pair"]),
    ]


async def test_calls_that_lost_their_answers_are_told_in_words(make: MakeModel) -> None:
    lines = (
        *HI.lines,
        AssistantLine("", (ToolCall("a", "look", "{}"),)),
        UserLine("mo: well?"),
        ToolLine("z", "look", "a cat"),
    )
    async with ScriptedOpenAI(message(text("hi"))) as server:
        await ask(make(server), Request(lines, tools=(LOOK,)))
    blocks = [block for part in server.requests[0].json()["messages"] for block in part["content"]]
    assert {block["type"] for block in blocks} == {"text"}
    assert blocks[1]["text"] == '<tool-call tool="look">{}</tool-call>'
    assert blocks[3]["text"] == '<tool-result tool="look">a cat</tool-result>'


async def test_a_reply_cut_at_the_end_of_the_window(make: MakeModel) -> None:
    async with ScriptedOpenAI(message(text("[SEND: hi"), stop="model_context_window_exceeded")) as server:
        assert (await ask(make(server)))[-1] == Finished("length", Usage(20, 0, 9))


async def test_a_model_that_declines(make: MakeModel) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not that."}
    declines = message(stop="refusal", details=details)
    async with ScriptedOpenAI(declines, message(text("I will"), stop="refusal")) as server:
        model = make(server)
        with pytest.raises(ModelError, match=r"declined to answer. It said: Not that\.") as caught:
            await ask(model)
        assert caught.value.permanent
        # What it said before stands.
        assert text_of(await ask(model)) == "I will"
        assert len(server.requests) == 2


async def test_events_of_tomorrow_are_passed_over(make: MakeModel) -> None:
    reply = message(
        {"type": "weather_report", "weather": "sunny"},
        [{"type": "content_block_start", "content_block": {"type": "sculpture", "marble": 3}}],
        [
            {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "h"}},
            {"type": "content_block_delta", "delta": {"type": "flourish_delta", "flourish": "~"}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "i"}},
        ],
    )
    async with ScriptedOpenAI(reply) as server:
        assert text_of(await ask(make(server))) == "hi"


async def test_a_search_of_the_providers(make: MakeModel) -> None:
    asked, found = search("pancakes", FOUND, ("https://waffles.example/", "Waffles"))
    reply = message(
        text("I look it up. "),
        asked,
        found,
        text("Flour.", cites=(FOUND,)),
        text(" Milk.", cites=(FOUND,)),
        searches=1,
    )
    async with ScriptedOpenAI(reply) as server:
        model = make(server, search=True)
        assert model.traits.searches
        deltas = await ask(model, SEARCHING)
        await ask(model, HI_WITH_TOOLS)
    assert text_of(deltas) == "I look it up. Flour. Milk."
    assert [delta for delta in deltas if isinstance(delta, Cited)] == [Cited(*FOUND)]
    assert not any(isinstance(delta, ToolCall) for delta in deltas)
    assert deltas[-1] == Finished("stop", Usage(20, 0, 9, searches=1))
    offered = [[tool["name"] for tool in seen.json()["tools"]] for seen in server.requests]
    assert offered == [["look", "web_search"], ["look"]]
    assert server.requests[0].json()["tools"][1]["type"] == "web_search_20250305"


async def test_a_pause_is_gone_on_from(make: MakeModel) -> None:
    """What it has searched and said is sent back as it came, and all requests count."""
    asked, found = search("pancakes", FOUND)
    pauses = message(text("Wait. "), asked, found, stop="pause_turn", searches=1)
    goes_on = message(text("Flour.", cites=(FOUND,)), searches=2)
    async with ScriptedOpenAI(pauses, goes_on) as server:
        deltas = await ask(make(server, search=True), SEARCHING)
    assert text_of(deltas) == "Wait. Flour."
    assert deltas[-1] == Finished("stop", Usage(40, 0, 18, searches=3))
    *before, last = server.requests[1].json()["messages"]
    assert before == server.requests[0].json()["messages"]
    assert last["role"] == "assistant"
    kinds = [block["type"] for block in last["content"]]
    assert kinds == ["text", "server_tool_use", "web_search_tool_result"]
    assert last["content"][1]["input"] == {"query": "pancakes"}
    assert last["content"][2]["content"][0]["encrypted_content"]


async def test_what_was_found_goes_back_with_the_calls(make: MakeModel) -> None:
    asked, found = search("pancakes", FOUND)
    first = message(asked, found, text("hm"), call("toolu_1", "look", "{}"), stop="tool_use", searches=1)
    async with ScriptedOpenAI(first, message(text("hi"))) as server:
        model = make(server, search=True)
        calls = tuple(delta for delta in await ask(model, SEARCHING) if isinstance(delta, ToolCall))
        past = (AssistantLine("", calls), ToolLine("toolu_1", "look", "asleep"))
        await ask(model, Request((*HI.lines, *past), tools=(LOOK,), search=True))
    blocks = server.requests[1].json()["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["server_tool_use", "web_search_tool_result", "tool_use"]


def refuses(names: Callable[[Json], bool], kind: str, words: str) -> Callable[[Seen], Reply]:
    """A server that refuses requests of a kind."""
    return lambda seen: error(400, kind, words) if names(seen.json()) else message(text("hi"))


async def test_a_reply_to_a_schema(make: MakeModel) -> None:
    schema = {"type": "object", "properties": {"ids": {"type": "array"}}}
    effort = {"output_config": {"effort": "low"}}
    words = "output_config.format: For 'array' type, 'items' is required"
    refused = refuses(lambda body: "format" in body["output_config"], "invalid_request_error", words)
    async with ScriptedOpenAI(choose=refused) as server:
        model = make(server, extra_body=effort)
        for _ in range(2):
            assert text_of(await ask(model, Request(HI.lines, schema=schema))) == "hi"
    assert [seen.json().get("output_config") for seen in server.requests] == [
        {"format": {"type": "json_schema", "schema": schema}, "effort": "low"},
        {"effort": "low"},
        {"effort": "low"},
    ]
