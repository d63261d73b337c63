"""The companion's data, wherever it is kept."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pixi.companion.data import CompanionData
from pixi.companion.loading import sample
from pixi.companion.tables import SCHEMA, CompanionTables
from pixi.store.opening import open_store
from tests.servers.postgres import Postgres


@asynccontextmanager
async def tables(url: str = ":memory:") -> AsyncGenerator[CompanionTables, None]:
    """Tables with the sample in them."""
    store = await open_store(url)
    try:
        made = CompanionTables(await store.tables(SCHEMA))
        loaded = sample()
        await made.load(loaded.spots, loaded.tricks)
        yield made
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
async def data(request: pytest.FixtureRequest) -> AsyncGenerator[CompanionData, None]:
    """The sample, in each place where data may be kept."""
    if request.param == "sqlite":
        async with tables() as made:
            yield made
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.schema() as schema:
        async with tables(server.url(schema)) as made:
            yield made
