"""The store of each test: in a file, and in `make nightly` on a PostgreSQL server too.

What holds `everywhere` (see `kinds`) is tried on a server each time.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pixi.store.opening import open_store
from pixi.store.sqlite import schema
from pixi.store.sqlite.store import SqliteConnection
from pixi.store.store import Store
from tests.servers.postgres import Postgres


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with all tables, in which nothing is kept: to make them takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "pixi.db"
    schema.connect(path).close()
    return path.read_bytes()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest, tmp_path: Path, empty: bytes) -> Iterator[str]:
    """Where nothing is kept yet."""
    if request.param != "postgres":
        if request.param == "sqlite":
            (tmp_path / "pixi.db").write_bytes(empty)
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


@pytest.fixture
def name(postgres: Postgres) -> Iterator[str]:
    """A schema that is not there yet."""
    with postgres.schema() as name:
        yield name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file of SQLite may come."""
    return tmp_path / "pixi.db"


class Watched(SqliteConnection):
    """A store in memory that owns what it is asked for; `raw` tells what SQLite does."""

    def __init__(self) -> None:
        self.raw = schema.connect(None)
        super().__init__(self.raw, None)
        self.become_owner()

    def steps(self, work: Callable[[], object]) -> int:
        """Count the steps that SQLite takes for some work."""
        taken = 0

        def step() -> int:
            nonlocal taken
            taken += 1
            return 0

        self.raw.set_progress_handler(step, 1)
        work()
        self.raw.set_progress_handler(None, 0)
        return taken


@pytest.fixture
def db() -> Iterator[Watched]:
    with closing(Watched()) as connection:
        yield connection
