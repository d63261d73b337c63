"""What becomes of a place in which a store lies: no room, no permission, no folder any more."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError, StoreError
from pixi.core.events import Failed
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore, schema
from pixi.testing import ScriptedModel
from tests.engine.scene import scene
from tests.waiting import LIMIT, until

MO = Author("1", "mo")
FULL = "the disk is full; nothing is saved until there is room"

ROOT = Path(__file__).resolve().parents[2]


def said(name: str, length: int = 10) -> Message:
    return Message(name, "room", MO, "x" * length, 0.0)


async def test_a_file_that_was_taken_away_is_told_of_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    store = await SqliteStore.open(folder / "pixi.db")
    assert await store.receive(said("1"))
    folder.rename(tmp_path / "away")
    with pytest.raises(StoreError, match="is no longer where it was: put it back, or start Pixi again"):
        await store.receive(said("2"))
    (tmp_path / "away").rename(folder)
    assert await store.receive(said("2"))
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match="is no longer where it was"):
        await store.receive(said("3"))
    await store.close()


async def test_nothing_is_posted_that_would_be_on_record_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    store = await SqliteStore.open(folder / "pixi.db")
    gate = asyncio.Event()
    async with scene(ScriptedModel(["[SEND: one]", gate, "[SEND: two]"]), store=store) as here:
        await here.say("hello")
        await until(lambda: here.channel.sent == ["one"])
        shutil.rmtree(folder)
        gate.set()
        await here.engine.settled()
        assert here.channel.sent == ["one"]
        assert here.kinds().count("Failed") == 1
        with pytest.raises(StoreError, match="is no longer where it was"):
            await here.say("again")
    await store.close()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of half a megabyte. Only root may have one."""
    folder = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        if not mounted:
            pytest.skip("a disk of one's own can be had by root alone")
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path, room: int) -> Path:
    """Leave so many bytes free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    os.truncate(ballast, max(0, ballast.stat().st_size // 4096 * 4096 - room))
    return ballast


async def test_a_disk_that_is_really_full(disk: Path) -> None:
    """At each step of a turn: one reply or one notice, and on it goes when there is room again."""
    outcomes: set[tuple[str, ...]] = set()
    for room in range(0, 240_000, 8_192):
        path = disk / "pixi.db"
        store = await SqliteStore.open(path)
        model = ScriptedModel("[SEND: one]\n[SEND: two]", "[SEND: three]")
        async with scene(model, store=store) as here:
            ballast = fill(disk, room)
            refused = ""
            try:
                await here.say("hello " * 500)
            except StoreError as error:
                refused = str(error)
            await here.engine.settled()
            notices = [event.text for event in here.channel.events if isinstance(event, Failed)]
            told = [refused, *notices] if refused else notices
            assert len(told) <= 1
            assert [each for each in told if FULL not in each] == []
            sent = list(here.channel.sent)
            assert sent == ["one", "two"][: len(sent)]
            assert told or sent == ["one", "two"]
            outcomes.add((*sent, *("told" for _ in told)))
            ballast.unlink()
            await here.say("and now?")
            await here.engine.settled()
            assert here.channel.sent[: len(sent)] == sent
            assert len(here.channel.sent) > len(sent), "without a restart"
            assert len(set(here.channel.sent)) == len(here.channel.sent), "nothing is said twice"
        await store.check()
        await store.close()
        for file in disk.iterdir():
            file.unlink()
    assert {("told",), ("one", "two")} <= outcomes, outcomes


def test_no_room_for_the_index_of_the_log_is_a_full_disk(disk: Path) -> None:
    """It is mapped into memory, and SQLite speaks of a failure of the disk."""
    with closing(schema.connect(disk / "pixi.db")):
        pass
    fill(disk, 4_096)
    with pytest.raises(ConfigError, match=FULL):
        schema.connect(disk / "pixi.db")
    for file in disk.iterdir():
        file.unlink()


LIMITED = """
import asyncio, resource, signal, sys
from pathlib import Path
from pixi.core.errors import StoreError
from pixi.core.events import Failed
from pixi.core.message import Author, Message
from pixi.store.sqlite import SqliteStore

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = await SqliteStore.open(Path(sys.argv[1]))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most[1]))
    kept = 0
    try:
        while True:
            await store.receive(Message(str(kept), "room", Author("1", "mo"), "x" * 5_000, 0.0))
            kept += 1
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert await store.receive(Message("more", "room", Author("1", "mo"), "x", 0.0))
    assert len((await store.load("room")).waiting) == kept + 1
    await store.check()
    await store.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_file_that_may_grow_no_further(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "pixi.db")],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert "the disk refused to read or write; see that it is well and has room" in line


def without_rights(home: Path, *words: str) -> tuple[int, str]:
    """Run a command as somebody to whom permissions mean something; gives its code, and its complaint."""
    command = [sys.executable, "-m", "pixi", *words]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("nothing is forbidden to root")
        rights = "-dac_override,-dac_read_search"
        command = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", *command]
    done = subprocess.run(
        command,
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PIXI_MODEL__NAME": "local"},
        input="hi\n",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
@pytest.mark.parametrize("words", [("chat",), pytest.param(("doctor",), marks=pytest.mark.nightly)])
def test_a_folder_that_may_not_be_written(tmp_path: Path, words: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    try:
        code, err = without_rights(home, *words)
    finally:
        home.chmod(0o755)
    if words == ("doctor",):
        assert (code, err) == (1, "")
    else:
        told = "The store pixi.db cannot be opened (Permission denied); mend the path or its permissions."
        assert (code, err) == (2, f"pixi-persona: {told}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
async def test_a_file_that_may_only_be_read(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    await (await SqliteStore.open(path)).close()
    path.chmod(0o400)
    before = path.read_bytes()
    code, err = await asyncio.to_thread(without_rights, tmp_path, "chat")
    assert code == 2
    assert err.count("\n") == 1
    assert "cannot be opened (Permission denied); mend the path or its permissions" in err
    assert path.read_bytes() == before
