"""Servers that do not answer are spared, and whoever waits for them: over real sockets."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, asynccontextmanager

import pytest

from pixi.core.errors import ModelError
from pixi.core.llm import Request, Text, UserLine
from pixi.models.breaker import BreakerPolicy, Breakers
from pixi.models.deadlines import Deadlines
from pixi.models.embeddings import OpenAIEmbeddings
from pixi.models.faults import Retries
from pixi.models.server_model import ServerModel
from tests.servers.model_faults import closed_port
from tests.servers.scripted_openai import (
    Hang,
    Reply,
    Reset,
    ScriptedOpenAI,
    Stall,
    Tell,
    Until,
    answer,
    error,
    page,
    stream,
)
from tests.waiting import until

HI = Request((UserLine("mo: hi"),))
FINE = stream("fine")
VECTOR = answer(200, {"data": [{"embedding": [1.0, 0.0], "index": 0}]})
QUICK = Retries(base=0.001)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breakers(clock: Clock) -> Breakers:
    return Breakers(clock, BreakerPolicy(failures=2, pause=5.0))


@asynccontextmanager
async def chat(
    base_url: str, breakers: Breakers, name: str = "m", *, retries: Retries = QUICK, first: float = 5.0
) -> AsyncGenerator[ServerModel, None]:
    deadlines = Deadlines(first=first, gap=5, turn=10)
    model = ServerModel(name, base_url=base_url, retries=retries, deadlines=deadlines, breakers=breakers)
    try:
        yield model
    finally:
        await model.close()


async def never(_: float) -> None:
    raise AssertionError("it was to be told at once")


async def said(model: ServerModel) -> str:
    return "".join([delta.text async for delta in model.stream(HI) if isinstance(delta, Text)])


async def fault(of: Awaitable[object]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await of
    return caught.value


@pytest.mark.parametrize("broken", [error(500, "Oh no"), Reply((Reset(),)), page(502)])
async def test_a_broken_server_is_left_alone_and_asked_again(
    broken: Reply, breakers: Breakers, clock: Clock
) -> None:
    replies = [broken] * 6 + [broken, FINE]
    async with ScriptedOpenAI(*replies) as server, chat(server.base_url, breakers) as model:
        for _ in range(2):
            await fault(said(model))
        assert len(server.requests) == 6
        # Open: nobody waits, and the server hears nothing.
        clock.now += 4
        refused = await fault(said(model))
        assert "has not answered for 4 s; it is asked again in 1 s. Last time: " in str(refused)
        assert len(server.requests) == 6
        # The probe is tried once, and a failure makes the pause longer.
        clock.now += 1
        await fault(said(model))
        assert len(server.requests) == 7
        assert (await fault(said(model))).retry_after == 10
        clock.now += 10
        assert await said(model) == "fine"
        assert await said(model) == "fine"


async def test_all_models_at_a_server_share_what_is_known_of_it(breakers: Breakers) -> None:
    nobody = f"http://127.0.0.1:{closed_port()}/v1"
    vectors = OpenAIEmbeddings("v", base_url=nobody, retries=QUICK, breakers=breakers)
    async with (
        ScriptedOpenAI(FINE) as server,
        chat(nobody, breakers, "one") as one,
        chat(nobody, breakers, "two") as two,
        chat(server.base_url, breakers) as elsewhere,
    ):
        assert "Nothing answers at" in str(await fault(said(one)))
        assert "Nothing answers at" in str(await fault(said(two)))
        for asked in (said(one), said(two), vectors.embed(["hi"])):
            assert "has not answered for" in str(await fault(asked))
        assert await said(elsewhere) == "fine"
        await vectors.close()


async def test_embeddings_open_and_close_it_too(breakers: Breakers, clock: Clock) -> None:
    async with ScriptedOpenAI(*[error(503, "No")] * 6, error(503, "No"), VECTOR) as server:
        model = OpenAIEmbeddings("v", base_url=server.base_url, retries=QUICK, breakers=breakers)
        for _ in range(2):
            await fault(model.embed(["hi"]))
        assert "has not answered" in str(await fault(model.embed(["hi"])))
        clock.now += 5
        await fault(model.embed(["hi"]))
        assert len(server.requests) == 7
        clock.now += 10
        assert len(await model.embed(["hi"])) == 1
        assert len(await model.embed(["hi"])) == 1
        await model.close()


async def test_stalls_count_and_spare_the_others_their_wait(
    breakers: Breakers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.models.server_model.is_near", lambda host: False)
    async with ScriptedOpenAI(Reply((Stall(),))) as server, chat(server.base_url, breakers) as model:
        for _ in range(2):
            assert "sent no words for" in str(await fault(said(model)))
        assert "Last time: " in str(await fault(said(model)))
        assert len(server.requests) == 2


async def test_a_server_near_by_that_is_slow_is_none_that_is_dead(breakers: Breakers) -> None:
    async with (
        ScriptedOpenAI(*[Reply((Stall(),))] * 3, FINE) as server,
        chat(server.base_url, breakers) as model,
    ):
        for _ in range(3):
            assert "raise first_seconds, or take a smaller model" in str(await fault(said(model)))
        assert await said(model) == "fine"


@pytest.mark.parametrize(
    ("no", "tries"),
    [
        (error(401, "Incorrect API key provided."), 1),
        (error(404, "The model does not exist"), 1),
        (error(400, "temperature: only 1"), 1),
        (error(429, "Slow down"), 3),
        (page(200), 1),
    ],
)
async def test_a_no_is_an_answer(no: Reply, tries: int, breakers: Breakers) -> None:
    broken = error(500, "Oh no")
    replies = [*[broken] * 3, *[no] * tries, *[broken] * 3, FINE]
    async with ScriptedOpenAI(*replies) as server, chat(server.base_url, breakers) as model:
        for _ in range(3):
            await fault(said(model))
        assert await said(model) == "fine"


async def test_a_key_that_is_refused_at_vectors_is_an_answer(breakers: Breakers) -> None:
    async with ScriptedOpenAI(error(401, "No")) as server:
        model = OpenAIEmbeddings("v", base_url=server.base_url, retries=QUICK, breakers=breakers)
        for _ in range(4):
            assert "wants a key" in str(await fault(model.embed(["hi"])))
        await model.close()


async def test_who_is_between_two_attempts_when_it_opens_does_not_ask_a_third_time(
    breakers: Breakers,
) -> None:
    paused, over = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await over.wait()

    async with (
        ScriptedOpenAI(error(500, "Oh no")) as server,
        chat(server.base_url, breakers, retries=Retries(sleep=sleep)) as slow,
        chat(server.base_url, breakers, retries=Retries(attempts=1)) as model,
    ):
        waiting = asyncio.create_task(fault(said(slow)))
        await paused.wait()
        for _ in range(2):
            await fault(said(model))
        over.set()
        assert "failed (500)" in str(await waiting)
        assert len(server.requests) == 4


async def test_only_one_of_many_finds_out_whether_it_is_back(breakers: Breakers, clock: Clock) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    slow = Reply((Tell(asked), Until(may_answer), *FINE.steps))
    replies = [*[error(500, "Oh no")] * 6, slow, FINE]
    async with ScriptedOpenAI(*replies) as server, chat(server.base_url, breakers) as model:
        for _ in range(2):
            await fault(said(model))
        clock.now += 5
        probe = asyncio.create_task(said(model))
        await asked.wait()
        for _ in range(5):
            assert "asked again just now" in str(await fault(said(model)))
        assert len(server.requests) == 7
        may_answer.set()
        assert await probe == "fine"
        assert await said(model) == "fine"


async def test_a_probe_that_is_cancelled_is_none(breakers: Breakers, clock: Clock) -> None:
    replies = [*[error(500, "Oh no")] * 6, Reply((Hang(),)), FINE]
    async with ScriptedOpenAI(*replies) as server, chat(server.base_url, breakers) as model:
        for _ in range(2):
            await fault(said(model))
        clock.now += 5
        probe = asyncio.create_task(said(model))
        await until(lambda: len(server.requests) == 7)
        probe.cancel()
        await asyncio.wait([probe])
        assert await said(model) == "fine"


async def test_a_reader_that_leaves_after_the_first_words_leaves_it_closed(breakers: Breakers) -> None:
    async with (
        ScriptedOpenAI(*[error(500, "Oh no")] * 3, stream("hi", Hang())) as server,
        chat(server.base_url, breakers) as model,
    ):
        await fault(said(model))
        async with aclosing(model.stream(HI)) as deltas:
            assert await anext(deltas) == Text("hi")
        assert breakers.of(server.base_url.split("/")[2]).is_open is False


async def test_all_who_want_a_model_wait_as_its_server_asked(breakers: Breakers, clock: Clock) -> None:
    slept: list[float] = []
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await over.wait()

    retries = Retries(sleep=sleep)
    async with (
        ScriptedOpenAI(error(429, "Slow", retry_after="7"), FINE) as server,
        chat(server.base_url, breakers, retries=retries, first=60) as model,
        chat(server.base_url, breakers, retries=retries, first=60) as same,
        chat(server.base_url, breakers, "another", retries=retries) as another,
    ):
        first = asyncio.create_task(said(model))
        await until(lambda: len(slept) == 1)
        clock.now += 2
        second = asyncio.create_task(said(same))
        await until(lambda: len(slept) == 2)
        assert slept == [7, 5]
        assert await said(another) == "fine"
        assert len(server.requests) == 2
        clock.now += 5
        over.set()
        assert [await first, await second] == ["fine", "fine"]
        assert [seen.json()["model"] for seen in server.requests] == ["m", "another", "m", "m"]


async def test_a_wait_that_is_longer_than_patience_is_told_at_once_to_all(
    breakers: Breakers, clock: Clock
) -> None:
    async with (
        ScriptedOpenAI(error(429, "Slow", retry_after="60"), FINE) as server,
        chat(server.base_url, breakers) as model,
    ):
        assert (await fault(said(model))).retry_after == 60
        clock.now += 20
        told = await fault(said(model))
        assert "asked to be left alone for 40 s more" in str(told)
        assert told.retry_after == 40
        assert len(server.requests) == 1
        clock.now += 40
        assert await said(model) == "fine"


async def test_one_of_a_list_does_not_wait_long(breakers: Breakers) -> None:
    async with (
        ScriptedOpenAI(error(429, "Slow", retry_after="3"), FINE) as server,
        chat(server.base_url, breakers, retries=Retries(wait=2.0, sleep=never)) as model,
    ):
        assert "asks to wait 3 s" in str(await fault(said(model)))
        assert "left alone for 3 s" in str(await fault(said(model)))
        assert len(server.requests) == 1
