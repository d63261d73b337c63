"""The door to Gemini, over real sockets: what it asks, and what it makes of replies."""

import asyncio
import base64
import importlib.util
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pixi.core.commands import Thought
from pixi.core.deltas import Cited, Delta, Finished, Request, Text, ToolSchema, Usage
from pixi.core.errors import ConfigError, ModelError
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image
from pixi.models.faults import Retries
from pixi.models.gemini.door import Gemini
from pixi.models.model import Model, Traits
from tests.servers.scripted_gemini import (
    SIGNATURE,
    call,
    error,
    found,
    models,
    part,
    reply,
    said,
    thought,
)
from tests.servers.scripted_openai import Hang, Json, Reply, ScriptedOpenAI, Seen

pytest.importorskip("google.genai")

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
LOOK = ToolSchema("look", "look at something", {"type": "object", "properties": {"at": {"type": "string"}}})
HI_WITH_TOOLS = Request(HI.lines, tools=(LOOK,))

MakeModel = Callable[..., Gemini]


@pytest.fixture
async def make() -> AsyncIterator[MakeModel]:
    """Makes models that are closed when the test ends."""
    made: list[Gemini] = []

    def make_model(server: ScriptedOpenAI, **settings: Any) -> Gemini:
        settings.setdefault("retries", Retries(base=0.001))
        made.append(Gemini("scripted", base_url=server.base_url, **settings))
        return made[-1]

    yield make_model
    for model in made:
        await model.close()


async def ask(model: Model, request: Request = HI) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


def words(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def asked_of(seen: Seen) -> Json:
    """The body of a request, with each name as the API writes it: it takes them in snake case as well."""
    fields: Json = json.loads(re.sub(r'"\w+":', _in_camel_case, seen.body.decode()))
    return fields


def _in_camel_case(key: re.Match[str]) -> str:
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), key[0])


PANCAKES = reply(
    thought("they like ", "pancakes"),
    said("[SEND: pan", "cakes 🥞 für alle", "]"),
    call("look", {"at": "cat"}, call_id="f1", signature=SIGNATURE),
    call("look", {}),
    usage={"cachedContentTokenCount": 16, "thoughtsTokenCount": 4, "toolUsePromptTokenCount": 3},
)


@pytest.mark.parametrize("script", [PANCAKES, PANCAKES.bytewise()], ids=["as it is", "one byte per write"])
async def test_a_reply(make: MakeModel, script: Reply) -> None:
    async with ScriptedOpenAI(script) as server:
        deltas = await ask(make(server))
    assert words(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert "".join(delta.text for delta in deltas if isinstance(delta, Thought)) == "they like pancakes"
    first, second, finished = deltas[-3:]
    assert first == ToolCall("f1", "look", '{"at": "cat"}')
    assert isinstance(second, ToolCall)
    assert (second.name, second.arguments) == ("look", "{}")
    assert second.id not in ("", "f1")
    assert finished == Finished("stop", Usage(prompt_tokens=23, cached_tokens=16, completion_tokens=13))


async def test_what_is_asked(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        deep = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}
        await ask(make(server, api_key="secret", temperature=0.7, max_tokens=300, extra_body=deep))
        await ask(make(server), HI_WITH_TOOLS)
    plain, with_tools = server.requests
    assert (plain.method, plain.path) == ("POST", "/v1/models/scripted:streamGenerateContent?alt=sse")
    assert plain.headers["x-goog-api-key"] == "secret"
    assert asked_of(plain) == {
        "contents": [{"role": "user", "parts": [{"text": "mo: hi"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "You are Pixi."}]},
        "generationConfig": {
            "temperature": 0.7,
            "maxOutputTokens": 300,
            "thinkingConfig": {"thinkingLevel": "low"},
        },
    }
    declared = {"name": "look", "description": "look at something", "parametersJsonSchema": LOOK.parameters}
    assert asked_of(with_tools)["tools"] == [{"functionDeclarations": [declared]}]


ROUND: tuple[Line, ...] = (
    AssistantLine("[NOTE: hm]", (ToolCall("a", "look", '{"at": "cat"}'), ToolCall("b", "look", "no"))),
    ToolLine("a", "look", "asleep", (Image("image/png", b"cat"),)),
    ToolLine("b", "look", ""),
)


async def test_calls_and_results_of_the_past(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        request = Request((*HI.lines, *ROUND), tools=(LOOK,))
        await ask(make(server, traits=Traits(vision=True)), request)
    _, asked, answered = asked_of(server.requests[0])["contents"]
    assert asked == {
        "role": "model",
        "parts": [
            {"text": "[NOTE: hm]"},
            {"functionCall": {"id": "a", "name": "look", "args": {"at": "cat"}}},
            {"functionCall": {"id": "b", "name": "look", "args": {"notAnObject": "no"}}},
        ],
    }
    picture = {"mimeType": "image/png", "data": base64.b64encode(b"cat").decode()}
    assert answered == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "a", "name": "look", "response": {"result": "asleep"}}},
            {"functionResponse": {"id": "b", "name": "look", "response": {"result": ""}}},
            {"inlineData": picture},
        ],
    }


async def test_each_request_is_the_last_one_plus_a_tail(make: MakeModel) -> None:
    lines = (*HI.lines, *ROUND, AssistantLine("[SEND: a cat]"), UserLine("mo: aw"), UserLine("bo: where"))
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        model = make(server)
        for count in (2, 5, 7, 8):
            await ask(model, Request(lines[:count], tools=(LOOK,)))
    told = [
        [(each["role"], part) for each in seen.json()["contents"] for part in each["parts"]]
        for seen in server.requests
    ]
    assert [len(parts) for parts in told] == [1, 6, 8, 9]
    assert told[0] == told[1][:1]
    assert told[1] == told[2][:6]
    assert told[2] == told[3][:8]


async def test_two_rounds_hand_back_the_signed_calls(make: MakeModel) -> None:
    """As they came, without an id where there was none."""
    first = reply(
        said("[NOTE: hm]"),
        call("look", {"at": "cat"}, signature=SIGNATURE),
        call("look", {"at": "dog"}),
    )
    async with ScriptedOpenAI(first, reply(said("[SEND: a cat]"))) as server:
        model = make(server)
        calls = tuple(delta for delta in await ask(model, HI_WITH_TOOLS) if isinstance(delta, ToolCall))
        results = tuple(ToolLine(each.id, "look", "asleep") for each in calls)
        past = (*HI.lines, AssistantLine("[NOTE: hm]", calls), *results)
        assert words(await ask(model, Request(past, tools=(LOOK,)))) == "[SEND: a cat]"
    _, asked, answered = server.requests[1].json()["contents"]
    assert asked["parts"] == [
        {"text": "[NOTE: hm]"},
        {"functionCall": {"name": "look", "args": {"at": "cat"}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"name": "look", "args": {"at": "dog"}}},
    ]
    assert all("id" not in each["functionResponse"] for each in answered["parts"])


UNSIGNED = "Function call is missing a thought_signature in functionCall parts."


async def test_calls_of_another_model_pass_by_the_word_for_it(make: MakeModel) -> None:
    def choose(seen: Seen) -> Reply:
        return reply(said("hi")) if b"thoughtSignature" in seen.body else error(400, UNSIGNED)

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server)
        for _ in range(2):
            assert words(await ask(model, Request((*HI.lines, *ROUND), tools=(LOOK,)))) == "hi"
    assert [b"thoughtSignature" in seen.body for seen in server.requests] == [False, True, True]
    asked = server.requests[1].json()["contents"][1]["parts"]
    assert [each.get("thoughtSignature") for each in asked] == [
        None,
        "skip_thought_signature_validator",
        None,
    ]


async def test_a_signature_that_is_missed_by_the_model_itself(make: MakeModel) -> None:
    """Some say so as the reason of an end."""
    async with ScriptedOpenAI(reply(stop="MISSING_THOUGHT_SIGNATURE"), reply(said("hi"))) as server:
        assert words(await ask(make(server), Request((*HI.lines, *ROUND), tools=(LOOK,)))) == "hi"
    assert [b"thoughtSignature" in seen.body for seen in server.requests] == [False, True]


async def test_a_last_round_without_tools_still_names_those_that_were_called(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        await ask(make(server), Request((*HI.lines, *ROUND)))
    body = server.requests[0].json()
    assert body["tools"] == [{"functionDeclarations": [{"name": "look"}]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


async def test_the_text_form_of_tools(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        await ask(make(server, tools="text"), Request((*HI.lines, *ROUND), tools=(LOOK,)))
    body = server.requests[0].json()
    assert "tools" not in body
    assert "look at something" in body["systemInstruction"]["parts"][0]["text"]
    assert '<tool-call tool="look">{"at": "cat"}</tool-call>' in body["contents"][1]["parts"][1]["text"]


async def test_a_reply_cut_at_its_limit(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("[SEND: hi"), stop="MAX_TOKENS")) as server:
        assert (await ask(make(server)))[-1] == Finished("length", Usage(20, 0, 9))


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (reply(stop="SAFETY"), "SAFETY"),
        (reply(stop="PROHIBITED_CONTENT"), "PROHIBITED_CONTENT"),
        (reply({"promptFeedback": {"blockReason": "SAFETY"}}, stop=None), "SAFETY"),
        (reply(stop="A_REASON_OF_TOMORROW"), "A_REASON_OF_TOMORROW"),
    ],
)
async def test_a_model_that_declines(make: MakeModel, script: Reply, says: str) -> None:
    async with ScriptedOpenAI(script) as server:
        with pytest.raises(ModelError, match=f"declined to answer. It said: {says}") as caught:
            await ask(make(server))
        assert caught.value.permanent
        assert len(server.requests) == 1


async def test_what_was_said_before_it_declined_stands(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("I will"), stop="SAFETY")) as server:
        assert words(await ask(make(server))) == "I will"


async def test_a_botched_call_is_another_attempt(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(stop="MALFORMED_FUNCTION_CALL"), reply(said("hi"))) as server:
        assert words(await ask(make(server), HI_WITH_TOOLS)) == "hi"
        assert len(server.requests) == 2


async def test_fields_of_tomorrow_are_passed_over(make: MakeModel) -> None:
    strange = part({"text": "h", "sculpture": {"marble": 3}}) | {"weather": "sunny"}
    async with ScriptedOpenAI(reply(strange, part({"hologram": {}}), said("i"))) as server:
        assert words(await ask(make(server))) == "hi"


SEARCHING = Request(HI.lines, tools=(LOOK,), search=True)
PAGES = (("https://waffles.example/", "Waffles"), ("https://pancakes.example/", "Pancakes"))


async def test_a_search_of_the_providers(make: MakeModel) -> None:
    grounding = found(*PAGES, queries=("pancakes", "pancake flour"), cited=(1,))
    searched = reply(said("Flour."), grounding=grounding)
    async with ScriptedOpenAI(searched) as server:
        model = make(server, search=True)
        assert model.traits.searches
        deltas = await ask(model, Request(HI.lines, search=True))
        await ask(model, SEARCHING)
        await ask(model, HI_WITH_TOOLS)
    assert words(deltas) == "Flour."
    assert deltas[-2:] == [Cited(*PAGES[1]), Finished("stop", Usage(20, 0, 9, searches=2))]
    alone, beside, without = (seen.json() for seen in server.requests)
    assert alone["tools"] == [{"googleSearch": {}}]
    assert "toolConfig" not in alone
    assert [next(iter(tool)) for tool in beside["tools"]] == ["googleSearch", "functionDeclarations"]
    assert beside["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert [next(iter(tool)) for tool in without["tools"]] == ["functionDeclarations"]


async def test_all_pages_are_cited_where_it_is_not_told_which(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("Flour."), grounding=found(*PAGES))) as server:
        deltas = await ask(make(server, search=True), Request(HI.lines, search=True))
    assert [delta for delta in deltas if isinstance(delta, Cited)] == [Cited(*page) for page in PAGES]


async def test_its_own_searches_go_back_with_the_calls(make: MakeModel) -> None:
    asked = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["cats"]}, "id": "s1"}}
    told = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"found": "cats"}, "id": "s1"}}
    first = reply(
        part(asked | {"thoughtSignature": SIGNATURE}),
        part(told),
        call("look", {"at": "cat"}, call_id="f1", signature=SIGNATURE),
    )
    async with ScriptedOpenAI(first, reply(said("hi"))) as server:
        model = make(server, search=True)
        calls = tuple(delta for delta in await ask(model, SEARCHING) if isinstance(delta, ToolCall))
        assert [each.name for each in calls] == ["look"]
        past = (*HI.lines, AssistantLine("[NOTE: hm]", calls), ToolLine("f1", "look", "asleep"))
        await ask(model, Request(past, tools=(LOOK,), search=True))
    parts = asked_of(server.requests[1])["contents"][1]["parts"]
    assert parts[:2] == [asked | {"thoughtSignature": SIGNATURE}, told]
    assert parts[2] == {"text": "[NOTE: hm]"}
    assert parts[3]["thoughtSignature"] == SIGNATURE


REFUSALS = [
    "Tool use with function calling is unsupported by the model.",
    "Built-in tools ({google_search}) and Function Calling cannot be combined in the same request.",
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_where_it_cannot_search_beside_tools_the_search_goes(
    make: MakeModel, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    def both(body: Json) -> bool:
        return len(body.get("tools", ())) == 2

    def choose(seen: Seen) -> Reply:
        return error(400, refusal) if both(seen.json()) else reply(said("hi"))

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server, search=True)
        for _ in range(2):
            assert words(await ask(model, SEARCHING)) == "hi"
    assert [both(seen.json()) for seen in server.requests] == [True, False, False]
    assert all("functionDeclarations" in seen.json()["tools"][-1] for seen in server.requests)
    assert not model.traits.searches
    assert len([record for record in caplog.records if "cannot search the web" in record.message]) == 1


async def test_a_reply_to_a_schema(make: MakeModel) -> None:
    schema = {"type": "object", "properties": {"ids": {"type": "array"}}}

    def choose(seen: Seen) -> Reply:
        asked = "responseJsonSchema" in seen.json().get("generationConfig", {})
        return error(400, 'Unknown name "responseJsonSchema"') if asked else reply(said("hi"))

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server)
        for _ in range(2):
            assert words(await ask(model, Request(HI.lines, schema=schema))) == "hi"
    first, *others = (seen.json() for seen in server.requests)
    assert first["generationConfig"] == {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert len(others) == 2


async def test_the_models_of_a_server(make: MakeModel) -> None:
    async with ScriptedOpenAI(models("gemini-a", "gemini-b")) as server:
        assert await make(server).models() == ["gemini-a", "gemini-b"]


@pytest.mark.parametrize("path", ["/v1beta", "/v1beta/openai/"])
async def test_the_version_in_the_address_is_that_of_the_api(path: str) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        model = Gemini("scripted", base_url=server.base_url.removesuffix("/v1") + path)
        await ask(model)
        await model.close()
    assert server.requests[0].path.startswith("/v1beta/models/scripted:")


async def test_one_connection_serves_one_reply_after_the_other(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        model = make(server)
        for _ in range(3):
            await ask(model)
        assert (server.connections, len(server.requests)) == (1, 3)


async def test_closing_twice_does_no_harm(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        model = make(server)
        await ask(model)
        await model.close()
        await model.close()
        assert words(await ask(model)) == "hi"


async def test_closing_the_generator_closes_the_connection(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"), Hang())) as server:
        deltas = make(server).stream(HI)
        assert await anext(deltas) == Text("hi")
        await deltas.aclose()
        await asyncio.wait_for(server.requests[0].gone.wait(), 10)


@pytest.mark.parametrize("script", [Reply((Hang(),)), reply(Hang()), reply(said("hi"), Hang())])
async def test_cancelling_closes_the_connection(make: MakeModel, script: Reply) -> None:
    async with ScriptedOpenAI(script) as server:
        task = asyncio.create_task(ask(make(server)))
        await server.asked.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.requests[0].gone.wait(), 10)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "pixi-persona\[gemini\]"'):
        Gemini("gemini")


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"https://generativelanguage\.googleapis\.com"):
        Gemini("gemini", base_url="generativelanguage.googleapis.com")
    with pytest.raises(ConfigError, match="GEMINI_API_KEY") as caught:
        Gemini("gemini", api_key="hunter22\nX-Evil: 1")
    assert "hunter22" not in str(caught.value)
