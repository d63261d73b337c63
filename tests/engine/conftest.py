"""All of an engine is in the event loop but its store, so its tests hold the clock."""

from collections.abc import AsyncGenerator

import pytest

from pixi.store.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def _held(request: pytest.FixtureRequest) -> None:
    """Hold the clock, except where a server is waited for."""
    if request.node.get_closest_marker("asyncio") and "postgres" not in request.fixturenames:
        request.getfixturevalue("clock")


@pytest.fixture
async def store() -> AsyncGenerator[SqliteStore, None]:
    """A store in memory, in which nothing is kept yet."""
    opened = await SqliteStore.open(":memory:")
    yield opened
    await opened.close()
