"""What holds for every test."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.held_clock import clock

if TYPE_CHECKING:
    from tests.servers.postgres import Postgres

__all__ = ["clock"]

# No deadline, and no judging of how fast examples are made: both would be clocks.
_UNHURRIED = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("quick", _UNHURRIED, max_examples=40, derandomize=True)
settings.register_profile("nightly", _UNHURRIED, max_examples=1000, print_blob=True)


def pytest_configure() -> None:
    """Hear Ctrl-C, as the programs that tests start must.

    A shell starts what runs in its background deaf to it, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest: all others run beside it."""
    items.sort(key=lambda item: "test_soak.py" not in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache for this run alone, and one for all its processes: the shipped databases are read once."""
    here = tmp_path_factory.getbasetemp()
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    os.environ["XDG_CACHE_HOME"] = str(Path(shared) / "cache")


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server, started for the first test that asks for it."""
    if sys.platform == "win32":
        pytest.skip("no PostgreSQL comes as a package for Windows")
    from tests.servers.postgres import Postgres

    server = Postgres()
    yield server
    server.close()
