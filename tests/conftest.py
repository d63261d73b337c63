"""What holds for every test."""

import os
import signal
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Hear Ctrl-C, as the programs that tests start must.

    A shell starts what runs in its background deaf to it, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache for this run alone, and one for all its processes: the shipped databases are read once."""
    here = tmp_path_factory.getbasetemp()
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    os.environ["XDG_CACHE_HOME"] = str(Path(shared) / "cache")
