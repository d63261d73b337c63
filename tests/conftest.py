"""What holds for every test."""

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.held_clock import clock
from tests.rows import NIGHTLY_SEEDS

if TYPE_CHECKING:
    from tests.servers.postgres import Postgres

__all__ = ["clock"]

# No deadline, and no judging of how fast examples are made: both would be clocks.
_UNHURRIED = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("quick", _UNHURRIED, max_examples=40, derandomize=True)
# By hand each run has other examples; a change that CI judges has always the same, and is not judged by luck.
settings.register_profile(
    "nightly", _UNHURRIED, max_examples=400, print_blob=True, derandomize="CI" in os.environ
)
settings.load_profile("quick")  # `--hypothesis-profile` chooses another


MOST_MB = 520
"""Resident memory that a process with tests may reach."""

_peaks: dict[str, int] = {}
"""The most that each process had, in MB: of workers once they ended, else of this one."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of malloc.h


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, as the programs that tests start must; and keep no memory that was freed.

    A shell starts what runs in its background deaf to it, and children inherit that. And the GNU C library
    raises its limit, from which memory is given back at once, up to 32 MB with what a program frees: each
    thread's heap would grow for ever. Set once, the limit stays. Of such heaps there are two: each has room
    that is free and that the others cannot have.
    """
    # What was compiled is kept for the next run and for programs that tests start, as it is everywhere else.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
            libc.mallopt(_M_ARENA_MAX, 2)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hypothesis reads once, for all runs in this folder, which characters can be written: 200 MB at that
    # moment, which a process that is about to run tests would not be rid of again.
    if not (config.rootpath / ".hypothesis" / "unicode_data").exists() and not hasattr(config, "workerinput"):
        look = "from hypothesis import strategies; strategies.text().validate()"
        subprocess.run([sys.executable, "-c", look], cwd=config.rootpath, check=False)


_bots: list[None] = []
"""Of each bot that tests have opened since bots were collected, one."""

_MANY_BOTS = 4
"""Some 3 MB each. To look for circles takes as long as to open a bot."""


def _give_back() -> None:
    """Give memory that was freed back to the system, where the C library can."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def pytest_collection_finish() -> None:
    """Freeze what was imported and collected, and let no bot freeze what is its own.

    A bot does so once it is open: what it built lives as long as its process. A test process outlives
    hundreds of them, which would stay for ever.
    """
    gc.collect()
    gc.freeze()
    _give_back()  # what rewriting the assertions took
    patch = pytest.MonkeyPatch()
    patch.setattr(gc, "freeze", lambda: _bots.append(None))
    patch.setattr(gc, "set_threshold", lambda *_: None)  # a program that lives long collects seldom


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Collect bots and houses that tests have left: they are large, and full of circles."""
    if nodeid.startswith(_HOUSES):
        _bots.append(None)
    if len(_bots) >= _MANY_BOTS:
        _bots.clear()
        # aiohttp keeps the last thousand handlers of a process, and with them all that their servers hold.
        if (web := sys.modules.get("aiohttp.web_app")) is not None:
            web._cached_build_middleware.cache_clear()
        gc.collect()
        _give_back()


_LONGEST = ("tests/soak/", "tests/kill/", "tests/end_to_end/")
_HOUSES = (
    "tests/app/cluster/",
    "tests/app/studio/",
    "tests/channels/http/",
    "tests/companion/",
    "tests/page/",
)
_LARGEST = ("tests/channels/http/test_slow_readers",)
_TOGETHER = {
    "SDKs": (
        *("tests/models/", "tests/servers/test_scripted_formats", "tests/app/test_server_models"),
        # And what leaves little behind, so that this process has enough to do.
        *("tests/engine/", "tests/core/", "tests/conformance/", "tests/toolbox/", "tests/personas/"),
        "tests/store/",
    ),
    "MCP": (
        *("tests/mcp/", "tests/cli/test_mcp", "tests/addons/test_mcp", "tests/app/test_mcp"),
        *(
            "tests/app/cluster/",
            "tests/app/test_tracing",
            "tests/app/test_metrics",
            "tests/app/test_monitoring",
        ),
    ),
    "architecture": ("tests/test_architecture",),  # the whole package is read once
}
"""What imports the same large packages, or leaves as much memory behind, is run by one process each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is run by one process, which leaves the rest to others, and with the longest.

    Then come the largest, whose memory others use again.
    """
    parts = (*_TOGETHER.values(), _LONGEST, _LARGEST)
    items.sort(key=lambda item: next((n for n, part in enumerate(parts) if item.nodeid.startswith(part)), 9))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give a process a file at a time, or all of what belongs together; of many seeds some."""

    class Units(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if NIGHTLY_SEEDS in nodeid:
                return nodeid
            units = (unit for unit, begins in _TOGETHER.items() if nodeid.startswith(begins))
            return next(units, super()._split_scope(nodeid))

    config.option.loadscopereorder = False  # in the order above, not the file of most tests first
    return Units(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run tests: two for each processor, since tests also wait.

    And the more there are, the less each of them gathers.
    """
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return 2 * processors


@pytest.fixture(scope="session", autouse=True)
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache for this run alone, and one for all its processes: the shipped databases are read once."""
    here = tmp_path_factory.getbasetemp()
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    os.environ["XDG_CACHE_HOME"] = str(Path(shared) / "cache")


@pytest.fixture(scope="session", autouse=True)
def _starts_made_quick() -> Iterator[None]:
    """Do once what each bot does at its start, and what takes it most: hundreds are started.

    They look for addons in all installed packages, and make schemas of the same tools.
    """
    from pixi.addons import loading
    from pixi.toolbox import schema, tools

    find = cache(lambda path, group: entry_points(group=group))
    made: dict[tuple[str, ...], schema.Signature] = {}

    def signature_of(function: schema.ToolFunction) -> schema.Signature:
        if not function.__module__.startswith("pixi."):  # a test's own, of which there may be several
            return schema.signature_of(function)
        names = ("__module__", "__name__", "__qualname__")  # a closure's `__name__` may have been set
        read = (*names, "__doc__", "__annotations__", "__defaults__", "__kwdefaults__")
        key = tuple(repr(getattr(function, name)) for name in read)
        if key not in made:
            made[key] = schema.signature_of(function)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "entry_points", lambda *, group: find(tuple(sys.path), group))
        patch.setattr(tools, "signature_of", signature_of)
        yield


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server, started for the first test that asks for it."""
    if sys.platform == "win32":
        pytest.skip("no PostgreSQL comes as a package for Windows")
    from tests.servers.postgres import Postgres

    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """A seed for tests that try what nobody tried before: by hand another one in each run, in CI the same.

    It is printed at the end; `SEED=number` in the environment runs the same again.
    """
    value = int(os.environ.get("SEED") or (1 if "CI" in os.environ else time.time()))
    record_property("seed", value)
    return value


def _peak_mb() -> int:
    """Return the most resident memory that this process had; 0 where nothing tells it."""
    if sys.platform == "win32":
        return 0
    if sys.platform == "linux":
        (line,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(line) // 1000
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000_000


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell what this process had at most; where one had too much, the run fails."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["peak"] = {os.environ["PYTEST_XDIST_WORKER"]: _peak_mb()}
        return
    if not _peaks:
        _peaks["this process"] = _peak_mb()
    if session.exitstatus == pytest.ExitCode.OK and max(_peaks.values()) > MOST_MB:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take what a worker had at most. One that crashed tells nothing."""
    _peaks.update(getattr(node, "workeroutput", {}).get("peak", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seeds of the run, what memory the processes took, and which took too much."""
    told = ", ".join(f"{name} {peak} MB" for name, peak in sorted(_peaks.items()))
    terminalreporter.write_line(f"memory at most: {told}")
    for name, peak in sorted(_peaks.items()):
        if peak > MOST_MB:
            terminalreporter.write_line(f"FAILED memory: {name} took {peak} MB, above {MOST_MB} MB", red=True)
    seeds = {
        report.nodeid: value
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == "seed"
    }
    if seeds:
        terminalreporter.section("seeds")
    for test, value in seeds.items():
        terminalreporter.line(f"SEED={value} {test}")
