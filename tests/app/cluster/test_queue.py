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

from pixi.app.cluster.queue import ConversationQueue
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

    async def answer(conversation: str, times: int, deaths: int) -> None:
        raise AssertionError(conversation, times, deaths)

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
