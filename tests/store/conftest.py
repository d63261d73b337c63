"""The store of each test: in a file, and in `make nightly` on a PostgreSQL server too.

What holds `everywhere` (see `kinds`) is tried on a server each time.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pixi.store.opening import open_store
from pixi.store.store import Store
from tests.servers.postgres import Postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where nothing is kept yet."""
    if request.param != "postgres":
        yield f"sqlite:///{tmp_path}/pixi.db" if request.param == "sqlite" else ":memory:"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.schema() as schema:
        yield server.url(schema)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """A store in which nothing is kept yet."""
    store = await open_store(url)
    yield store
    await store.close()
