"""Parts of a bot on a database of their own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from pixi.app.cluster.gateway import Recorder
from pixi.app.cluster.queue import ConversationQueue, open_queue
from pixi.store.opening import open_store
from pixi.store.store import Store
from pixi.testing import ScriptedModel
from tests.app.cluster.house import House
from tests.servers.postgres import Postgres


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.schema() as schema:
        yield postgres.url(schema)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await open_store(url)
    yield store
    await store.close()


@pytest.fixture
async def queue(url: str, store: Store) -> AsyncIterator[ConversationQueue]:
    async with open_queue(url) as queue:
        yield queue


@pytest.fixture
def house(store: Store, queue: ConversationQueue) -> House:
    return House(Recorder(store, queue), store, ScriptedModel())
