"""What a database survives: being killed at any point, other processes beside it, a disk that is full."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pixi.knowledge.catalogue import Catalogue
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.index import Index
from tests.knowledge.test_database import found, put
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="it sends signals")

PROGRAM = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from pixi.core.errors import ConfigError
from pixi.knowledge import scan
from pixi.knowledge.catalogue import Catalogue
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.index import Index
folder, cache = map(Path, sys.argv[1:3])

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def kill_before(owner, name, calls):
    real = getattr(owner, name)
    def killing(*arguments, **named):
        nonlocal calls
        calls -= 1
        if calls < 0:
            kill()
        return real(*arguments, **named)
    setattr(owner, name, killing)

async def main():
{body}

asyncio.run(main())
"""


@contextmanager
def program(folder: Path, cache: Path, body: str) -> "Iterator[subprocess.Popen[str]]":
    text = PROGRAM.replace("{body}", textwrap.indent(textwrap.dedent(body), "    "))
    command = [sys.executable, "-c", text, str(folder), str(cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pancakes"
    made.mkdir()
    return made


def in_the_index(cache: Path) -> list[int]:
    """The ids that the catalogue says the index holds, checked against the index itself."""
    catalogue = Catalogue.look_into(cache / "catalogue.db")
    assert catalogue
    with closing(catalogue):
        assert catalogue.dirty(1) == ([], [])
        shown = catalogue.size()[1]
        index = Index.open(cache / f"index-{catalogue.token}")
    try:
        assert index.entries == shown
        return sorted(hit.source.entry for hit in index.search("buttermilk", 100).hits)
    finally:
        index.close()


KILLED = {
    "between the index and the catalogue, in the middle": 'kill_before(Catalogue, "mark_told", 2)',
    "before the index is told": 'kill_before(Index, "change", 0)',
}
KILLED_AT_NIGHT = {
    "between the index and the catalogue": 'kill_before(Catalogue, "mark_told", 0)',
    "before anything is written": 'kill_before(Catalogue, "record", 0)',
    "in the middle of several batches": 'kill_before(Index, "change", 2)',
    "at the end": 'kill_before(Catalogue, "tell", 1)',
}


@pytest.mark.parametrize(
    "point", [*KILLED, *(pytest.param(point, marks=pytest.mark.nightly) for point in KILLED_AT_NIGHT)]
)
async def test_killed_anywhere_it_comes_to_agreement(folder: Path, tmp_path: Path, point: str) -> None:
    for number in range(30):
        put(folder, f"{number}.md", f"# Note {number}\n\nbuttermilk {number}")
    put(folder, "twin.md", "# Note 1\n\nbuttermilk 1")
    body = f"""
    scan._ENTRIES, scan._CHUNK = 5, 8
    {(KILLED | KILLED_AT_NIGHT)[point]}
    database = await DirectoryDatabase.open(folder, cache=cache)
    await database.ready()
    await database.close()
    """
    with program(folder, tmp_path / "cache", body) as process:
        assert process.wait() == -signal.SIGKILL
    put(folder, "7.md", "# Note 7\n\nanother 7")
    (folder / "8.md").unlink()
    database = await DirectoryDatabase.open(folder, cache=tmp_path / "cache")
    await database.ready()
    assert database.entries == 30
    assert await found(database, "another") == ["7.md"]
    await database.close()
    assert len(in_the_index(tmp_path / "cache")) == 28  # but for 7, 8 and the twin


HOLDS = """
database = await DirectoryDatabase.open(folder, cache=cache, follow=True)
await database.ready()
print("ready", flush=True)
await asyncio.sleep(60)
"""


async def test_one_process_writes_and_another_sees_and_takes_over(folder: Path, tmp_path: Path) -> None:
    put(folder, "a.md", "# A\n\nbuttermilk")
    with program(folder, tmp_path / "cache", HOLDS) as process:
        assert line(process) == "ready"
        async with await DirectoryDatabase.open(folder, cache=tmp_path / "cache", follow=True) as database:
            assert await found(database, "buttermilk") == ["a.md"]
            await database.ready()
            assert database.state.finished
            assert not database._store.writes
            put(folder, "b.md", "# B\n\nsyrup")

            async def is_seen() -> bool:
                return await found(database, "syrup") == ["b.md"]

            await until(is_seen)
            entries = await database.read([hit.source.entry for hit in (await database.search("syrup")).hits])
            assert [entry.path for entry in entries] == ["b.md"]
            assert not database._store.writes
            process.kill()
            process.wait()
            put(folder, "c.md", "# C\n\nhoney")

            async def takes_over() -> bool:
                return await found(database, "honey") == ["c.md"]

            await until(takes_over)
            assert database._store.writes


async def test_who_comes_while_another_reads_for_the_first_time_waits_for_it(
    folder: Path, tmp_path: Path
) -> None:
    for number in range(100):
        put(folder, f"{number}.md", f"# Note {number}\n\nbuttermilk {number}")
    with program(
        folder, tmp_path / "cache", HOLDS.replace("database = ", 'print("begins", flush=True)\ndatabase = ')
    ) as process:
        assert line(process) == "begins"
        async with await DirectoryDatabase.open(folder, cache=tmp_path / "cache") as database:
            await database.search("buttermilk")  # returns, whatever there is by now
            await database.ready()
            assert database.entries == 100
            assert len(await found(database, "buttermilk")) == 10


async def test_several_in_one_process(folder: Path, tmp_path: Path) -> None:
    put(folder, "a.md", "# A\n\nbuttermilk")
    several = [await DirectoryDatabase.open(folder, cache=tmp_path / "cache") for _ in range(3)]
    for database in several:
        await database.ready()
        assert await found(database, "buttermilk") == ["a.md"]
    assert [database._store.writes for database in several] == [True, False, False]
    for database in several:
        await database.close()


FULL = """
database = await DirectoryDatabase.open(folder, cache=cache)
await database.ready()
size = max(path.stat().st_size for path in cache.rglob("*") if path.is_file())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
print("full", flush=True)
sys.stdin.readline()
try:
    await database.refresh()
except ConfigError as error:
    print(error, flush=True)
else:
    print("no fault", database.entries, flush=True)
hits = (await database.search("buttermilk")).hits
print(len(hits), any(not fault.path for fault in database.faults), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
await database.refresh()
print(database.entries, len((await database.search("syrup")).hits), len(database.faults), flush=True)
await database.close()
"""


def test_a_full_disk_is_told_and_what_was_read_is_still_found(folder: Path, tmp_path: Path) -> None:
    put(folder, "a.md", "# A\n\nbuttermilk")
    with program(folder, tmp_path / "cache", FULL) as process:
        assert line(process) == "full"
        for number in range(8):
            words = " ".join(f"word{number}x{count}" for count in range(3_000))
            put(folder, f"{number}.md", f"# Note {number}\n\nsyrup {words}")
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        assert "free some space" in line(process)
        assert line(process) == "1 True"
        assert line(process) == "9 8 0"
        assert process.wait() == 0
