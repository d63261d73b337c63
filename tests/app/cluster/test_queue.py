"""The queue where its database fails it; what it does with a database is tested with workers and gateways."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import cast
from unittest.mock import AsyncMock, Mock

import pytest
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.testing import InMemoryConnector

from pixi.app.cluster.queue import STALLED_SECONDS, ConversationQueue
from pixi.app.cluster.worker import LEAVE_SECONDS, Worker
from pixi.store.postgres.address import read_address
from tests.held_clock import HeldClock
from tests.waiting import within


async def test_work_that_is_cancelled_ends_though_the_database_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App(connector=InMemoryConnector())
    began = asyncio.Event()

    async def run(worker: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectorException

    async def answer(conversation: str, times: int) -> None:
        raise AssertionError(conversation, times)

    monkeypatch.setattr("pixi.app.cluster.queue._JobWorker.run", run)
    working = asyncio.create_task(
        ConversationQueue(app, read_address("postgresql://localhost/talks")).work(
            answer, bot="discord:1:", concurrency=1
        )
    )
    await began.wait()
    began.clear()
    working.cancel()
    async with within("the end of the work"):
        await asyncio.wait([working])

    assert not began.is_set()


class Beats:
    """What a database shows of a worker that has a conversation, beats each second, and dies in the end.

    The database is away for a while, in which questions fail or get their answer late.
    """

    AWAY, BACK, BEATS_AGAIN, DIED = 10.0, 15.0, 17.0, 30.0

    def __init__(self, clock: HeldClock, *, silent: bool) -> None:
        self._clock, self._began, self._silent = clock, clock.time(), silent
        self.taken_up: list[float] = []

    @property
    def now(self) -> float:
        return self._clock.time() - self._began

    async def get_stalled_jobs(self, *, seconds_since_heartbeat: float) -> list[Mock]:
        if self.AWAY <= self.now < self.BACK:
            if not self._silent:
                raise ConnectorException
            await asyncio.sleep(self.BACK - self.now)
        if self.taken_up:  # it is another worker's from now on
            return []
        last = self.AWAY if self.now < self.BEATS_AGAIN else self.DIED
        job = Mock(lock="discord:1:2:pixi", task_kwargs={})
        return [job] if self.now - last > seconds_since_heartbeat else []

    async def finish_job(self, *_: object, **__: object) -> None:
        self.taken_up.append(self.now)


@pytest.mark.parametrize("silent", [False, True])
async def test_the_living_beat_first_once_the_database_is_back_and_the_dead_are_taken_up(
    clock: HeldClock, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    async def run(worker: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("pixi.app.cluster.queue._JobWorker.run", run)
    app = App(connector=InMemoryConnector())
    queue = ConversationQueue(app, read_address("postgresql://localhost/talks"))
    beats = Beats(clock, silent=silent)
    monkeypatch.setattr(app, "job_manager", beats)
    monkeypatch.setattr(queue, "put", AsyncMock())
    monkeypatch.setattr(queue, "_count_death", AsyncMock(return_value=""))
    working = asyncio.create_task(queue.work(AsyncMock(), bot="discord:1:", concurrency=1))
    await asyncio.sleep(Beats.DIED + 10)
    working.cancel()
    await asyncio.wait([working])
    (taken_up,) = beats.taken_up
    assert Beats.DIED + STALLED_SECONDS < taken_up <= Beats.DIED + 5


async def test_the_dead_are_taken_up_on_a_database_that_is_always_slow(
    clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(deadline: float) -> bool:
        await asyncio.sleep(8)
        looks.append(clock.time() <= deadline)
        return looks[-1]

    looks: list[bool] = []
    queue = ConversationQueue(
        App(connector=InMemoryConnector()), read_address("postgresql://localhost/talks")
    )
    monkeypatch.setattr(queue, "take_up", slow)
    looking = asyncio.create_task(queue._look_for_dead())
    await asyncio.sleep(200)
    looking.cancel()
    assert True in looks


class Away:
    """A queue whose database went away: what was begun cannot be given back."""

    def __init__(self) -> None:
        self.began, self.back = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def hearing(self, _: object) -> AsyncGenerator[None, None]:
        yield

    async def work(self, *_: object, **more: object) -> None:
        self.began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await self.back.wait()


async def test_a_worker_ends_though_its_conversations_cannot_be_given_back(clock: HeldClock) -> None:
    queue, service = Away(), Mock()
    service.engine.drain = AsyncMock()
    worker = Worker(service, cast("ConversationQueue", queue), AsyncMock(), "discord:1:", Mock())
    running = asyncio.create_task(worker.run(concurrency=1))
    await queue.began.wait()
    told_to_end = clock.time()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert clock.time() - told_to_end == LEAVE_SECONDS
    service.engine.drain.assert_awaited_once()
    queue.back.set()
