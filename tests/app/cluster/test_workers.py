"""Workers that end, die or stand still: another one goes on, and nothing is lost or said twice."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest
from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

from pixi.app.cluster.gateway import GatewayService
from pixi.app.cluster.queue import ConversationQueue, open_queue
from pixi.app.cluster.worker import Worker
from pixi.app.personas import PersonaSet
from pixi.channels.discord.bot import Bot
from pixi.core.channel import Channel
from pixi.core.errors import ModelError, StoreError
from pixi.engine import Engine
from pixi.models.breaker import Breakers
from pixi.settings import Settings
from pixi.store.kept import ChannelConfig
from pixi.store.opening import open_store
from pixi.testing import ScriptedModel
from tests.app.cluster.house import TALK, House, working
from tests.engine.scene import PIXI
from tests.servers.postgres import Postgres
from tests.waiting import until


@asynccontextmanager
async def hired(house: House, url: str, model: ScriptedModel) -> AsyncGenerator[Worker, None]:
    """A worker with an engine, a store and a queue of its own, as another process has them."""
    store = await open_store(url)
    async with (
        open_queue(url) as queue,
        Engine(model=model, persona=PIXI, store=store) as engine,
        working(engine, store, queue, house, concurrency=1) as worker,
    ):
        yield worker
    await store.close()


async def test_what_nobody_has_seen_goes_to_another_worker_when_one_ends(house: House, url: str) -> None:
    first = ScriptedModel([asyncio.Event()])
    async with hired(house, url, first):
        await house.say("hi")
        await until(lambda: first.streaming)
    assert house.said() == []
    async with hired(house, url, ScriptedModel("[SEND: b]")):
        await until(house.said)
        await house.rests()
    assert house.said() == ["b"]


async def test_what_people_see_coming_is_finished_before_a_worker_ends(house: House, url: str) -> None:
    go_on = asyncio.Event()
    first = ScriptedModel(["[SEND: a]\n[SEND: b", go_on, "]\n[SEND: c]"])
    second = ScriptedModel("[SEND: d]")
    async with hired(house, url, first):
        await house.say("hi")
        await until(house.said)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert house.said() == ["a", "b"]
    async with hired(house, url, second):
        await until(lambda: len(house.said()) == 3)
        await house.rests()
    assert house.said() == ["a", "b", "d"], "the other goes on where it was cut"


async def test_a_worker_that_is_told_to_end_lives_until_its_replies_have_ended(
    url: str,
    queue: ConversationQueue,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def in_database(statement: str) -> list[tuple[object, ...]]:
        return postgres.run_in(url.partition("schema=")[2], statement)

    async def answer(conversation: str, times: int) -> None:
        begun.set()
        await go_on.wait()

    monkeypatch.setattr("pixi.app.cluster.queue.BEAT_SECONDS", 0.01)
    caplog.set_level("INFO", "procrastinate")
    begun, go_on = asyncio.Event(), asyncio.Event()
    await queue.put(TALK)
    working = asyncio.create_task(queue.work(answer, bot=TALK, concurrency=1))
    await begun.wait()
    working.cancel()
    await until(lambda: "Waiting for job to finish" in caplog.text)
    in_database("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'")
    fresh = "SELECT 1 FROM procrastinate_workers WHERE last_heartbeat > now() - interval '30 seconds'"
    await until(lambda: in_database(fresh))
    go_on.set()
    await asyncio.wait([working])


async def test_a_reply_under_way_keeps_nobody_waiting_once_the_database_is_back(
    queue: ConversationQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(conversation: str, times: int) -> None:
        begun.append(conversation)
        await go_on.wait()

    fetch = JobManager.fetch_job

    async def away_once(*args: Any, **more: Any) -> Job | None:
        if begun and not failed:
            failed.append(True)
            raise ConnectorException
        return await fetch(*args, **more)

    failed: list[bool] = []
    begun: list[str] = []
    go_on = asyncio.Event()
    monkeypatch.setattr(JobManager, "fetch_job", away_once)
    monkeypatch.setattr("pixi.app.cluster.queue._AGAIN_SECONDS", 0.0)
    working = asyncio.create_task(queue.work(answer, bot=TALK, concurrency=4))
    await queue.put(TALK)
    await until(lambda: failed)
    await queue.put("discord:1:3:pixi")
    await until(lambda: len(begun) == 2)
    go_on.set()
    working.cancel()
    await asyncio.wait([working])
    assert begun == [TALK, "discord:1:3:pixi"]


async def test_a_worker_hears_of_new_jobs_again_once_the_database_is_back(
    queue: ConversationQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen_notify(*_: object, **__: object) -> None:
        tries.append(True)
        if len(tries) == 1:
            await answered.wait()
            raise ConnectorException
        await asyncio.Event().wait()

    async def answer(conversation: str, times: int) -> None:
        answered.set()

    tries: list[bool] = []
    answered = asyncio.Event()
    monkeypatch.setattr(PsycopgConnector, "listen_notify", listen_notify)
    monkeypatch.setattr("pixi.app.cluster.queue._AGAIN_SECONDS", 0.0)
    working = asyncio.create_task(queue.work(answer, bot=TALK, concurrency=1))
    await queue.put(TALK)
    await until(lambda: len(tries) == 2)
    working.cancel()
    await asyncio.wait([working])


async def test_a_gateway_that_may_have_missed_a_signal_keeps_nobodys_last_words(
    url: str, queue: ConversationQueue, house: House, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.app.cluster.queue._AGAIN_SECONDS", 0.0)
    told: list[str | None] = []
    bot = mock.Mock(spec=Bot, forget=told.append)
    gateway = GatewayService(Settings(), mock.Mock(spec=PersonaSet), house.store, queue, {})
    async with gateway.heeding(bot):
        postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = %s",
            f"LISTEN {queue._channel}",
        )
        await until(lambda: told)
    assert told == [None]


async def test_a_gateway_goes_by_what_was_chosen_elsewhere_and_passes_over_an_unknown_question(
    queue: ConversationQueue, house: House, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = GatewayService(Settings(), mock.Mock(spec=PersonaSet), house.store, queue, {})
    chosen = ChannelConfig(model="fast")
    async with gateway.heeding(mock.Mock(spec=Bot, approvals=mock.Mock())):
        await queue.signal_all("asked", '{"of": "another version"}')
        await until(lambda: "is not understood; is it of another version?" in caplog.text)
        await house.store.set_place("discord:1:2:", chosen)
        await queue.signal_all("places")
        await until(lambda: gateway.place("discord:1:2:") == chosen)


async def test_a_conversation_that_cannot_be_looked_at_keeps_no_other_from_it() -> None:
    async def open_channel(conversation: str) -> Channel | None:
        if conversation == TALK:
            raise StoreError("not now")
        return None

    service = mock.Mock()
    service.engine.busy = (TALK, "discord:1:3:pixi")
    service.engine.look = mock.AsyncMock()
    worker = Worker(service, mock.Mock(), open_channel, TALK, lambda *_: None)
    await worker.heed("look", "")
    service.engine.look.assert_awaited_once_with("discord:1:3:pixi")


async def test_a_worker_hears_of_a_server_of_models_that_fails_another(
    house: House, url: str, queue: ConversationQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(worker: Worker, *, fails: bool) -> None:
        with worker._service.breakers.of("models:1").asking() as asking:
            asking.failed(ModelError("busy")) if fails else asking.answered()

    def hear(breakers: Breakers, place: str) -> None:
        heard.add((breakers, place))
        suspect(breakers, place)

    async def both_hear() -> bool:
        await queue.signal_all("fails", "models:2")
        return len(heard) == 2

    heard: set[tuple[Breakers, str]] = set()
    suspect = Breakers.suspect
    monkeypatch.setattr(Breakers, "suspect", hear)
    async with hired(house, url, ScriptedModel()) as first, hired(house, url, ScriptedModel()) as second:
        await until(both_hear)
        ask(second, fails=False)
        for _ in range(3):
            ask(first, fails=True)
        await until(lambda: (second._service.breakers, "models:1") in heard)
        ask(second, fails=True)
        assert second._service.breakers.open == {"models:1": True}


async def test_a_worker_takes_from_the_queues_that_it_was_given_and_others_from_all(url: str) -> None:
    async def answer(conversation: str, times: int) -> None:
        answered.append(conversation)

    async def work(*queues: str, until_answered: Sequence[str]) -> None:
        async with open_queue(url, ["sage", "baker"]) as own:
            working = asyncio.create_task(own.work(answer, bot=TALK, concurrency=1, queues=queues))
            await until(lambda: answered == until_answered)
            working.cancel()
            await asyncio.wait([working])

    answered: list[str] = []
    sage, baker, wren = "discord:1:2:sage", "discord:1:3:baker", "discord:1:4:wren"
    await (await open_store(url)).close()
    async with open_queue(url) as queue:
        await queue.put(baker)
    async with open_queue(url, ["sage", "baker"]) as queue:
        for each in (wren, sage):
            await queue.put(each)
        await queue.move(baker)  # it was queued while the baker had no queue
        await work("sage", until_answered=[sage])
        await work("baker", until_answered=[sage, baker])
        await queue.put(sage)
        await work(until_answered=[sage, baker, wren, sage])


async def test_another_bot_on_the_same_store_is_left_to_its_own_workers(house: House, url: str) -> None:
    others = "discord:9:2:pixi"
    async with hired(house, url, ScriptedModel("[SEND: a]", "[SEND: b]")):
        await house.say("hi", conversation=others)
        await house.say("hi")
        await until(house.said)
        await house.rests()
        await house.say("and?")
        await until(lambda: len(house.said()) == 2)
    assert house.said(others) == []
    assert others in await house.store.unanswered(others, 0.0)


async def test_a_worker_that_stood_still_says_no_more_once_another_took_over(
    house: House, url: str, queue: ConversationQueue, postgres: Postgres
) -> None:
    schema = url.partition("schema=")[2]
    go_on = asyncio.Event()
    slow = ScriptedModel(["[SEND: a]\n[SEND: b", go_on, "]\n[SEND: c]\n[REACT: 👍]"])
    other = ScriptedModel("[SEND: d]")
    async with hired(house, url, slow):
        await house.say("hi")
        await until(house.said)
        postgres.run_in(
            schema, "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'"
        )
        await queue.take_up()
        async with hired(house, url, other):
            await until(lambda: len(house.said()) == 2)
            go_on.set()
            await until(lambda: not slow.streaming)
            await house.rests()
            assert house.said() == ["a", "d"]
            assert house.channel().reactions == []


async def test_deaths_are_counted_and_a_conversation_is_begun_again_ever_later(
    url: str, queue: ConversationQueue, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    def in_database(statement: str) -> list[tuple[Any, ...]]:
        return postgres.run_in(url.partition("schema=")[2], statement)

    async def dies(after: str = "0 s") -> str:
        in_database("UPDATE procrastinate_jobs SET status = 'doing' WHERE status = 'todo'")  # of no worker
        in_database(f"UPDATE procrastinate_events SET at = at - interval '{after}' WHERE type = 'started'")
        await queue.put(TALK)  # somebody wrote meanwhile
        caplog.clear()
        await queue.take_up()
        return caplog.messages[0].partition("stands still")[2]

    await queue.put(TALK)
    told = [await dies() for _ in range(7)]
    assert [line.partition("again in ")[2] for line in told] == [
        *("0 s)", "2 s)", "4 s)", "8 s)", "16 s)", "32 s)", "32 s)")
    ]
    assert told[1] == " (2 times on end; it is begun again in 2 s)"
    waits = "SELECT attempts, scheduled_at > now() FROM procrastinate_jobs"
    assert in_database(waits) == [(7, True)]
    assert await dies(after="2 minutes") == " (1 time on end; it is begun again in 0 s)", (
        "it was no deadly one"
    )
    assert in_database(waits) == [(1, False)]


@pytest.mark.nightly
async def test_a_server_that_is_started_again_while_a_worker_answers(
    house: House, url: str, postgres: Postgres
) -> None:
    go_on = asyncio.Event()
    async with hired(house, url, ScriptedModel(["[SEND: a]\n[SEND: b", go_on, "]"], "[SEND: c]")):
        await house.say("hi")
        await until(house.said)
        postgres.stop()
        postgres.start()
        go_on.set()
        await until(lambda: len(house.said()) == 2)
        await house.say("and?")
        await until(lambda: len(house.said()) == 3)
        await house.rests()
    assert house.said() == ["a", "b", "c"]


async def test_a_wrong_clock_is_told(
    url: str, queue: ConversationQueue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pixi.app.cluster.queue.time.time", lambda: 0.0)
    async with open_queue(url):
        pass
    assert "behind the database server's: set it right" in caplog.text
