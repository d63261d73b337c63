"""What is particular to chat completions, over real sockets; for the rest: `test_every_door`."""

import itertools
from collections.abc import Callable

import pytest

from pixi.core.errors import ConfigError
from pixi.core.llm import AssistantLine, Finished, Request, ToolCall, ToolLine, Usage, UserLine
from pixi.core.message import Image
from pixi.models.connections import open_session
from pixi.models.deadlines import Deadlines
from pixi.models.model import Traits
from pixi.models.server_model import ServerModel
from tests.models.doors import HI, HI_WITH_TOOLS, LOOK, MakeModel, ask, text_of
from tests.servers.model_faults import odd_calls
from tests.servers.scripted_openai import (
    Json,
    Later,
    Reply,
    ScriptedOpenAI,
    Seen,
    Step,
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
        pytest.param(with_other_line_ends(PANCAKES, b"\r\n"), id="CRLF, comments, event names"),
        pytest.param(with_other_line_ends(PANCAKES, b"\r"), id="CR, comments, event names"),
    ],
)
async def test_the_line_ends_of_the_format(make: MakeModel, reply: Reply) -> None:
    async with ScriptedOpenAI(reply) as server:
        deltas = await ask(make(server))
    assert text_of(deltas) == "[SEND: pancakes 🥞 für alle]"
    assert deltas[-2:] == [ToolCall("c1", "look", '{"at": "cat"}'), Finished("stop", Usage(20, 16, 9))]


async def test_utf8_cut_between_chunks(make: MakeModel) -> None:
    whole = event(content("🥞é"))
    async with ScriptedOpenAI(stream(*(whole[i : i + 1] for i in range(len(whole))))) as server:
        assert text_of(await ask(make(server))) == "🥞é"


async def test_an_empty_reply_is_a_reply(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream(finish(), usage(20, 0))) as server:
        assert await ask(make(server)) == [Finished("stop", Usage(20, 0, 0))]
        assert len(server.requests) == 1


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
        "messages": [{"role": "system", "content": "You are Pixi."}, {"role": "user", "content": "mo: hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "temperature": 0.7,
        "max_tokens": 300,
        "seed": 7,
        "stop": ["x"],
    }
    assert with_tools.json()["parallel_tool_calls"] is True
    assert with_tools.json()["tools"][0]["function"]["name"] == "look"


async def test_models_share_a_session_that_they_do_not_close(make: MakeModel) -> None:
    async with ScriptedOpenAI(stream("hi")) as server, open_session() as session:
        one, two = make(server, session=session), make(server, session=session)
        await ask(one)
        await one.close()
        assert text_of(await ask(two)) == "hi"
        assert server.connections == 1


def answer_without(field: str, complaint: str, status: int = 400) -> Callable[[Seen], Reply]:
    """A server that refuses requests with that field."""
    return lambda seen: error(status, complaint) if field in seen.json() else stream("hi")


@pytest.mark.parametrize(
    ("field", "complaint", "status"),
    [
        ("stream_options", "Unknown parameter: 'stream_options'.", 400),
        ("stream_options", "Extra inputs are not permitted (body.stream_options)", 422),
        ("parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls' with this model.", 400),
        ("max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", 400),
        ("response_format", "This response_format type is unavailable now", 400),
        ("response_format", "Parameter 'response_format' of type 'json_schema' is not supported.", 400),
        ("response_format", "Extra inputs are not permitted (body.response_format)", 422),
        ("response_format", "failed to parse grammar", 500),
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
    wish = Request(HI.lines, tools=(LOOK,), schema={"type": "object"})
    async with ScriptedOpenAI(choose=answer_without(field, complaint, status)) as server:
        model = make(server, max_tokens=300)
        for _ in range(2):
            assert text_of(await ask(model, wish)) == "hi"
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


async def test_a_template_that_wants_the_roles_to_alternate(make: MakeModel) -> None:
    def choose(seen: Seen) -> Reply:
        roles = [message["role"] for message in seen.json()["messages"]]
        if any(a == b for a, b in itertools.pairwise(roles)):
            return error(500, "Conversation roles must alternate user/assistant/user/assistant/...")
        return stream("hi")

    async with ScriptedOpenAI(choose=choose) as server:
        model = make(server)
        assert text_of(await ask(model, Request((*HI.lines, UserLine("mo: there?"))))) == "hi"
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
            assert text_of(await ask(model, Request((PICTURE,)))) == "hi"
        # One refused picture does not blind the model for good.
        assert [b"image_url" in seen.body for seen in server.requests] == [True, False, True, False]


@pytest.mark.parametrize(
    "slow", [chunk({"reasoning": "hm"}), chunk({"reasoning_content": "hm"}), call(arguments="1", index=0)]
)
async def test_whatever_is_content_keeps_a_slow_reply_alive(make: MakeModel, slow: Json) -> None:
    steps: list[Json | Step] = [slow, Later(1)]
    reply = stream(*steps * 6)
    async with ScriptedOpenAI(reply) as server:
        deltas = await ask(make(server, deadlines=Deadlines(first=4, gap=4, turn=60)))
    assert len(deltas) >= 2


async def test_calls_whose_pieces_come_out_of_order(make: MakeModel) -> None:
    async with ScriptedOpenAI(odd_calls("look")) as server:
        assert await ask(make(server)) == [
            ToolCall("a", "look", '{"at": "one"}'),
            ToolCall("b", "look", '{"at": "two"}'),
            ToolCall("c", "look", '{"at": "three"}'),
            Finished("stop"),
        ]


async def test_a_listing_without_models(make: MakeModel) -> None:
    async with ScriptedOpenAI(answer(200, {"object": "list", "data": None})) as server:
        assert await make(server).models() == []


def test_an_address_there_must_be() -> None:
    with pytest.raises(ConfigError, match=r"https://api\.openai\.com/v1"):
        ServerModel("x", base_url="")
