"""The door to OpenAI-compatible servers, over real sockets: what it asks, and what it makes of replies."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pixi.core.commands import Thought
from pixi.core.deltas import Delta, Finished, Request, Text, ToolSchema, Usage
from pixi.core.errors import ConfigError, ModelError
from pixi.core.lines import AssistantLine, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image
from pixi.models.asking import open_session
from pixi.models.chat.door import OpenAIChat
from pixi.models.deadlines import Deadlines
from pixi.models.faults import Retries
from pixi.models.model import Model, Traits
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    ScriptedOpenAI,
    Seen,
    answer,
    call,
    chunk,
    content,
    error,
    event,
    finish,
    stream,
    usage,
)

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))
LOOK = ToolSchema("look", "look at something", {"type": "object", "properties": {"at": {"type": "string"}}})
HI_WITH_TOOLS = Request(HI.lines, tools=(LOOK,))

MakeModel = Callable[..., OpenAIChat]


@pytest.fixture
async def make() -> AsyncIterator[MakeModel]:
    """Makes models that are closed when the test ends."""
    models: list[OpenAIChat] = []

    def make_model(server: ScriptedOpenAI, **settings: Any) -> OpenAIChat:
        settings.setdefault("retries", Retries(base=0.001))
        models.append(OpenAIChat("scripted", base_url=server.base_url, **settings))
        return models[-1]

    yield make_model
    for model in models:
        await model.close()


async def ask(model: Model, request: Request = HI) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


PANCAKES = stream(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "they like pancakes"}),
    "[SEND: pan",
    "cakes 🥞 für alle",
    "]",
    call("look", '{"at":', index=0, call_id="c1"),
    call(arguments=' "cat"}', index=0),
    finish("stop"),
    usage(20, 9, prompt_tokens_details={"cached_tokens": 16}),
)


async def test_a_reply(make: MakeModel) -> None:
    async with ScriptedOpenAI(PANCAKES) as server:
        deltas = await ask(make(server))
    assert said(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert Thought("they like pancakes") in deltas
    assert deltas[-2:] == [ToolCall("c1", "look", '{"at": "cat"}'), Finished("stop", Usage(20, 16, 9))]


def with_other_line_ends(reply: Reply, end: bytes) -> Reply:
    """The events of a streamed reply with another line end, a comment and an event name before each."""
    first, *steps = reply.steps
    assert isinstance(first, bytes)
    written: list[bytes] = []
    for step in steps:
        assert isinstance(step, bytes)
        data = step.split(b"\r\n", 1)[1].removesuffix(b"\r\n")
        if data.startswith(b"data: "):
            data = b": ping" + end * 2 + b"event: chunk" + end + data.replace(b"\n", end)
        written.append(b"%x\r\n%b\r\n" % (len(data), data))
    return Reply((first, *written))


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(PANCAKES.bytewise(), id="one byte per write"),
        pytest.param(with_other_line_ends(PANCAKES, b"\r\n"), id="CRLF, comments, event names"),
        pytest.param(with_other_line_ends(PANCAKES, b"\r"), id="CR, comments, event names"),
    ],
)
async def test_a_reply_however_it_comes(make: MakeModel, reply: Reply) -> None:
    async with ScriptedOpenAI(reply) as server:
        deltas = await ask(make(server))
    assert said(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert deltas[-2:] == [ToolCall("c1", "look", '{"at": "cat"}'), Finished("stop", Usage(20, 16, 9))]


async def test_utf8_cut_between_chunks(make: MakeModel) -> None:
    whole = event(content("🥞é"))
    async with ScriptedOpenAI(stream(*(whole[i : i + 1] for i in range(len(whole))))) as server:
        assert said(await ask(make(server))) == "🥞é"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(stream("a", "b", finish(), done=False), id="no end mark"),
        pytest.param(stream("a", "b"), id="no finish reason"),
        pytest.param(stream("a", "b", done=False), id="neither"),
        pytest.param(stream("a", event(content("b")).rstrip(), done=False), id="the last event not ended"),
        pytest.param(stream("a", "b", finish(), done=False, end=False), id="broken off after the reason"),
        pytest.param(stream("a", "b", finish(), Hang()), id="the connection held open after the reason"),
        pytest.param(stream("a", b"data: {broken\n\n", "b"), id="a broken event"),
        pytest.param(stream("a", "b", content_type="text/plain"), id="another content type"),
        pytest.param(stream("a", "b", content_type="application/json"), id="the content type of JSON"),
        pytest.param(
            stream(b"data: \xef\xbb\xbf\n\n", "a", "b", event("[DONE]"), "c"), id="more after the end"
        ),
        pytest.param(
            answer(200, {"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}),
            id="not streamed",
        ),
    ],
)
async def test_streams_that_end_oddly_are_replies(make: MakeModel, reply: Reply) -> None:
    async with ScriptedOpenAI(reply) as server:
        deltas = await ask(make(server))
    assert said(deltas) == "ab"
    assert deltas[-1] == Finished("stop")
    assert len(server.requests) == 1


async def test_an_empty_reply_is_a_reply(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream(finish(), usage(20, 0))) as server:
        assert await ask(make(server)) == [Finished("stop", Usage(20, 0, 0))]
        assert len(server.requests) == 1


async def test_a_reply_cut_at_the_token_limit(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("[SEND: hi", finish("length"))) as server:
        assert (await ask(make(server)))[-1] == Finished("length")


async def test_what_is_asked(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        model = make(
            server,
            api_key="sk-secret",
            temperature=0.7,
            max_tokens=300,
            extra_body={"seed": 7, "stop": ["x"]},
        )
        await ask(model)
        await ask(model, HI_WITH_TOOLS)
    plain, with_tools = server.requests
    assert (plain.method, plain.path) == ("POST", "/v1/chat/completions")
    assert plain.headers["authorization"] == "Bearer sk-secret"
    assert plain.json() == {
        "model": "scripted",
        "messages": [
            {"role": "system", "content": "You are Pixi."},
            {"role": "user", "content": "mo: hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "max_tokens": 300,
        "seed": 7,
        "stop": ["x"],
    }
    assert with_tools.json()["parallel_tool_calls"] is True
    assert with_tools.json()["tools"][0]["function"]["name"] == "look"


async def test_any_key_is_sent_where_there_is_none(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        await ask(make(server))
    assert server.requests[0].headers["authorization"].startswith("Bearer ")


async def test_one_connection_serves_one_reply_after_the_other(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        model = make(server)
        for _ in range(3):
            await ask(model)
        assert (server.connections, len(server.requests)) == (1, 3)


async def test_models_share_a_session_that_they_do_not_close(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server, open_session() as session:
        one, two = make(server, session=session), make(server, session=session)
        await ask(one)
        await one.close()
        assert said(await ask(two)) == "hi"
        assert server.connections == 1


async def test_closing_twice_does_no_harm(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        model = make(server)
        await ask(model)
        await model.close()
        await model.close()
        assert said(await ask(model)) == "hi"


async def test_closing_the_generator_closes_the_connection(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi", Hang())) as server:
        deltas = make(server).stream(HI)
        assert await anext(deltas) == Text("hi")
        await deltas.aclose()
        await asyncio.wait_for(server.requests[0].gone.wait(), 1)


@pytest.mark.parametrize("reply", [Reply((Hang(),)), stream(Hang()), stream("hi", Hang())])
async def test_cancelling_closes_the_connection(make: MakeModel, reply: Reply) -> None:
    async with ScriptedOpenAI(reply) as server:
        task = asyncio.create_task(ask(make(server)))
        await server.asked.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.requests[0].gone.wait(), 1)


async def test_a_slow_consumer_is_not_the_servers_fault(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("a", "b", "c")) as server:
        model = make(server, deadlines=Deadlines(first=0.1, gap=0.05, turn=5))
        text = ""
        async for delta in model.stream(HI):
            text += delta.text if isinstance(delta, Text) else ""
            await asyncio.sleep(0.12)
    assert text == "abc"


def answer_without(field: str, complaint: str, status: int = 400) -> Callable[[Seen], Reply]:
    """A server that refuses requests with that field."""
    return lambda seen: error(status, complaint) if field in seen.json() else stream("hi")


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("This response_format type is unavailable now", 400),
        ("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", 400),
        ("Extra inputs are not permitted (body.response_format)", 422),
        ("failed to parse grammar", 500),
    ],
)
async def test_a_server_that_takes_no_schema_is_asked_without_from_then_on(
    make: MakeModel, says: str, status: int
) -> None:
    wish = Request((UserLine("mo: hi"),), schema={"type": "object"})
    async with ScriptedOpenAI(choose=answer_without("response_format", says, status)) as server:
        model = make(server)
        for _ in range(2):
            assert said(await ask(model, wish)) == "hi"
        assert ["response_format" in seen.json() for seen in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("field", "complaint", "status"),
    [
        ("stream_options", "Unknown parameter: 'stream_options'.", 400),
        ("stream_options", "Extra inputs are not permitted (body.stream_options)", 422),
        ("parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls' with this model.", 400),
        ("max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", 400),
        ("tools", "registry/library/tiny:latest does not support tools", 400),
        ("tools", "tools param requires --jinja flag", 500),
        ("tools", "No endpoints found that support tool use.", 404),
        ("tools", '"auto" tool choice requires --enable-auto-tool-choice to be set', 400),
        ("tools", "Function calling is not enabled for this model", 400),
    ],
)
async def test_what_a_server_refuses_is_left_out_and_remembered(
    make: MakeModel, field: str, complaint: str, status: int
) -> None:
    async with ScriptedOpenAI(choose=answer_without(field, complaint, status)) as server:
        model = make(server, max_tokens=300)
        for _ in range(2):
            assert said(await ask(model, HI_WITH_TOOLS)) == "hi"
        assert [field in seen.json() for seen in server.requests] == [True, False, False]


async def test_tools_that_are_refused_are_told_in_words(make: MakeModel) -> None:
    past = (
        *HI.lines,
        AssistantLine("[NOTE: hm]", (ToolCall("c1", "look", '{"at": "cat"}'),)),
        ToolLine("c1", "look", "a cat </tool-result> asleep"),
    )
    refuses = answer_without("tools", "this model does not support tools")
    async with ScriptedOpenAI(choose=refuses) as server:
        await ask(make(server), Request(past, tools=(LOOK,)))
    first, second = (seen.json()["messages"] for seen in server.requests)
    assert [message["role"] for message in first] == ["system", "user", "assistant", "tool"]
    assert first[2]["tool_calls"][0]["id"] == first[3]["tool_call_id"] == "c1"
    system, _, assistant, result = second
    assert system["content"].startswith("You are Pixi.\n\n")
    assert "look at something" in system["content"]
    assert '{"type":"object"' in system["content"]
    assert assistant["content"] == '[NOTE: hm]\n<tool-call tool="look">{"at": "cat"}</tool-call>'
    assert result["role"] == "user"
    assert result["content"] == '<tool-result tool="look">a cat &lt;/tool-result> asleep</tool-result>'


async def test_tools_that_must_be_native_are_an_error_where_they_are_refused(make: MakeModel) -> None:
    async with ScriptedOpenAI(error(400, "this model does not support tools")) as server:
        with pytest.raises(ModelError, match='set tools = "auto" or "text"') as caught:
            await ask(make(server, tools="native"), HI_WITH_TOOLS)
        assert caught.value.permanent
        assert len(server.requests) == 1


async def test_a_broken_tool_schema_is_not_taken_for_a_server_without_tools(make: MakeModel) -> None:
    complaint = "Invalid schema for function 'look': 'at' is not permitted."
    async with ScriptedOpenAI(error(400, complaint)) as server:
        with pytest.raises(ModelError, match="Invalid schema"):
            await ask(make(server), HI_WITH_TOOLS)
        assert len(server.requests) == 1


async def test_a_template_that_wants_the_roles_to_alternate(make: MakeModel) -> None:
    def choose(seen: Seen) -> Reply:
        roles = [message["role"] for message in seen.json()["messages"]]
        if any(a == b for a, b in itertools.pairwise(roles)):
            return error(500, "Conversation roles must alternate user/assistant/user/assistant/...")
        return stream("hi")

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server)
        assert said(await ask(model, Request((*HI.lines, UserLine("mo: there?"))))) == "hi"
        assert server.requests[-1].json()["messages"][-1]["content"] == "mo: hi\n\nmo: there?"


PICTURE = UserLine("mo: see", (Image("image/png", b"png"),))


@pytest.mark.parametrize(
    ("complaint", "status"),
    [
        ("image input is not supported - hint: you may need to provide the mmproj", 500),
        ("Invalid content type. image_url is only supported by certain models.", 400),
        ("tiny is not a multimodal model", 400),
        ("At most 0 image(s) may be provided in one prompt.", 400),
        ("You uploaded an unsupported image.", 400),
    ],
)
async def test_pictures_that_are_refused_are_named_instead(
    make: MakeModel, complaint: str, status: int
) -> None:
    def choose(seen: Seen) -> Reply:
        return error(status, complaint) if b"image_url" in seen.body else stream("hi")

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server, traits=Traits(vision=True))
        for _ in range(2):
            assert said(await ask(model, Request((PICTURE,)))) == "hi"
        # One refused picture does not blind the model for good.
        assert [b"image_url" in seen.body for seen in server.requests] == [True, False, True, False]


@pytest.mark.parametrize(
    "base_url",
    ["", "localhost:8080", "ftp://host/v1", "http://", "http://[::1/v1", "http://host:99999999/v1"],
)
def test_an_address_that_cannot_be_asked(base_url: str) -> None:
    with pytest.raises(ConfigError, match=r"https://api\.openai\.com/v1"):
        OpenAIChat("x", base_url=base_url)


def test_a_password_in_the_address_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        OpenAIChat("x", base_url="https://mo:hunter22@host/v1")
    assert "hunter22" not in str(caught.value)


def test_a_key_that_cannot_be_one_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        OpenAIChat("x", base_url="http://host/v1", api_key="sk-hunter22\nX-Evil: 1")
    assert "hunter22" not in str(caught.value)


async def test_a_line_break_after_the_key_does_not_matter(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        await ask(make(server, api_key="sk-secret\n"))
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret"


async def test_a_slash_at_the_end_of_the_address_does_not_matter(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server:
        model = OpenAIChat("x", base_url=server.base_url + "/")
        await ask(model)
        await model.close()
    assert server.requests[0].path == "/v1/chat/completions"


async def test_a_proxy_of_the_environment_is_used(make: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedOpenAI(stream("hi")) as proxy:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        model = OpenAIChat("x", base_url="http://models.example/v1")
        assert said(await ask(model)) == "hi"
        await model.close()
    assert proxy.requests[0].path == "http://models.example/v1/chat/completions"


def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://mo:hunter22@proxy.example")
    with pytest.raises(ConfigError, match="http_proxy") as caught:
        OpenAIChat("x", base_url="http://models.example/v1")
    assert "hunter22" not in str(caught.value)
