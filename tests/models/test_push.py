"""Replies that are pushed: in the call in which they arrive, in slices, until somebody has enough."""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from pixi.core.llm import Delta, Finished, Request, Text
from pixi.models.fallback import FallbackModel
from pixi.models.model import SLICE, Model, Traits, push
from pixi.models.server_model import ServerModel
from tests.models.doors import EVERY_DOOR, HI, Door
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    ScriptedOpenAI,
    Until,
    content,
    event,
    finish,
    head,
    stream,
)
from tests.waiting import within

ASKER: ContextVar[str] = ContextVar("asker", default="nobody")


@asynccontextmanager
async def asked(reply: Reply) -> AsyncGenerator[tuple[ServerModel, ScriptedOpenAI]]:
    async with ScriptedOpenAI(reply) as server:
        model = ServerModel("scripted", base_url=server.base_url)
        try:
            yield model, server
        finally:
            await model.close()


class Plain:
    """A model that only streams."""

    name = "plain"
    traits = Traits()

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        yield Text("x" * (2 * SLICE + 1))
        yield Finished()

    async def close(self) -> None:
        """Nothing is held."""


@EVERY_DOOR
async def test_a_delta_is_taken_in_the_call_in_which_it_arrives(door: Door) -> None:
    first = asyncio.Event()
    heard: list[tuple[str, bool, str]] = []

    def take(delta: Delta) -> bool:
        if isinstance(delta, Text):
            heard.append((delta.text.strip(), asyncio.current_task() is None, ASKER.get()))
            first.set()
        return False

    async with (
        ScriptedOpenAI(door.speaks.says("a", Until(first), "b")) as server,
        door.open(server.base_url) as model,
    ):
        for asker in ("mo", "bo"):  # over one connection
            ASKER.set(asker)
            await model.push(HI, take)
            first.clear()
        assert server.connections == 1
    later = [each for each in heard if each[0] == "b"]
    assert later == [("b", True, "mo"), ("b", True, "bo")], "no task was woken, and it is the asker's context"


async def slices_of(model: Model) -> list[int]:
    """The lengths of what was taken at once; others had their turn in between."""
    lengths: list[int] = []
    waiting = True

    async def others() -> None:
        nonlocal waiting
        while True:
            waiting = False
            await asyncio.sleep(0)

    def take(delta: Delta) -> bool:
        nonlocal waiting
        assert not (lengths and waiting and isinstance(delta, Text)), "nobody else had a turn"
        waiting = True
        if isinstance(delta, Text):
            lengths.append(len(delta.text))
        return False

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    await push(model, HI, take)
    task.cancel()
    return lengths


WORDS = b"".join(event(content("word ")) for _ in range(5_000))


@pytest.mark.parametrize(
    ("body", "characters"),
    [(event(content("x" * 50_000)) + event(finish()), 50_000), (WORDS + event(finish()), 25_000)],
    ids=["one event", "many events"],
)
async def test_what_comes_at_one_go_is_read_in_slices(body: bytes, characters: int) -> None:
    async with asked(Reply((head(content_length=str(len(body))) + body,))) as (model, _):
        lengths = await slices_of(model)
    assert sum(lengths) == characters
    assert len(lengths) > 5
    assert max(lengths) <= SLICE


async def test_what_a_model_streams_at_one_go_is_read_in_slices() -> None:
    assert await slices_of(Plain()) == [SLICE, SLICE, 1]


async def test_who_has_enough_gets_no_more_and_the_connection_is_closed() -> None:
    async with asked(stream("a", "b", Hang())) as (model, server):
        said: list[Delta] = []

        def take(delta: Delta) -> bool:
            said.append(delta)
            return True

        await model.push(HI, take)
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()
    assert len(said) == 1


@pytest.mark.parametrize("listed", [False, True])
async def test_what_goes_wrong_with_a_delta_is_raised_where_it_was_asked_for(listed: bool) -> None:
    def take(delta: Delta) -> bool:
        raise KeyError("bug")

    async with asked(stream("a", Hang())) as (model, server):
        several = FallbackModel([model], context_tokens=8_192, seconds=60)
        with pytest.raises(KeyError, match="bug"):
            await push(several if listed else model, HI, take)
        async with within("the end of the connection"):
            await server.requests[0].gone.wait()


@EVERY_DOOR
async def test_a_reply_that_is_packed_all_the_same(door: Door) -> None:
    plain = door.speaks.says("[SEND: hi", "]").steps
    body = b"".join(step for step in plain[1:] if isinstance(step, bytes))
    chunks = [each.split(b"\r\n", 1)[1] for each in body.split(b"\r\n0\r\n")[0].split(b"\n\n\r\n")]
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"\n\n".join(chunks) + b"\n\n") + packer.flush()
    halves = packed[: len(packed) // 2], packed[len(packed) // 2 :]
    reply = Reply((head(content_encoding="gzip", content_length=str(len(packed))), *halves))
    async with ScriptedOpenAI(reply) as server, door.open(server.base_url) as model:
        said = [delta.text async for delta in model.stream(HI) if isinstance(delta, Text)]
    assert "".join(said) == "[SEND: hi]"
