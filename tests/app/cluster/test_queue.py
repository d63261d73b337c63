"""The queue where its database fails it; what it does with a database is tested with workers and gateways."""

import asyncio

import pytest
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.testing import InMemoryConnector

from pixi.app.cluster.queue import ConversationQueue
from pixi.store.postgres.address import read_address
from tests.waiting import within


async def test_work_that_is_cancelled_ends_though_the_database_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App(connector=InMemoryConnector())
    began = asyncio.Event()

    async def run_worker(**_: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectorException

    async def answer(conversation: str, times: int) -> None:
        raise AssertionError(conversation, times)

    monkeypatch.setattr(app, "run_worker_async", run_worker)
    working = asyncio.create_task(
        ConversationQueue(app, read_address("postgresql://localhost/talks")).work(answer, concurrency=1)
    )
    await began.wait()
    began.clear()
    working.cancel()
    async with within("the end of the work"):
        await asyncio.wait([working])

    assert not began.is_set()
