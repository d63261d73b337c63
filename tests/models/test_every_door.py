"""What every door to a model's server does alike, over real sockets."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from pixi import Engine, Persona
from pixi.core.errors import ConfigError, ModelError
from pixi.core.language import Thought
from pixi.core.llm import AssistantLine, Delta, Finished, Request, Text, ToolCall, UserLine
from pixi.core.message import Image
from pixi.models.deadlines import Deadlines
from pixi.models.model import Traits
from pixi.testing import RecordingChannel
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.models.doors import (
    ANY_DOOR,
    EVERY_DOOR,
    EVERY_SEARCHING_DOOR,
    HI,
    HI_WITH_TOOLS,
    KEY,
    LOOK,
    ROUND,
    Door,
    ask,
    heard,
    in_json,
    offers_tools,
    text_of,
)
from tests.servers.dialects import USED, reframed
from tests.servers.scripted_openai import (
    Close,
    Hang,
    Later,
    Reply,
    ScriptedOpenAI,
    Seen,
    Stall,
    Tell,
    answer,
    error,
    page,
)
from tests.waiting import put_forward, until, within

# A reply.


@EVERY_DOOR
async def test_a_reply(door: Door) -> None:
    call = ToolCall("c1", "look", '{"at": "cat"}')
    whole = door.speaks.says(
        Thought("they like pancakes"),
        *("[SEND: pan", "cakes 🥞 für alle", "]"),
        call,
        ToolCall("c2", "look", "{}"),
    )
    for reply in (whole, whole.bytewise()):
        async with ScriptedOpenAI(reply) as server, door.open(server.base_url) as model:
            deltas = await ask(model)
        assert text_of(deltas) == "[SEND: pancakes 🥞 für alle]"
        assert "".join(each.text for each in deltas if isinstance(each, Thought)) == "they like pancakes"
        assert deltas[-3:] == [call, ToolCall("c2", "look", "{}"), Finished("stop", USED)]


@EVERY_DOOR
async def test_a_reply_cut_at_the_token_limit(door: Door) -> None:
    reply = door.speaks.says("[SEND: hi", stop="length")
    async with ScriptedOpenAI(reply) as server, door.open(server.base_url) as model:
        deltas = await ask(model)
    assert text_of(deltas) == "[SEND: hi"
    assert deltas[-1] == Finished("length", USED)


@EVERY_DOOR
async def test_half_a_character_is_no_end(door: Door) -> None:
    reply = door.speaks.says("a 🥞 b")
    halved = tuple(
        step.replace("🥞".encode(), rb"\ud83e") if isinstance(step, bytes) else step for step in reply.steps
    )
    async with ScriptedOpenAI(reframed(Reply(halved))) as server, door.open(server.base_url) as model:
        said, fault = await heard(model)
    assert fault is None
    assert re.fullmatch("a [\ud83e\ufffd] b", said)


# What is asked.


@EVERY_DOOR
async def test_what_is_asked_of_whom(door: Door) -> None:
    async with ScriptedOpenAI(door.speaks.says("hi")) as server:
        for settings in ({"api_key": f"{KEY}\n"}, {}):
            async with door.open(server.base_url, **settings) as model:
                await ask(model)
        async with door.open(server.base_url + "/") as model:
            await ask(model)
    with_key, without, slash = server.requests
    assert (with_key.method, with_key.path) == ("POST", door.path) == (slash.method, slash.path)
    (header,) = (name for name, value in with_key.headers.items() if KEY in value)
    assert with_key.headers[header].removeprefix("Bearer ") == KEY
    assert without.headers[header].removeprefix("Bearer ") == "none", "some word must stand there"


@EVERY_DOOR
async def test_each_request_is_the_one_before_and_a_tail(door: Door) -> None:
    """So what a server has read once it finds again."""
    lines = (*HI.lines, *ROUND, AssistantLine("[SEND: a cat]"), UserLine("mo: aw"), UserLine("bo: where"))
    async with ScriptedOpenAI(door.speaks.says("hi")) as server, door.open(server.base_url) as model:
        for count in (2, 5, 7, 8):
            await ask(model, Request(lines[:count], tools=(LOOK,)))
    told = [door.speaks.told(seen) for seen in server.requests]
    for before, after in pairwise(told):
        assert len(before) < len(after)
        assert after[: len(before)] == before


@EVERY_DOOR
async def test_the_text_form_of_tools(door: Door) -> None:
    async with (
        ScriptedOpenAI(door.speaks.says("hi")) as server,
        door.open(server.base_url, tools="text") as model,
    ):
        await ask(model, Request((*HI.lines, *ROUND), tools=(LOOK,)))
    (seen,) = server.requests
    assert "tools" not in seen.json()
    assert b"look at something" in seen.body
    assert in_json('<tool-call tool="look">{"at": "cat"}</tool-call>') in seen.body
    assert in_json('<tool-result tool="look">asleep</tool-result>') in seen.body


# What a server refuses.


@EVERY_DOOR
async def test_tools_that_are_refused_are_told_in_words_from_then_on(door: Door) -> None:
    def choose(seen: Seen) -> Reply:
        if offers_tools(seen):
            return door.speaks.error(400, "this model does not support tools")
        return door.speaks.says("hi")

    async with ScriptedOpenAI(choose=choose) as server, door.open(server.base_url) as model:
        for _ in range(2):
            assert text_of(await ask(model, HI_WITH_TOOLS)) == "hi"
    assert [offers_tools(seen) for seen in server.requests] == [True, False, False]
    assert b"look at something" in server.requests[2].body


@EVERY_DOOR
async def test_tools_that_must_be_native_are_an_error_where_they_are_refused(door: Door) -> None:
    refusal = door.speaks.error(400, "this model does not support tools")
    async with ScriptedOpenAI(refusal) as server, door.open(server.base_url, tools="native") as model:
        with pytest.raises(ModelError, match='set tools = "auto" or "text"') as caught:
            await ask(model, HI_WITH_TOOLS)
        assert caught.value.permanent
        assert len(server.requests) == 1


@EVERY_DOOR
async def test_a_broken_tool_schema_is_not_taken_for_a_server_without_tools(door: Door) -> None:
    refusal = door.speaks.error(400, "Invalid schema for function 'look': 'at' is not permitted.")
    async with ScriptedOpenAI(refusal) as server, door.open(server.base_url) as model:
        with pytest.raises(ModelError, match="Invalid schema"):
            await ask(model, HI_WITH_TOOLS)
        assert len(server.requests) == 1


@EVERY_DOOR
async def test_a_form_of_the_reply_that_is_refused_is_left_out_from_then_on(door: Door) -> None:
    schema = {"type": "object", "properties": {"marked": {"type": "array"}}}

    def choose(seen: Seen) -> Reply:
        refused = b"marked" in seen.body
        return door.speaks.error(400, door.no_schema) if refused else door.speaks.says("hi")

    async with ScriptedOpenAI(choose=choose) as server, door.open(server.base_url) as model:
        for _ in range(2):
            assert text_of(await ask(model, Request(HI.lines, schema=schema))) == "hi"
    assert [b"marked" in seen.body for seen in server.requests] == [True, False, False]


@EVERY_DOOR
async def test_pictures_that_are_refused_are_named_instead(door: Door) -> None:
    """One picture that was refused does not blind the model for good."""
    request = Request((*HI.lines, UserLine("mo: see", (Image("image/png", b"png"),))))

    def choose(seen: Seen) -> Reply:
        refusal = door.speaks.error(400, "this model does not support image input")
        return refusal if b"cG5n" in seen.body else door.speaks.says("hi")

    async with (
        ScriptedOpenAI(choose=choose) as server,
        door.open(server.base_url, traits=Traits(vision=True)) as model,
    ):
        for _ in range(2):
            assert text_of(await ask(model, request)) == "hi"
    assert [b"cG5n" in seen.body for seen in server.requests] == [True, False, True, False]
    assert b"that you cannot see" in server.requests[1].body


@EVERY_SEARCHING_DOOR
async def test_a_search_that_is_refused_is_left_out_from_then_on(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    def searches(seen: Seen) -> bool:
        return re.search(rb"web_search|google_?search", seen.body, re.IGNORECASE) is not None

    def choose(seen: Seen) -> Reply:
        return door.speaks.error(400, door.no_search) if searches(seen) else door.speaks.says("hi")

    async with ScriptedOpenAI(choose=choose) as server, door.open(server.base_url, search=True) as model:
        assert model.traits.searches
        for _ in range(2):
            assert text_of(await ask(model, replace(HI_WITH_TOOLS, search=True))) == "hi"
    assert [searches(seen) for seen in server.requests] == [True, False, False]
    assert all(offers_tools(seen) for seen in server.requests)
    assert not model.traits.searches
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [each.partition(" the web")[0] for each in told] == ["scripted-8b cannot search"]


# Connections.


@ANY_DOOR
async def test_one_connection_serves_one_reply_after_the_other(door: Door) -> None:
    async with ScriptedOpenAI(door.speaks.says("hi")) as server, door.open(server.base_url) as model:
        for _ in range(3):
            await ask(model)
        assert (server.connections, len(server.requests)) == (1, 3)


@ANY_DOOR
async def test_closing_twice_does_no_harm(door: Door) -> None:
    async with ScriptedOpenAI(door.speaks.says("hi")) as server, door.open(server.base_url) as model:
        await ask(model)
        await model.close()
        await model.close()
        assert text_of(await ask(model)) == "hi"


@ANY_DOOR
async def test_closing_the_generator_closes_the_connection(door: Door) -> None:
    async with ScriptedOpenAI(door.speaks.says("hi", Hang())) as server, door.open(server.base_url) as model:
        deltas = model.stream(HI)
        assert await anext(deltas) == Text("hi")
        await deltas.aclose()
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()


@ANY_DOOR
@pytest.mark.parametrize("after", [0, 1, 2], ids=["the request", "the headers", "some words"])
async def test_cancelling_closes_the_connection(door: Door, after: int) -> None:
    script = [Reply((Hang(),)), door.speaks.says(Hang()), door.speaks.says("hi", Hang())][after]
    deltas: list[Delta] = []

    async def listen(asked: AsyncIterator[Delta]) -> None:
        async for delta in asked:
            deltas.append(delta)  # noqa: PERF401  # a comprehension would hold them back

    async with ScriptedOpenAI(script) as server, door.open(server.base_url) as model:
        task = asyncio.create_task(listen(model.stream(HI)))
        await server.asked.wait()
        if after == 2:
            await until(lambda: deltas)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()


@ANY_DOOR
async def test_a_proxy_of_the_environment_is_used(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedOpenAI(door.speaks.says("hi")) as proxy:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        async with door.open("http://models.example/v1") as model:
            assert await heard(model) == ("hi", None)
    assert proxy.requests[0].path == f"http://models.example{door.path}"


# Deadlines, by a clock that runs ahead.


@ANY_DOOR
async def test_a_slow_consumer_is_not_the_servers_fault(door: Door) -> None:
    deadlines = Deadlines(first=5, gap=5, turn=600)
    async with (
        ScriptedOpenAI(door.speaks.says("a", "b", "c")) as server,
        door.open(server.base_url, deadlines=deadlines) as model,
    ):
        text = ""
        async for delta in model.stream(HI):
            text += delta.text if isinstance(delta, Text) else ""
            for _ in range(40):
                put_forward(0.2)
                await asyncio.sleep(0)
    assert text == "abc"


@ANY_DOOR
async def test_content_keeps_a_slow_reply_alive_until_its_last_deadline(door: Door) -> None:
    slow = [part for _ in range(20) for part in ("a", Later(0.2))]
    deadlines = Deadlines(first=3, gap=3, turn=10)
    async with (
        ScriptedOpenAI(door.speaks.says(*slow), door.speaks.says(*slow * 4)) as server,
        door.open(server.base_url, deadlines=deadlines) as model,
    ):
        said, fault = await heard(model)
        assert (said.count("a"), fault) == (20, None)
        assert "was still writing after 10 s" in str((await heard(model))[1])


@EVERY_DOOR
async def test_a_server_that_holds_the_line_after_its_last_words_is_not_waited_for(door: Door) -> None:
    six_seconds_later = asyncio.Event()
    reply = door.speaks.says("hi")
    held = Reply((*reply.steps[:-1], *[Later(0.2)] * 30, Tell(six_seconds_later), Hang()))
    async with (
        ScriptedOpenAI(held) as server,
        door.open(server.base_url, deadlines=Deadlines(first=60, gap=60, turn=600)) as model,
    ):
        assert await heard(model) == ("hi", None)
        assert not six_seconds_later.is_set()


# The environment, the settings, the models of a server.


@ANY_DOOR
async def test_what_the_environment_holds_for_others_goes_nowhere(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {
        "OPENAI_API_KEY": "other-word",
        "OPENAI_BASE_URL": "http://other-word.example",
        "ANTHROPIC_API_KEY": "other-word",
        "ANTHROPIC_AUTH_TOKEN": "other-word",
        "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer other-word\nX-Team: other-word",
        "ANTHROPIC_BASE_URL": "http://other-word.example",
        "GOOGLE_API_KEY": "other-word",
        "GEMINI_API_KEY": "another-word",
        "GOOGLE_GEMINI_BASE_URL": "http://other-word.example",
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "other-word",
    }.items():
        monkeypatch.setenv(name, value)
    async with (
        ScriptedOpenAI(door.speaks.says("hi")) as server,
        door.open(server.base_url, api_key=KEY) as model,
    ):
        assert await heard(model) == ("hi", None)
    (seen,) = server.requests
    assert "other-word" not in f"{seen.path} {seen.headers} {seen.body.decode()}"
    assert any(KEY in value for value in seen.headers.values())
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [], "whose key is used is not the package's to say"


@EVERY_DOOR
def test_settings_that_cannot_be(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for base_url in (
        "localhost:8080",
        "ftp://host/v1",
        "http://",
        "http://[::1/v1",
        "http://host:99999999/v1",
    ):
        with pytest.raises(ConfigError, match=door.example):
            door.make(base_url)
    for settings in (
        {"base_url": "https://mo:hunter22@host/v1"},
        {"base_url": "http://host/v1", "api_key": "sk-hunter22\nX-Evil: 1"},
    ):
        with pytest.raises(ConfigError, match=door.key_name) as caught:
            door.make(**settings)
        assert "hunter22" not in str(caught.value)
    monkeypatch.setenv("http_proxy", "socks5://mo:hunter22@proxy.example")
    with pytest.raises(ConfigError, match="http_proxy") as caught:
        door.make("http://models.example/v1")
    assert "hunter22" not in str(caught.value)


@EVERY_DOOR
async def test_the_models_of_a_server(door: Door) -> None:
    async with (
        ScriptedOpenAI(door.speaks.lists("tiny", "large")) as server,
        door.open(server.base_url, api_key=KEY) as model,
    ):
        assert await model.models() == ["tiny", "large"]
    (seen,) = server.requests
    assert seen.method == "GET"
    assert seen.path.partition("?")[0] == "/v1/models"
    assert any(KEY in value for value in seen.headers.values())


@ANY_DOOR
@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param(page(200), "web page", id="page"),
        pytest.param(page(404), "web page", id="page, 404"),
        pytest.param(answer(200, "hello", "text/plain"), "cannot read|does not answer as", id="plain text"),
        pytest.param(answer(200, '{"data": ['), "cannot read|does not answer as", id="broken JSON"),
        pytest.param(error(401, f"Wrong key {KEY}"), "refused the key: check {}", id="401"),
        pytest.param(error(500, f"Oh no, {KEY}"), r"failed \(500\)", id="500"),
        pytest.param(answer(404, {"detail": "Not Found"}), "check base_url|usually ends in", id="404"),
        pytest.param(Reply((Close(),)), "broke the connection off|Nothing answers at", id="closed"),
        pytest.param(Reply((Stall(),)), "sent no words for 5 s", id="stall"),
    ],
)
async def test_a_server_that_lists_no_models(door: Door, script: Reply, says: str) -> None:
    async with (
        ScriptedOpenAI(script) as server,
        door.open(server.base_url, api_key=KEY, deadlines=Deadlines(first=5)) as model,
    ):
        with pytest.raises(ModelError, match=says.format(door.key_name)) as caught:
            await model.models()
        assert len(server.requests) <= 2, "aiohttp asks once more where a connection was closed"
    assert KEY not in str(caught.value) + repr(caught.value)


# Whole turns through the engine.

PERSONA = Persona("Pixi", "You are Pixi.", tools=("add",))


def setup(addon: Addon) -> None:
    @addon.tool
    async def add(context: Context, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


@EVERY_DOOR
async def test_commands_and_tools_in_a_talk(door: Door) -> None:
    says = door.speaks.says
    rounds = (
        says(Thought("hm"), "[NOTE: numbers]", ToolCall("c1", "add", '{"a": 4000, "b": 2}')),
        says("[SEND: it is ", "4002][REACT: 🥞]"),
        says("[SEND: always]"),
    )
    channel = RecordingChannel()
    traits = Traits(context_tokens=100_000)
    async with (
        ScriptedOpenAI(*rounds) as server,
        door.open(server.base_url, traits=traits) as model,
        Engine(model=model, persona=PERSONA, addons=[setup]) as engine,
    ):
        for text in ("4000 + 2?", "sure?"):
            await engine.receive(channel.message(text), channel)
            await engine.settled()
    assert channel.sent == ["it is 4002", "always"]
    assert [emoji for _, emoji in channel.reactions] == ["🥞"]
    _, second, third = (seen.body.decode() for seen in server.requests)
    assert all("[NOTE: numbers]" in body for body in (second, third))
    assert "it is 4002" in third


@ANY_DOOR
async def test_an_engine_that_closes_in_the_middle_of_a_reply(door: Door) -> None:
    channel = RecordingChannel()
    reply = door.speaks.says("[SEND: hi]", Hang())
    async with ScriptedOpenAI(reply) as server, door.open(server.base_url) as model:
        async with Engine(model=model, persona=PERSONA, addons=[setup]) as engine:
            await engine.receive(channel.message("hi"), channel)
            await until(lambda: channel.sent)
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()
    assert channel.sent == ["hi"]
