"""Replies that are longer or shorter than their server declares: what came is delivered, whole if it is."""

import asyncio
import json

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import Request, Text, UserLine
from pixi.models.dialects.gemini import Gemini
from pixi.models.faults import Retries
from pixi.models.model import Model
from pixi.models.server_model import ServerModel
from tests.servers.scripted_openai import Close, Reply, ScriptedOpenAI, Until, content, event, finish, head

HI = Request((UserLine("hi"),))
SAID = "[SEND: pancakes for all of us]"
STREAM = b"".join(
    event(each) for each in (content("[SEND: pancakes "), content("for all of us]"), finish(), "[DONE]")
)
WHOLE = json.dumps({"choices": [{"message": {"content": SAID}, "finish_reason": "stop"}]}).encode()
GEMINI = b"".join(
    f"data: {json.dumps({'candidates': [part]})}\r\n\r\n".encode()
    for part in (
        {"content": {"role": "model", "parts": [{"text": "[SEND: pancakes "}]}},
        {"content": {"role": "model", "parts": [{"text": "for all of us]"}]}, "finishReason": "STOP"},
    )
)


async def said_by(model: Model) -> str:
    try:
        return "".join([delta.text async for delta in model.stream(HI) if isinstance(delta, Text)])
    finally:
        await model.close()


def declaring(length: int, body: bytes, *steps: Close) -> Reply:
    """The reply in one packet, of another length than its head says."""
    return Reply((head(content_length=str(length)) + body, *steps))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.5])
@pytest.mark.parametrize("body", [STREAM, WHOLE], ids=["streamed", "in one piece"])
async def test_a_reply_is_read_whole_whatever_length_it_declares(body: bytes, share: float) -> None:
    async with ScriptedOpenAI(declaring(int(len(body) * share), body, Close())) as server:
        model = ServerModel("scripted", base_url=server.base_url, retries=Retries(attempts=1))
        assert await said_by(model) == SAID


async def test_what_comes_later_than_the_declared_length_ends_the_reply_there() -> None:
    begun = event(content("[SEND: pan")) + event(finish())
    reply = Reply((head(content_length=str(len(begun))), begun, event(content("cakes]")), Close()))
    async with ScriptedOpenAI(reply) as server:
        assert await said_by(ServerModel("scripted", base_url=server.base_url)) == "[SEND: pan"


async def test_a_packet_within_a_reply_is_read_as_it_is_though_it_looks_like_a_head() -> None:
    first = asyncio.Event()
    begun = event(content("[SEND: pan"))
    rest = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + event(content("cakes]"))
    whole = head(content_length=str(len(begun + rest)))
    async with ScriptedOpenAI(Reply((whole + begun, Until(first), rest, Close()))) as server:
        model = ServerModel("scripted", base_url=server.base_url, retries=Retries(attempts=1))
        said = ""
        async for delta in model.stream(HI):
            if isinstance(delta, Text):
                said += delta.text
                first.set()
        await model.close()
    assert said == "[SEND: pancakes]"


async def test_a_reply_of_the_right_length_keeps_its_connection() -> None:
    for blank in (b"", b"\r\n"):  # which some servers send behind a body
        async with ScriptedOpenAI(declaring(len(WHOLE), WHOLE + blank)) as server:
            model = ServerModel("scripted", base_url=server.base_url)
            for _ in range(3):
                assert [each.text async for each in model.stream(HI) if isinstance(each, Text)] == [SAID]
            await model.close()
            assert server.connections == 1


async def test_half_an_object_is_no_reply() -> None:
    async with ScriptedOpenAI(declaring(len(WHOLE), WHOLE[: len(WHOLE) // 2], Close())) as server:
        with pytest.raises(ModelError, match="broke the connection off"):
            await said_by(ServerModel("scripted", base_url=server.base_url, retries=Retries(attempts=1)))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
async def test_it_is_so_in_any_dialect(share: float) -> None:
    async with ScriptedOpenAI(declaring(int(len(GEMINI) * share), GEMINI, Close())) as server:
        model = ServerModel("m", Gemini(), base_url=server.base_url, retries=Retries(attempts=1))
        assert await said_by(model) == SAID
