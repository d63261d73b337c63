"""Where the cache lies, what becomes of a disk that cannot be written, and who holds the lock."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import platformdirs
import pytest

from pixi.core.errors import ConfigError
from pixi.knowledge.index_store import IndexStore, WriterLock, cache_folder, identity


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "users" / name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "users"


def test_it_lies_among_the_users_caches_under_name_and_place(users: Path, tmp_path: Path) -> None:
    one = cache_folder(tmp_path / "a" / "Good Pancakes", "Good Pancakes", None)
    other = cache_folder(tmp_path / "b" / "Good Pancakes", "Good Pancakes", None)
    assert one.parent == users / "pixi-persona" / "databases"
    assert one.name.startswith("good-pancakes-")
    assert one != other
    assert cache_folder(tmp_path / "a" / "Good Pancakes", "Good Pancakes", None) == one
    assert one.is_dir()


@pytest.mark.parametrize("name", ["../../etc", "/etc", "煎饼", "", "a\0b", "x" * 500])
def test_no_name_leads_out_of_it(users: Path, tmp_path: Path, name: str) -> None:
    assert cache_folder(tmp_path / "folder", name, None).parent == users / "pixi-persona" / "databases"


def test_only_its_owner_may_read_it(users: Path, tmp_path: Path) -> None:
    if os.name == "posix":
        assert cache_folder(tmp_path / "f", "f", None).stat().st_mode & 0o077 == 0


def test_where_the_users_cannot_be_written_a_temporary_one_is_taken(users: Path, tmp_path: Path) -> None:
    users.write_text("a file stands in its place")
    assert cache_folder(tmp_path / "f", "f", None).is_relative_to(tmp_path / "temporary")


def test_where_nothing_can_be_written_the_operator_is_told(users: Path, tmp_path: Path) -> None:
    users.write_text("a file stands in its place")
    (tmp_path / "temporary").rmdir()
    (tmp_path / "temporary").write_text("and here")
    with pytest.raises(ConfigError, match="index cannot be kept"):
        cache_folder(tmp_path / "f", "f", None)


def test_one_that_was_named_is_taken_or_complained_of(tmp_path: Path) -> None:
    assert cache_folder(tmp_path / "f", "f", tmp_path / "c" / "d") == tmp_path / "c" / "d"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="name another folder"):
        cache_folder(tmp_path / "f", "f", tmp_path / "file")


def test_that_of_a_folder_long_gone_is_cleared_away_with_the_next_new_one(
    users: Path, tmp_path: Path
) -> None:
    def made(name: str, *, days: float) -> Path:
        (tmp_path / name).mkdir()
        cache = cache_folder(tmp_path / name, name, None)
        (cache / "catalogue.db").write_text("much")
        then = time.time() - days * 24 * 3600
        os.utime(cache / "folder", (then, then))
        return cache

    gone, in_use, lately, there = (
        made("gone", days=40),
        made("in-use", days=40),
        made("lately", days=20),
        made("there", days=40),
    )
    for name in ("gone", "in-use", "lately"):
        (tmp_path / name).rmdir()
    strange = users / "pixi-persona" / "databases" / "strange"
    strange.mkdir()
    lock = WriterLock(in_use / "lock.db")
    assert lock.take()
    cache_folder(tmp_path / "there", "there", None)
    assert gone.exists()  # nothing is new
    cache_folder(tmp_path, "new", None)
    assert not gone.exists()
    assert all(each.exists() for each in (in_use, lately, there, strange))
    lock.give_back()


@pytest.mark.skipif(os.name == "nt", reason="there each person has a temporary folder")
def test_a_temporary_folder_of_somebody_elses_is_not_used(users: Path, tmp_path: Path) -> None:
    users.write_text("a file stands in its place")
    trap = tmp_path / "temporary" / f"pixi-persona-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir()
    trap.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        cache_folder(tmp_path / "f", "f", None)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_another_process_writes_is_not_begun_anew(tmp_path: Path) -> None:
    other, late = IndexStore(tmp_path), IndexStore(tmp_path)
    other.open()
    kept = identity(other.path)
    late.begin_anew()
    assert (late.writes, identity(other.path)) == (False, kept)
    late.close()
    other.close()
    for index in other.take_replaced():
        index.close()


def test_one_holds_the_lock(tmp_path: Path) -> None:
    one, other = WriterLock(tmp_path / "lock.db"), WriterLock(tmp_path / "lock.db")
    assert one.take()
    assert one.take()
    assert not other.take()
    one.give_back()
    one.give_back()
    assert other.take()
    assert not one.take()
    other.give_back()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    holder = (
        "import sys, time; from pathlib import Path; from pixi.knowledge.index_store import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1])); print(lock.take(), flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock.db"
    with subprocess.Popen([sys.executable, "-c", holder, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "True\n"
        lock = WriterLock(path)
        assert not lock.take()
        process.kill()
        process.wait()
        assert lock.take()
        lock.give_back()
