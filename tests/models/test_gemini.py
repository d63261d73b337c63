"""What is particular to Gemini, over real sockets; for the rest: `test_every_door`."""

import base64

import pytest

from pixi.core.errors import ModelError
from pixi.core.language import Thought
from pixi.core.llm import AssistantLine, Cited, Finished, Line, Request, ToolCall, ToolLine, Usage
from pixi.core.message import Image
from pixi.models.dialects.gemini import Gemini
from pixi.models.model import Traits
from pixi.models.server_model import ServerModel
from tests.models.doors import HI, HI_WITH_TOOLS, LOOK, MakeModel, ask, text_of
from tests.servers.dialects import in_camel_case
from tests.servers.scripted_gemini import SIGNATURE, call, error, found, part, reply, said, thought
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, Seen


@pytest.fixture
def dialect() -> type[Gemini]:
    return Gemini


def asked_of(seen: Seen) -> Json:
    return in_camel_case(seen.body)


PANCAKES = reply(
    thought("they like ", "pancakes"),
    said("[SEND: pan", "cakes 🥞 für alle", "]"),
    call("look", {"at": "cat"}, call_id="f1", signature=SIGNATURE),
    call("look", {}),
    usage={"cachedContentTokenCount": 16, "thoughtsTokenCount": 4, "toolUsePromptTokenCount": 3},
)


async def test_a_reply_and_all_that_it_used(make: MakeModel) -> None:
    async with ScriptedOpenAI(PANCAKES) as server:
        deltas = await ask(make(server))
    assert text_of(deltas) == "[SEND: pancakes 🥞 für alle]"
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


async def test_two_rounds_hand_back_the_signed_calls(make: MakeModel) -> None:
    """As they came, without an id where there was none."""
    first = reply(
        said("[NOTE: hm]"), call("look", {"at": "cat"}, signature=SIGNATURE), call("look", {"at": "dog"})
    )
    async with ScriptedOpenAI(first, reply(said("[SEND: a cat]"))) as server:
        model = make(server)
        calls = tuple(delta for delta in await ask(model, HI_WITH_TOOLS) if isinstance(delta, ToolCall))
        results = tuple(ToolLine(each.id, "look", "asleep") for each in calls)
        past = (*HI.lines, AssistantLine("[NOTE: hm]", calls), *results)
        assert text_of(await ask(model, Request(past, tools=(LOOK,)))) == "[SEND: a cat]"
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
            assert text_of(await ask(model, Request((*HI.lines, *ROUND), tools=(LOOK,)))) == "hi"
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
        assert text_of(await ask(make(server), Request((*HI.lines, *ROUND), tools=(LOOK,)))) == "hi"
    assert [b"thoughtSignature" in seen.body for seen in server.requests] == [False, True]


async def test_a_last_round_without_tools_still_names_those_that_were_called(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        await ask(make(server), Request((*HI.lines, *ROUND)))
    body = server.requests[0].json()
    assert body["tools"] == [{"functionDeclarations": [{"name": "look"}]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


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
        assert text_of(await ask(make(server))) == "I will"


async def test_a_botched_call_is_another_attempt(make: MakeModel) -> None:
    async with ScriptedOpenAI(reply(stop="MALFORMED_FUNCTION_CALL"), reply(said("hi"))) as server:
        assert text_of(await ask(make(server), HI_WITH_TOOLS)) == "hi"
        assert len(server.requests) == 2


async def test_fields_of_tomorrow_are_passed_over(make: MakeModel) -> None:
    strange = part({"text": "h", "sculpture": {"marble": 3}}) | {"weather": "sunny"}
    async with ScriptedOpenAI(reply(strange, part({"hologram": {}}), said("i"))) as server:
        assert text_of(await ask(make(server))) == "hi"


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
    assert text_of(deltas) == "Flour."
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
            assert text_of(await ask(model, SEARCHING)) == "hi"
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
            assert text_of(await ask(model, Request(HI.lines, schema=schema))) == "hi"
    first, *others = (seen.json() for seen in server.requests)
    assert first["generationConfig"] == {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert len(others) == 2


@pytest.mark.parametrize("path", ["/v1beta", "/v1beta/openai/"])
async def test_the_version_in_the_address_is_that_of_the_api(path: str) -> None:
    async with ScriptedOpenAI(reply(said("hi"))) as server:
        model = ServerModel("scripted", Gemini(), base_url=server.base_url.removesuffix("/v1") + path)
        await ask(model)
        await model.close()
    assert server.requests[0].path.startswith("/v1beta/models/scripted:")
