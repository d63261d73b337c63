"""The door to embeddings servers, over real sockets: what it asks, and what it makes of answers."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pixi.core.errors import ConfigError, ModelError
from pixi.core.llm import Prices, Usage
from pixi.models.embeddings import OpenAIEmbeddings
from pixi.models.faults import Retries
from tests.servers.scripted_embeddings import ScriptedEmbeddings, embeddings_server, listed, meaning
from tests.servers.scripted_openai import answer, error, page
from tests.waiting import until


@asynccontextmanager
async def door(server: ScriptedEmbeddings, **settings: Any) -> AsyncIterator[OpenAIEmbeddings]:
    settings.setdefault("retries", Retries(base=0.001))
    model = OpenAIEmbeddings("scripted", base_url=server.base_url, **settings)
    try:
        yield model
    finally:
        await model.close()
        await model.close()


def unit(text: str) -> list[float]:
    vector = meaning(text, {})
    return [number / math.hypot(*vector) for number in vector]


async def test_each_text_has_its_vector_of_length_1() -> None:
    async with embeddings_server() as server, door(server) as model:
        texts = ["the tall ship", "pancakes for tea", "a quiet evening"]
        vectors = await model.embed(texts)
        for text, vector in zip(texts, vectors, strict=True):
            assert list(vector) == pytest.approx(unit(text), abs=1e-6)
            assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


async def test_nothing_is_asked_for_nothing() -> None:
    async with embeddings_server() as server, door(server) as model:
        assert await model.embed([]) == []
        assert server.asked == []


async def test_many_texts_go_in_bounded_batches_a_few_side_by_side() -> None:
    async with embeddings_server() as server, door(server) as model:
        texts = [f"number {'x' * (i % 7)} word{chr(97 + i % 26)}" for i in range(700)]
        vectors = await model.embed(texts)
        assert len(vectors) == 700
        assert list(vectors[501]) == pytest.approx(unit(texts[501]), abs=1e-6)
        assert sorted(map(len, server.asked)) == [188, 256, 256]
        server.asked.clear()
        await model.embed(["long " * 10_000] * 60)
        assert max(len(text) for text in server.texts) <= 6_000
        assert max(sum(map(len, texts)) for texts in server.asked) <= 128 * 1024


async def test_no_more_requests_than_allowed_are_under_way() -> None:
    may_answer = asyncio.Event()
    async with embeddings_server(until=may_answer) as server, door(server, at_once=2) as model:
        asking = asyncio.create_task(model.embed(["x " * 2_900] * 100))  # five requests
        await until(lambda: len(server.asked) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(server.asked) == 2
        may_answer.set()
        assert len(await asking) == 100
        assert len(server.asked) == 5


async def test_empty_texts_and_half_characters_are_asked_for_as_something() -> None:
    async with embeddings_server() as server, door(server) as model:
        assert len(await model.embed(["", " \n", "a \ud83d b"])) == 3
        assert server.texts == ["-", "-", "a ? b"]


async def test_more_fields_are_sent_and_belong_to_the_name() -> None:
    async with embeddings_server() as server, door(server, extra_body={"dimensions": 64}) as model:
        await model.embed(["hello"])
        assert server.bodies[0]["dimensions"] == 64
        assert model.name == f'scripted at {server.base_url} {{"dimensions": 64}}'


async def test_the_key_is_sent_and_never_shown() -> None:
    refusing = embeddings_server(failing=[error(401, "bad key sk-canary-1")])
    async with refusing as server, door(server, api_key="sk-canary-1") as model:
        with pytest.raises(ModelError, match="refused the key") as raised:
            await model.embed(["hello"])
        assert "canary" not in f"{raised.value} {model!r} {model.name}"


async def test_what_passes_is_tried_again_and_what_does_not_is_not() -> None:
    failing = [error(503, "busy"), error(429, "slow down", retry_after="0.01")]
    async with embeddings_server(failing=failing) as server, door(server) as model:
        await model.embed(["hello"])
        assert len(server.asked) == 3
        server.failing = [error(503, "busy") for _ in range(3)]
        with pytest.raises(ModelError, match="503"):
            await model.embed(["hello"])
        assert len(server.asked) == 6
        server.failing = [error(404, "no model named so")]
        with pytest.raises(ModelError, match="no embeddings under"):
            await model.embed(["hello"])
        assert len(server.asked) == 7


BROKEN = {
    "too few": answer(200, listed([[1.0, 2.0]])),
    "too many": answer(200, listed([[1.0, 2.0]] * 3)),
    "no number": answer(200, '{"data": [{"embedding": [NaN, 1]}, {"embedding": [1, 2]}]}'),
    "too large a number": answer(200, '{"data": [{"embedding": [1e999, 1]}, {"embedding": [1, 2]}]}'),
    "no direction": answer(200, listed([[0.0, 0.0], [1.0, 0.0]])),
    "a text": answer(200, {"data": [{"embedding": "AAAA"}, {"embedding": "AAAA"}]}),
    "no dimension": answer(200, listed([[], []])),
    "mixed dimensions": answer(200, listed([[1.0], [1.0, 2.0]])),
    "other numbers": answer(200, {"data": [{"embedding": [1.0], "index": i} for i in (1, 2)]}),
    "another answer": answer(200, {"choices": []}),
    "no JSON": answer(200, "hello"),
    "a page": page(),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_what_are_no_vectors_of_the_texts_is_an_error(case: str) -> None:
    async with embeddings_server(failing=[BROKEN[case]] * 3) as server, door(server) as model:
        with pytest.raises(ModelError):
            await model.embed(["one", "two"])


async def test_vectors_keep_their_dimensions() -> None:
    async with embeddings_server() as server, door(server) as model:
        await model.embed(["one"])
        server.failing = [answer(200, listed([[1.0, 2.0]]))]
        with pytest.raises(ModelError, match="vectors of 2 dimensions after some of 64"):
            await model.embed(["one"])


async def test_a_server_that_is_slow_or_gone_is_an_error_in_time() -> None:
    async with embeddings_server(seconds=5) as server, door(server, seconds=0.1) as model:
        with pytest.raises(ModelError, match=r"sent no vectors within 0\.1 s"):
            await model.embed(["one"] * 600)
    async with door(server) as model:
        with pytest.raises(ModelError, match="Nothing answers"):
            await model.embed(["one"])


async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    async with embeddings_server(seconds=5) as server, door(server) as model:
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.embed(["one"] * 600)
        left = {task for task in asyncio.all_tasks() - before if "_serve" not in str(task.get_coro())}
        assert not left


def test_an_address_that_is_none_is_told_of() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIEmbeddings("x", base_url="localhost")


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 7, "total_tokens": 7}, [7]),
        ({"prompt_tokens": 0}, []),
        ({"prompt_tokens": -3}, []),
        ({"prompt_tokens": "many"}, []),
        ({}, []),
        (None, []),
        ("none", []),
    ],
)
async def test_what_the_server_counted_is_told(usage: object, counted: list[int]) -> None:
    told: list[tuple[str, Usage, Prices | None]] = []

    def count(model: str, used: Usage, prices: Prices | None) -> None:
        told.append((model, used, prices))

    prices = Prices(0.02, 0.0, 0.02)
    body = {"data": [{"index": 0, "embedding": [1.0, 2.0]}], "usage": usage}
    async with embeddings_server() as server, door(server, prices=prices, count=count) as model:
        server.failing.append(answer(200, body))
        await model.embed(["a"])
        assert told == [("scripted", Usage(tokens), prices) for tokens in counted]
