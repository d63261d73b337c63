"""Changes of real files are seen, whatever an editor does to them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from pixi.documents import watching
from pixi.documents.watching import WatchedPaths, changes
from tests.waiting import within

LOOK_SECONDS = 0.1


class Eye:
    """What `changes` tells, step by step."""

    def __init__(self, told: AsyncGenerator[None, None]) -> None:
        self._told = told
        self._next: asyncio.Task[None] | None = None

    async def sees_a_change(self) -> None:
        self._next = self._next or asyncio.ensure_future(anext(self._told))
        async with within("a change"):
            await asyncio.shield(self._next)
        self._next = None

    async def sees_nothing(self) -> None:
        """Look a few times, in vain."""
        self._next = self._next or asyncio.ensure_future(anext(self._told))
        done, _ = await asyncio.wait([self._next], timeout=3 * LOOK_SECONDS)
        assert not done

    async def close(self) -> None:
        if self._next:
            self._next.cancel()
            await asyncio.wait([self._next])


@asynccontextmanager
async def eye(
    *files: Path, folders: tuple[Path, ...] = (), parents: tuple[Path, ...] = ()
) -> AsyncIterator[Eye]:
    async with aclosing(changes(lambda: WatchedPaths(files, folders, parents))) as told:
        opened = Eye(told)
        await opened.sees_a_change()  # the first is told at once
        try:
            yield opened
        finally:
            await opened.close()


def replace(path: Path, text: str) -> None:
    """As editors do it: a new file takes the place of the old one."""
    new = path.with_suffix(".swp")
    new.write_text(text)
    new.replace(path)


@pytest.fixture(
    params=["told by the system", pytest.param("polled", marks=pytest.mark.nightly)], autouse=True
)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_QUIET_SECONDS", 0.02)
    monkeypatch.setattr(watching, "_LOOK_SECONDS", LOOK_SECONDS)
    monkeypatch.setenv("WATCHFILES_POLL_DELAY_MS", "20")
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1" if request.param == "polled" else "")


@pytest.mark.parametrize("write", [Path.write_text, replace])
async def test_a_file_that_is_written_or_replaced(
    tmp_path: Path, write: Callable[[Path, str], object]
) -> None:
    file = tmp_path / "pixi.toml"
    file.write_text("one")
    async with eye(file) as told:
        for text in ("two", "three, which is longer"):
            write(file, text)
            await told.sees_a_change()


async def test_a_file_that_comes_and_goes(tmp_path: Path) -> None:
    file = tmp_path / "pixi.toml"
    async with eye(file) as told:
        file.write_text("one")
        await told.sees_a_change()
        file.unlink()
        await told.sees_a_change()


async def test_other_files_beside_it_are_no_change(tmp_path: Path) -> None:
    file = tmp_path / "pixi.toml"
    file.write_text("one")
    async with eye(file) as told:
        (tmp_path / "pixi.db").write_text("much")
        await told.sees_nothing()
        file.write_text("two")
        await told.sees_a_change()


async def test_a_folder_that_is_made_later_and_what_is_put_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "personas"
    async with eye(folders=(folder,)) as told:
        folder.mkdir()
        (folder / "wren.md").write_text("You are Wren.")
        await told.sees_a_change()
        (folder / "wren.md").write_text("You are Wren, a bird.")
        await told.sees_a_change()
        (folder / "picture.png").write_bytes(b"png")
        await told.sees_nothing()


async def test_a_link_that_leads_elsewhere_now(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pixi.toml").write_text(name * 2)
    (tmp_path / "data").symlink_to("old")
    (tmp_path / "pixi.toml").symlink_to("data/pixi.toml")
    async with eye(tmp_path / "pixi.toml") as told:
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").replace(tmp_path / "data")
        await told.sees_a_change()


async def test_where_the_system_cannot_watch_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = 0

    async def cannot(*_: Path, **__: Any) -> AsyncGenerator[set[watchfiles.main.FileChange], None]:
        nonlocal ways
        ways += 1
        raise OSError(28, "No space left on device")
        yield set()

    monkeypatch.setattr(watchfiles, "awatch", cannot)
    file = tmp_path / "pixi.toml"
    async with eye(file) as told:
        file.write_text("one")
        await told.sees_a_change()
        file.write_text("another")
        await told.sees_a_change()
    assert ways > 1


async def test_a_folder_that_comes_to_a_shelf_or_leaves_it_is_seen_and_what_it_holds_is_not(
    tmp_path: Path,
) -> None:
    shelf = tmp_path / "databases"
    async with eye(parents=(shelf,)) as sees:
        (shelf / "islands").mkdir(parents=True)
        await sees.sees_a_change()
        (shelf / "islands" / "ferry.md").write_text("It leaves at 07:40.")
        (shelf / "README.md").write_text("Put folders here.")
        await sees.sees_nothing()
        (shelf / "islands").rename(tmp_path / "elsewhere")
        await sees.sees_a_change()
