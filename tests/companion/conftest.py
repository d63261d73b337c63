"""The companion's data, wherever it is kept."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pixi.companion.addon import sample
from pixi.companion.backend import CompanionBackend, companion_host
from pixi.companion.data import CompanionData
from pixi.companion.tables import SCHEMA, CompanionTables
from pixi.store.opening import open_store
from pixi.store.store import Store
from pixi.store.tables import Tables
from tests.servers.postgres import Postgres


async def opened(store: Store) -> CompanionTables:
    """Tables in a store, with nothing in them."""
    kept = Tables(SCHEMA)
    await store.open_tables(kept)
    return CompanionTables(kept)


@asynccontextmanager
async def tables(url: str = ":memory:") -> AsyncGenerator[CompanionTables, None]:
    """Tables with the sample in them."""
    store = await open_store(url)
    try:
        made = await opened(store)
        loaded = sample()
        await made.load(loaded.spots, loaded.tricks)
        yield made
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly), "host app"])
async def data(request: pytest.FixtureRequest) -> AsyncGenerator[CompanionData, None]:
    """The sample, in each place where data may be kept."""
    if request.param == "sqlite":
        async with tables() as made:
            yield made
        return
    if request.param == "host app":
        async with tables() as made, companion_host(made, "s3cret") as url:
            backend = CompanionBackend(url, "s3cret")
            yield backend
            await backend.close()
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.schema() as schema:
        async with tables(server.url(schema)) as made:
            yield made
