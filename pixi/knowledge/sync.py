"""Keeps a database up with its folder: reads what is new, follows changes, takes over from others."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, display_path
from pixi.documents.readers import Readers
from pixi.documents.watching import bursts
from pixi.knowledge.catalogue import Catalogue, CatalogueDamaged
from pixi.knowledge.index import Index
from pixi.knowledge.index_store import IndexStore, Threads, identity
from pixi.knowledge.scan import FolderScan, readers_tag

_log = logging.getLogger("pixi.knowledge")

_LOOK_SECONDS = 2.0
"""Pause before looking again for a folder that went away."""


async def changes(folder: Path, pause: Callable[[], float]) -> AsyncGenerator[frozenset[str], None]:
    """Yield the paths within the folder that may have changed; none: anything may have.

    That comes now and then in any case: not every system tells of every change.

    Args:
        pause: seconds until the folder is looked at though the system told nothing; asked each time.
    """
    while True:
        known = identity(folder)
        if known is None:  # it went away; it may come back
            await asyncio.sleep(_LOOK_SECONDS)
            if identity(folder) is not None:
                yield frozenset()
            continue
        last = time.monotonic()
        async with aclosing(bursts((folder,), recursive=True, pause=pause)) as told:
            async for paths in told:
                within = {_within(folder, path) for path in paths}
                # What is hidden is no document: version control and editors write a lot there.
                if seen := frozenset(path for path in within if "/." not in f"/{path}"):
                    yield seen
                if time.monotonic() - last >= pause():
                    yield frozenset()
                    last = time.monotonic()
                if identity(folder) != known:  # another folder stands in its place
                    break
        yield frozenset()


def _within(folder: Path, path: str) -> str:
    """Return a path as it is written within the folder; "" is the folder itself."""
    within = os.path.relpath(path, folder).replace(os.sep, "/")
    return "" if within == "." else within


_IDLE_SECONDS = 5.0
"""Time without work after which the reader processes are stopped."""

_TELL_SECONDS = 1.0
"""Pause between reports of progress."""

_RETRY_SECONDS = 15.0
"""Pause before trying again what could not be opened or written."""

_OTHER_SECONDS = 0.5
"""Pause before looking again at what another process has written, and whether it still does."""

_MANY = 1_000
"""Changes heard of at once, beyond which the whole folder is looked at."""

_LONGEST_PAUSE = 300.0
_SHARE = 0.01
"""Share of a core for looking at a folder where nothing happens."""


class Sync:
    """Keeps one folder's index up to date. Nothing happens before `start`.

    Args:
        root: the folder, links resolved.
        name: for people.
        store: catalogue and index.
        progress: is told how far reading is.
        began: a scan begins; called in the thread that writes.
        looked: a scan has ended; called on the event loop.

    Attributes:
        scan: looks at the folder.
        trouble: why it cannot go on, for the operator; "" while it can.
        readers: the processes that read.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        store: IndexStore,
        *,
        thread: Threads,
        progress: Callable[[str], None],
        began: Callable[[], None],
        looked: Callable[[], None],
    ) -> None:
        self.trouble = ""
        self.readers = Readers()
        self._root = root
        self._name = display_line(name)
        self._store = store
        self._writer = thread
        self._progress = progress
        self._began = began
        self._has_looked = looked
        self._looked = False  # a scan has ended, well or not
        self._busy = True  # a scan goes on
        # What the next scan has to do.
        self._damaged: Index | None = None  # make another index in place of this one
        self._harmed = False  # throw the catalogue away, and read everything again
        self._everywhere = True  # look at the whole folder
        self._heard: set[str] = set()  # else at these paths, of which the system told
        self._wake = asyncio.Event()  # there is something to do
        self._wrote = asyncio.Event()  # there is something to find, or there will be nothing
        self.scan = FolderScan(root, store, thread, self.readers, self._wrote.set)
        self._readying: list[asyncio.Future[None]] = []  # wait for the end of the scan that goes on
        self._refreshing: list[asyncio.Future[None]] = []  # wait for the next one
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, follow: bool, *others: Coroutine[None, None, None]) -> None:
        """Begin to read, and to follow if that is wished; `others` end when this ends."""
        work = [self._keep_reading(), *([self._follow()] if follow else []), *others]
        self._tasks = [asyncio.create_task(each) for each in work]
        for task in self._tasks:
            task.add_done_callback(_report_failure)

    async def close(self) -> None:
        """Stop, and let go of the cache. Calling it twice does no harm."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._release_waiters(ConfigError(f"the database {self._name} was closed."), for_good=True)

    async def close_store(self) -> None:
        """Close catalogue and index. To be called once nobody asks them any longer."""
        await self._writer.run(self._store.close)
        await self._close_replaced()
        await asyncio.to_thread(self._writer.shutdown)

    @property
    def at_rest(self) -> bool:
        """Return whether all that was seen has been read, as far as it can be."""
        return self._looked and not self._wake.is_set() and not self._busy

    async def ready(self) -> None:
        """See `DirectoryDatabase.ready`."""
        if not self.at_rest or (not self._store.writes and not self._store.snapshot.finished):
            await self._wait_for_scan(self._readying)
        elif self.trouble:
            raise ConfigError(self.trouble)

    async def refresh(self, damaged: Index | None = None, *, harmed: bool = False) -> None:
        """See `DirectoryDatabase.refresh`.

        Args:
            damaged: the index in whose place another is to be made.
            harmed: the catalogue is, and everything is to be read again.
        """
        self._harmed = self._harmed or harmed
        self.scan_soon(damaged)
        await self._wait_for_scan(self._refreshing)

    def scan_soon(self, damaged: Index | None = None) -> None:
        """Look at the folder again without being waited for. Make another index in place of a damaged one."""
        self._damaged = damaged or self._damaged
        self._everywhere = True
        self._wake.set()

    async def first_results(self, seconds: float) -> None:
        """Return when there is something to find, or nothing to be found, or after so long.

        A fault of reading is told by `ready` and `faults`; a search finds what there is.
        """
        if not self._looked and not self._has_results:
            await _woken(self._wrote, seconds)

    @property
    def _has_results(self) -> bool:
        index = self._store.snapshot.index
        return index is not None and index.entries > 0

    async def _keep_reading(self) -> None:
        try:
            while True:
                self._wake.clear()
                self._busy = True
                only = None if self._everywhere or "" in self._heard else sorted(self._heard)
                self._everywhere, self._heard = False, set()
                refreshing, self._refreshing = self._refreshing, []
                self._readying += refreshing
                await self._scan_once(only)
                await self._close_replaced()
                await self._wait_for_work()
        finally:
            self._busy = False
            await self.readers.close()
            self._release_waiters(ConfigError(f"reading the database {self._name} has ended."), for_good=True)

    async def _scan_once(self, only: Sequence[str] | None) -> None:
        """Scan the folder once; where another process reads, see what it has done."""
        try:
            try:
                finished = await self._scan_or_look_on(only)
            except CatalogueDamaged as error:
                why = display_line(str(error))
                _log.info("%s: what was kept of the folder is harmed (%s); it is made again", self._name, why)
                await self._writer.run(self._store.begin_anew)
                finished = await self._scan_or_look_on(None)
        except CatalogueDamaged as error:
            place, why = display_path(self._store.path), display_line(str(error))
            self._fail(ConfigError(f"{place}: it was harmed twice ({why}); see to the disk."))
        except ConfigError as error:
            self._fail(error)
        except OSError as error:
            gone = f"{display_path(self._root)}: the folder cannot be read ({error.strerror}); put it back."
            self._fail(ConfigError(gone))
        else:
            self.trouble = ""
            self._busy = False
            self._has_looked()
            if finished:
                self._looked = True
                self._release_waiters(None)

    async def _scan_or_look_on(self, only: Sequence[str] | None) -> bool:
        """Scan, or see what the process that writes has done; return True if all is read."""
        if await self._writer.run(self._prepare_to_write):
            await self._scan(only)
            return True
        if self._has_results:
            self._wrote.set()
        return self._store.snapshot.finished

    async def _close_replaced(self) -> None:
        """Close the indexes that others took the place of, once no search asks them any longer."""
        for index in self._store.take_replaced():
            await self._writer.run(index.close)

    def _prepare_to_write(self) -> bool:
        """Return True if this process writes; whatever it writes to is made whole first."""
        store = self._store
        if not store.writes:
            if not store.take_over():
                return False
        elif not store.is_intact():
            store.close()
            store.open()
            if not store.writes:
                return False
        if self._harmed:
            self._harmed = False
            raise CatalogueDamaged("an entry cannot be read")
        store.check(broken=self._damaged)
        self._damaged = None
        store.call(Catalogue.trust, readers_tag())
        self._began()
        return True

    async def _scan(self, only: Sequence[str] | None) -> None:
        telling = asyncio.create_task(self._report_progress())
        try:
            await self.scan.run(only if self.scan.walked and not self.trouble else None)
        finally:
            telling.cancel()

    async def _report_progress(self) -> None:
        told = False
        try:
            while True:
                await asyncio.sleep(_TELL_SECONDS)
                if self.scan.total:
                    done, total = self.scan.done, self.scan.total
                    self._progress(f"reading {self._name}: {done:,} of {total:,} files")
                    told = True
        finally:
            if told:
                self._progress("")

    def _fail(self, error: ConfigError) -> None:
        if self.trouble != str(error):
            _log.warning("%s", error)
        self.trouble = str(error)
        self._looked, self._busy = True, False
        self._release_waiters(error)

    async def _wait_for_work(self) -> None:
        """Wait until there is something to do."""
        held = self.trouble or self.scan.held
        pause = _OTHER_SECONDS if not self._store.writes else _RETRY_SECONDS if held else None
        if self.readers.running and (pause is None or pause > _IDLE_SECONDS):
            if await _woken(self._wake, _IDLE_SECONDS):
                return
            await self.readers.stop_idle()
        if not await _woken(self._wake, pause):
            self._everywhere = True

    async def _follow(self) -> None:
        async with aclosing(changes(self._root, self._pause)) as changed:
            async for paths in changed:
                self._everywhere = self._everywhere or not paths or len(paths) > _MANY
                self._heard |= paths
                self._wake.set()

    def _pause(self) -> float:
        """Return the seconds between scans where nothing is heard: the larger the folder, the more."""
        return min(self.scan.seconds / _SHARE, _LONGEST_PAUSE)

    async def _wait_for_scan(self, waiting: "list[asyncio.Future[None]]") -> None:
        if not self._tasks:
            raise ConfigError(f"the database {self._name} was closed.")
        if self._tasks[0].done():  # it failed, as the log tells
            raise ConfigError(f"reading the database {self._name} has ended.")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        await future

    def _release_waiters(self, error: ConfigError | None, *, for_good: bool = False) -> None:
        """End the waiting for a scan: all is read, or `error` says why it is not."""
        self._wrote.set()
        waiting, self._readying = self._readying, []
        if for_good:  # there will be no other scan
            waiting += self._refreshing
            self._refreshing = []
        for future in waiting:
            if future.done():
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)


async def _woken(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event; False where it does not come within so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _report_failure(task: "asyncio.Task[None]") -> None:
    """Log what a task raised: nobody awaits it."""
    if not task.cancelled() and (error := task.exception()):
        _log.error("reading a folder has ended", exc_info=error)
