"""A folder as a database, with real files, readers, index and cache."""

import asyncio
import itertools
import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Protocol

import pytest
import watchfiles

from pixi.core.errors import ConfigError
from pixi.documents import SetAside, watching
from pixi.documents.files import Documents
from pixi.knowledge import scan, sync
from pixi.knowledge.catalogue import candidates
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.entry import Entry, Found
from pixi.knowledge.evidence import Excerpt
from pixi.knowledge.index import Index
from pixi.knowledge.query import IndexDamaged
from tests.documents.at_hand import ReadersAtHand
from tests.held_clock import HeldClock
from tests.waiting import until, within


class Opening(Protocol):
    """Opens the test's folder."""

    def __call__(self, *, name: str = "", follow: bool = False) -> Awaitable[DirectoryDatabase]: ...


@pytest.fixture(autouse=True)
def _readers_at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a process, which takes as long to start as the rest of a test; but for `real_readers`."""
    if "real_readers" not in request.fixturenames:
        monkeypatch.setattr(sync, "Readers", ReadersAtHand)


@pytest.fixture
def real_readers() -> None:
    """Read by processes, as outside of tests."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pancakes"
    made.mkdir()
    return made


@pytest.fixture
async def opened(tmp_path: Path, folder: Path) -> AsyncIterator[Opening]:
    made: list[DirectoryDatabase] = []

    async def open_it(*, name: str = "", follow: bool = False) -> DirectoryDatabase:
        made.append(await DirectoryDatabase.open(folder, name=name, cache=tmp_path / "cache", follow=follow))
        return made[-1]

    yield open_it
    for each in made:
        await each.close()


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


async def found(database: DirectoryDatabase, query: str) -> list[str]:
    return [hit.source.path for hit in (await database.search(query)).hits]


@pytest.mark.usefixtures("real_readers")
async def test_a_folder_is_found_in(folder: Path, opened: Opening) -> None:
    put(folder, "batter.md", "# Batter\n\nFlour, milk and buttermilk.\n")
    put(folder, "sub/syrup.txt", "Maple syrup is tapped in March.")
    database = await opened()
    await database.ready()
    assert (database.name, database.title, database.entries) == ("pancakes", "pancakes", 2)
    (hit,) = (await database.search("buttermilk")).hits
    assert (hit.source.title, hit.source.path) == ("Batter", "batter.md")
    (entry,) = await database.read([hit.source.entry])
    assert "Flour" in entry.sections[0].text
    assert await found(database, "maple") == ["sub/syrup.txt"]
    assert not database.faults
    assert (database.state.done, database.state.total, database.state.finished) == (2, 2, True)


async def test_a_search_waits_for_the_first_results(folder: Path, opened: Opening) -> None:
    put(folder, "a.md", "buttermilk")
    database = await opened()
    assert await found(database, "buttermilk") == ["a.md"]


async def test_an_empty_folder_is_no_fault(opened: Opening) -> None:
    database = await opened()
    assert await found(database, "anything") == []
    await database.ready()
    assert (database.entries, list(database.faults)) == (0, [])
    assert await database.read([123_456]) == []


async def test_the_description_is_told_and_is_no_entry(folder: Path, opened: Opening) -> None:
    put(folder, "README.md", "# Good pancakes\n\nEverything about buttermilk.")
    database = await opened(name="cakes")
    await database.ready()
    assert (database.name, database.title, database.about) == (
        "cakes", "Good pancakes", "Everything about buttermilk.",
    )  # fmt: skip
    assert database.entries == 0
    put(folder, "README.md", "# Better pancakes")
    await database.refresh()
    assert database.title == "Better pancakes"


@pytest.mark.usefixtures("real_readers")
async def test_a_broken_file_is_set_aside_and_the_rest_is_found(folder: Path, opened: Opening) -> None:
    put(folder, "a.md", "buttermilk")
    (folder / "b.json").write_bytes(b'{"a": ')
    (folder / "c.pdf").write_bytes(b"%PDF-1.7 nothing of the kind")
    (folder / "d.epub").write_bytes(os.urandom(5_000))
    (folder / "e.png").write_bytes(b"picture")
    database = await opened()
    await database.ready()
    assert await found(database, "buttermilk") == ["a.md"]
    assert [fault.path for fault in database.faults] == ["b.json", "c.pdf", "d.epub"]
    assert all(fault.reason and "\n" not in fault.reason for fault in database.faults)
    assert database.passed_over == {".png": 1}
    put(folder, "b.json", '[{"title": "B", "text": "syrup"}]')
    (folder / "c.pdf").unlink()
    await database.refresh()
    assert [fault.path for fault in database.faults] == ["d.epub"]
    assert await found(database, "syrup") == ["b.json"]


async def test_until_the_first_look_the_state_is_the_one_that_was_kept(folder: Path, opened: Opening) -> None:
    put(folder, "a.md", "buttermilk")
    database = await opened()
    await database.ready()
    await database.close()
    state = (await opened()).state  # nothing has looked at the folder yet
    assert (state.done, state.total, state.finished) == (1, 1, False)


async def test_edits_and_deletions_win_over_what_was_there(folder: Path, opened: Opening) -> None:
    path = put(folder, "a.md", "# A\n\nbuttermilk")
    put(folder, "b.md", "# B\n\nhoney")
    database = await opened()
    await database.ready()
    (before,) = (await database.search("buttermilk")).hits
    put(folder, "a.md", "# A\n\nsyrup")
    (folder / "b.md").unlink()
    await database.refresh()
    assert await found(database, "buttermilk") == []
    assert await found(database, "honey") == []
    (after,) = (await database.search("syrup")).hits
    assert after.source.entry == before.source.entry
    path.rename(folder / "c.md")
    await database.refresh()
    assert await found(database, "syrup") == ["c.md"]
    assert database.entries == 1


class TestIds:
    async def test_they_hang_on_the_place_alone(self, folder: Path, opened: Opening, tmp_path: Path) -> None:
        put(folder, "煎饼/ a.md", "# A\n\nbuttermilk")
        database = await opened()
        await database.ready()
        (hit,) = (await database.search("buttermilk")).hits
        assert hit.source.entry == next(candidates("煎饼/ a.md", ""))
        await database.close()
        shutil.rmtree(tmp_path / "cache")
        put(folder, "b.md", "# B\n\nsyrup")
        again = await opened()
        await again.ready()
        assert (await again.search("buttermilk")).hits[0].source.entry == hit.source.entry

    async def test_those_of_another_database_are_left_out_and_the_good_ones_answer(
        self, folder: Path, opened: Opening, tmp_path: Path
    ) -> None:
        put(folder, "a.md", "# A\n\nbuttermilk")
        put(tmp_path / "other", "b.md", "# B\n\nsyrup")
        database = await opened()
        async with await DirectoryDatabase.open(tmp_path / "other", cache=tmp_path / "c2") as other:
            await database.ready()
            await other.ready()
            theirs = (await other.search("syrup")).hits[0].source.entry
            ours = (await database.search("buttermilk")).hits[0].source.entry
            read = await database.read([theirs, -5, 0, ours, 10**30, ours])
            assert [entry.id for entry in read] == [ours, ours]

    async def test_records_of_a_file_keep_theirs(self, folder: Path, opened: Opening) -> None:
        put(folder, "t.csv", "name,text\nbatter,flour and milk\nsyrup,maple tree\n")
        database = await opened()
        await database.ready()
        before = (await database.search("maple")).hits[0].source.entry
        put(folder, "t.csv", "name,text\nhoney,bees\nbatter,flour and milk\nsyrup,maple tree\n")
        await database.refresh()
        assert database.entries == 3
        assert before in {hit.source.entry for hit in (await database.search("maple")).hits}


async def test_of_copies_one_is_found_and_the_next_when_it_goes(folder: Path, opened: Opening) -> None:
    for name in "abcdefghijkl":
        put(folder, f"{name}.md", "# Batter\n\nbuttermilk")
    put(folder, "z.md", "# Other batter\n\nbuttermilk")
    database = await opened()
    await database.ready()
    assert database.entries == 13
    there = await found(database, "buttermilk")
    assert len(there) == 2
    for path in there:
        (folder / path).unlink()
    await database.refresh()
    (other,) = await found(database, "buttermilk")
    assert other not in there


class TestNothingIsReadTwice:
    async def test_what_is_unchanged_is_not_read(self, folder: Path, opened: Opening) -> None:
        for number in range(20):
            put(folder, f"{number}.md", f"# {number}\n\nbuttermilk")
        (folder / "bad.json").write_bytes(b"{")
        await (await opened()).ready()
        await (first := await opened()).ready()
        await first.close()
        os.utime(folder / "7.md")  # hashed, and seen to be the same
        database = await opened()
        assert database.entries == 20
        assert len(database.faults) == 1
        await database.ready()
        assert not database._sync.readers.running

    async def test_but_what_another_reader_may_read_is(
        self, folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(folder, "a.md", "buttermilk")
        await (database := await opened()).ready()
        await database.close()
        monkeypatch.setattr(sync, "readers_tag", lambda: "pixi-persona 99")
        await (database := await opened()).ready()
        assert database._sync.readers.running
        assert database.entries == 1

    async def test_a_file_saved_twice_in_a_moment_is_seen_to_be_another(
        self, folder: Path, opened: Opening
    ) -> None:
        path = put(folder, "a.md", "buttermilk")
        status = path.stat()
        database = await opened()
        await database.ready()
        put(folder, "a.md", "marmalades"[:10])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        await database.refresh()
        assert await found(database, "marmalades") == ["a.md"]

    @pytest.mark.usefixtures("real_readers")
    async def test_processes_stop_when_there_is_nothing_to_read(
        self, folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "_IDLE_SECONDS", 0.05)
        put(folder, "a.md", "buttermilk")
        database = await opened()
        await database.ready()

        async def stopped() -> bool:
            return not database._sync.readers.running

        await until(stopped)
        put(folder, "b.md", "syrup")
        await database.refresh()
        assert await found(database, "syrup") == ["b.md"]


def turn_bytes(path: Path, count: int, seed: int) -> None:
    """Harm a file as a failing disk does."""
    chance, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(count):
        content[chance.randrange(len(content))] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture(scope="module")
def read_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, and beside it the cache of a database that has read it."""
    place = tmp_path_factory.mktemp("read")
    put(place / "folder", "a.md", "buttermilk")
    put(place / "folder", "b.md", "syrup")

    async def read() -> None:
        async with await DirectoryDatabase.open(place / "folder", cache=place / "cache") as database:
            await database.ready()

    asyncio.run(read())
    return place


def make_another_version(cache: Path) -> None:
    with closing(sqlite3.connect(cache / "catalogue.db")) as connection:
        connection.execute("PRAGMA user_version = 77")


def fill_index(cache: Path, junk: bytes) -> None:
    for path in next(cache.glob("index-*")).rglob("*"):
        if path.is_file():
            path.write_bytes(junk)


SPOILT: dict[str, Callable[[Path], object]] = {
    "a catalogue of another version": make_another_version,
    "a catalogue of junk": lambda cache: (cache / "catalogue.db").write_bytes(b"junk" * 2_000),
    "an index of junk": lambda cache: fill_index(cache, b"junk" * 2_000),
    "no catalogue": lambda cache: (cache / "catalogue.db").unlink(),
    "nothing": shutil.rmtree,
}
SPOILT_AT_NIGHT: dict[str, Callable[[Path], object]] = {
    "an empty index": lambda cache: fill_index(cache, b""),
    "an empty catalogue": lambda cache: (cache / "catalogue.db").write_bytes(b""),
    "a head": lambda cache: (cache / "catalogue.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 9_000),
}


class TestTheCacheMayGo:
    async def there_is_all(self, opened: Opening) -> DirectoryDatabase:
        database = await opened()
        await database.ready()
        assert await found(database, "buttermilk") == ["a.md"]
        assert await found(database, "syrup") == ["b.md"]
        return database

    @pytest.fixture(autouse=True)
    def filled(self, read_before: Path, folder: Path, tmp_path: Path) -> None:
        shutil.copytree(read_before / "folder", folder, dirs_exist_ok=True)
        shutil.copytree(read_before / "cache", tmp_path / "cache", dirs_exist_ok=True)

    async def test_the_index_which_is_made_again_without_reading(
        self, opened: Opening, tmp_path: Path
    ) -> None:
        (index,) = (tmp_path / "cache").glob("index-*")
        shutil.rmtree(index)
        database = await self.there_is_all(opened)
        assert not database._sync.readers.running

    @pytest.mark.parametrize(
        "what", [*SPOILT, *(pytest.param(what, marks=pytest.mark.nightly) for what in SPOILT_AT_NIGHT)]
    )
    async def test_what_is_broken(self, opened: Opening, tmp_path: Path, what: str) -> None:
        (SPOILT | SPOILT_AT_NIGHT)[what](tmp_path / "cache")
        await self.there_is_all(opened)
        assert len(list((tmp_path / "cache").glob("index-*"))) == 1

    @pytest.mark.parametrize(
        "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 12))]
    )
    async def test_a_catalogue_in_which_bytes_have_turned(
        self, opened: Opening, tmp_path: Path, folder: Path, seed: int
    ) -> None:
        for number in range(60):
            put(folder, f"notes/{number}.md", f"# Note {number}\n\nsaffron {number}")
        database = await self.there_is_all(opened)
        found_before = await database.search("saffron", 100)
        entries = await database.read([hit.source.entry for hit in found_before.hits])
        assert len(entries) == 60
        await database.close()
        turn_bytes(tmp_path / "cache" / "catalogue.db", 60, seed)
        database = await self.there_is_all(opened)
        assert {hit.source.entry for hit in (await database.search("saffron", 100)).hits} == {
            each.id for each in entries
        }
        assert await database.read([each.id for each in entries]) == entries
        assert not database.faults

    async def test_an_entry_that_was_harmed_is_read_anew(self, opened: Opening, tmp_path: Path) -> None:
        database = await self.there_is_all(opened)
        (hit,) = (await database.search("syrup")).hits
        (entry,) = await database.read([hit.source.entry])
        with closing(sqlite3.connect(tmp_path / "cache" / "catalogue.db")) as connection, connection:
            connection.execute("UPDATE entries SET sections = x'00ff' WHERE id = ?", (entry.id,))
        assert await database.read([entry.id]) == [entry]
        assert await found(database, "buttermilk") == ["a.md"]

    async def test_under_a_running_one(self, opened: Opening, tmp_path: Path, folder: Path) -> None:
        database = await self.there_is_all(opened)
        shutil.rmtree(tmp_path / "cache")
        put(folder, "c.md", "honey")
        await database.refresh()
        assert await found(database, "honey") == ["c.md"]
        assert await found(database, "syrup") == ["b.md"]
        assert (tmp_path / "cache" / "catalogue.db").exists()

    async def test_an_index_that_is_harmed_while_it_is_asked(
        self, opened: Opening, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        database = await self.there_is_all(opened)
        (before,) = (tmp_path / "cache").glob("index-*")
        real, harmed = Index.search, database._store.snapshot.index

        def harmed_search(index: Index, query: str, limit: int) -> Found:
            if index is harmed:
                raise IndexDamaged("its files are gone")
            return real(index, query, limit)

        monkeypatch.setattr(Index, "search", harmed_search)
        assert await found(database, "syrup") == ["b.md"]
        assert not before.exists()

    async def test_an_index_that_is_harmed_while_nobody_searches(
        self, opened: Opening, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        database = await self.there_is_all(opened)
        (before,) = (tmp_path / "cache").glob("index-*")
        real, harmed = Index.sure, database._store.snapshot.index

        def harmed_sure(index: Index, text: str, limit: int) -> list[Excerpt]:
            if index is harmed:
                raise IndexDamaged("its files are gone")
            return real(index, text, limit)

        monkeypatch.setattr(Index, "sure", harmed_sure)
        assert await database.sure_passages("is there any syrup?", 1) == ()
        await database.ready()
        assert not before.exists()
        assert await found(database, "syrup") == ["b.md"]


class TestFollowing:
    @pytest.fixture(autouse=True)
    def _told_soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "_QUIET_SECONDS", 0.02)
        monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.1)

    async def test_what_is_saved_is_found_and_what_is_deleted_is_gone(
        self, folder: Path, opened: Opening
    ) -> None:
        database = await opened(follow=True)
        await database.ready()

        async def holds(*paths: str) -> bool:
            return await found(database, "buttermilk") == list(paths)

        path = put(folder, "new/a.md", "buttermilk")
        await until(lambda: holds("new/a.md"))
        put(folder, "new/.a.md.swp", "syrup").rename(path)  # as editors do
        await until(holds)
        assert await found(database, "syrup") == ["new/a.md"]
        path.unlink()
        for number in range(100):
            put(folder, f"{number}.md", f"# {number}\n\nnumber{number}")

        async def all_there() -> bool:
            return database.entries == 100

        await until(all_there)
        assert (await found(database, "number99"))[0] == "99.md"
        assert await found(database, "syrup") == []

    async def test_a_folder_that_goes_keeps_what_was_read_and_may_come_back(
        self, folder: Path, opened: Opening, tmp_path: Path
    ) -> None:
        put(folder, "a.md", "buttermilk")
        database = await opened(follow=True)
        await database.ready()
        folder.rename(tmp_path / "away")
        with pytest.raises(ConfigError, match="put it back"):
            await database.refresh()
        assert await found(database, "buttermilk") == ["a.md"]
        assert "put it back" in database.faults[0].reason
        put(tmp_path / "away", "b.md", "syrup")
        (tmp_path / "away").rename(folder)

        async def is_back() -> bool:
            return await found(database, "syrup") == ["b.md"] and not database.faults

        await until(is_back)

    async def test_a_folder_of_files_that_is_moved_in_and_out(
        self, folder: Path, opened: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "_SHARE", 1e-9)  # nothing but what is heard leads to a look
        put(tmp_path / "away", "deep/a.md", "buttermilk")
        put(tmp_path / "away", "b.md", "buttermilk too")
        put(folder, "there.md", "honey")
        database = await opened(follow=True)
        await database.ready()
        tries = itertools.count()

        async def is_heard() -> bool:  # nobody tells when the watching has begun: until then nothing is heard
            if next(tries) % 50 == 0:
                put(folder, "probe.md", "raspberry")
            return await found(database, "raspberry") != []

        async def there_are(count: int) -> bool:
            return len(await found(database, "buttermilk")) == count

        await until(is_heard)
        (tmp_path / "away").rename(folder / "in")
        await until(lambda: there_are(2))
        (folder / "in" / "deep").rename(folder / "deeper")
        await until(lambda: there_are(2))
        (folder / "in").rename(tmp_path / "away")
        await until(lambda: there_are(1))
        assert await found(database, "buttermilk") == ["deeper/a.md"]
        assert await found(database, "honey") == ["there.md"]


async def test_a_file_that_is_written_all_the_while_is_read_in_the_end(folder: Path, opened: Opening) -> None:
    path = put(folder, "log.txt", "begun\n")
    put(folder, "a.md", "buttermilk")
    stop = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            while not stop.is_set():
                file.write("another line\n")
                file.flush()
                time.sleep(0.002)
            file.write("marmalade\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        database = await opened()
        await database.ready()
        assert await found(database, "buttermilk") == ["a.md"]
        assert await found(database, "begun") == ["log.txt"]
    finally:
        stop.set()
        writer.join()
    await database.refresh()
    assert await found(database, "marmalade") == ["log.txt"]


async def test_a_file_that_cannot_be_opened_is_tried_again(
    folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.md", "buttermilk")
    put(folder, "b.md", "syrup")
    real, locked = scan._hash, True

    def hash_or_not(path: Path) -> bytes:
        if locked and path.name == "a.md":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(scan, "_hash", hash_or_not)
    monkeypatch.setattr(sync, "_RETRY_SECONDS", 0.05)
    database = await opened()
    await database.ready()
    (fault,) = database.faults
    assert fault.path == "a.md"
    assert "tried again" in fault.reason
    assert await found(database, "syrup") == ["b.md"]
    locked = False

    async def is_found() -> bool:
        return await found(database, "buttermilk") == ["a.md"] and not database.faults

    await until(is_found)


async def test_after_a_watch_that_failed_the_whole_folder_is_looked_at(
    folder: Path, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(*_: object, **__: object) -> AsyncIterator[None]:
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(watchfiles, "awatch", cannot)
    pauses = iter([1.0])
    began = clock.time()
    async with aclosing(sync.changes(folder, lambda: next(pauses, 60.0))) as told:  # meanwhile it grows
        assert await anext(told) == frozenset()
        assert clock.time() == began + 2.0


async def test_a_file_that_vanishes_under_the_reader_is_no_fault(
    folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.md", "buttermilk")
    put(folder, "b.md", "syrup")
    real = scan._hash

    def hash_and_delete(path: Path) -> bytes:
        digest = real(path)
        (folder / "a.md").unlink(missing_ok=True)
        return digest

    monkeypatch.setattr(scan, "_hash", hash_and_delete)
    database = await opened()
    await database.ready()
    assert await found(database, "syrup buttermilk") == ["b.md"]
    assert not database.faults
    assert database.entries == 1


async def test_many_tiny_files_can_be_searched_while_they_are_read(
    folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    class Pausing(ReadersAtHand):
        async def read_many(
            self, paths: Iterable[Path]
        ) -> AsyncGenerator[tuple[Path, Documents | SetAside], None]:
            number = 0
            async for outcome in super().read_many(paths):
                yield outcome
                number += 1
                if number == 30:
                    await go.wait()

    monkeypatch.setattr(sync, "Readers", Pausing)
    monkeypatch.setattr(scan, "_ENTRIES", 20)
    for number in range(60):
        put(folder, f"{number // 20}/{number}.md", f"# Note {number}\n\nbuttermilk {number}")
    database = await opened()
    assert (await database.search("buttermilk")).hits
    assert 0 < database.entries <= 30
    go.set()
    await database.ready()
    assert database.entries == 60
    assert len((await database.search("buttermilk", 50)).hits) == 50


async def test_names_in_every_script_and_of_every_kind(folder: Path, opened: Opening) -> None:
    names = [
        "煎饼.md",
        "پنکیک‌ها.md",
        "กล้วย.md",
        "🥞.md",
        "a b'c\"d;--.md",
        "e\u0301.md",
        "-rf.md",
        "%s{0}.md",
    ]
    for number, name in enumerate(names):
        put(folder, name, f"buttermilk number{number}")
    database = await opened(name="..\\/:*?\n煎饼")
    await database.ready()
    assert database.entries == len(names)
    for number, name in enumerate(names):
        assert (await found(database, f"number{number}"))[0] == name


async def test_progress_is_told_until_all_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_TELL_SECONDS", 0.01)
    for number in range(150):
        put(folder, f"{number}.md", f"number{number}")
    told: list[str] = []
    async with await DirectoryDatabase.open(
        folder, name="a\x1b[31mb", cache=tmp_path / "cache", progress=told.append
    ) as database:
        await database.ready()
    *lines, last = told
    assert lines
    assert all(line.startswith("reading a\N{REPLACEMENT CHARACTER}[31mb: ") for line in lines if line)
    assert all(line.endswith(" of 150 files") for line in lines if line)
    assert last == ""  # nobody is told for ever that something is being read


async def test_a_missing_folder_is_told_the_nearest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"do you mean .*pancakes\?"):
        await DirectoryDatabase.open(folder.with_name("pancake"), cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


async def test_a_cache_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match="no index can be kept here"):
        await DirectoryDatabase.open(folder, cache=tmp_path / "cache")


async def test_after_closing_nothing_waits(folder: Path, opened: Opening) -> None:
    put(folder, "a.md", "buttermilk")
    database = await opened(follow=True)
    waiting = asyncio.ensure_future(database.ready())
    await asyncio.sleep(0)
    await database.close()
    await database.close()
    with pytest.raises(ConfigError, match="database pancakes"):
        await waiting
    with pytest.raises(ConfigError, match="closed"):
        await database.refresh()


async def test_entries_are_read_while_others_are_written(folder: Path, opened: Opening) -> None:
    put(folder, "a.md", "# A\n\nbuttermilk")
    database = await opened()
    await database.ready()
    number = (await database.search("buttermilk")).hits[0].source.entry
    for count in range(60):
        put(folder, f"{count}.md", f"number{count}")
    refreshing = asyncio.ensure_future(database.refresh())
    read: list[Entry] = []
    while not refreshing.done():
        read += await database.read([number])
    await refreshing
    assert {entry.id for entry in read} == {number}


async def test_a_database_ends_also_where_a_change_comes_at_that_moment(opened: Opening) -> None:
    following = (await opened())._sync
    for steps in range(6):
        waiting = asyncio.create_task(sync._woken(following._wake, 60.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        following._wake.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        is_asked = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() == is_asked, f"it went on, {steps} steps behind the change"
        following._wake.clear()


async def test_nobody_waits_for_reading_that_broke_off(
    folder: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    database = await opened()
    await database.ready()
    monkeypatch.setattr(sync.Sync, "_scan_once", broken)
    for _ in range(2):
        with pytest.raises(ConfigError, match="has ended"):
            async with within("the end of a refresh"):
                await database.refresh()
