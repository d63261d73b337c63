"""A folder of documents as a database: read, kept on disk, followed, and asked."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from pixi.core.errors import ConfigError
from pixi.knowledge.about import About, describe
from pixi.knowledge.cache import cache_folder
from pixi.knowledge.embedding import Embedding
from pixi.knowledge.entry import Entry, Fault, Found
from pixi.knowledge.following import changes
from pixi.knowledge.index import Index, IndexDamaged
from pixi.knowledge.keeping import Keeping
from pixi.knowledge.one_line import on_one_line, shown
from pixi.knowledge.shelf import require_folder
from pixi.knowledge.updating import Look, Pool, readers_tag
from pixi.knowledge.vectors import Vectors, require_numpy
from pixi.models.embedder import Embedder

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("pixi.knowledge")

_FIRST_SECONDS = 10.0
"""How long a search waits at most where nothing was read yet."""

_IDLE_SECONDS = 20.0
"""After so long without work the reader processes are stopped."""

_TELL_SECONDS = 1.0
"""How often progress is told."""

_RETRY_SECONDS = 15.0
"""When to look again at what could not be opened or written."""

_OTHER_SECONDS = 0.5
"""How often to see what another process has written, and whether it still does."""

_MANY = 1_000
"""Changes heard of at once, beyond which the whole folder is looked at."""

_LONGEST_PAUSE = 300.0
_SHARE = 0.01
"""Of a core, that looking at a folder may take where nothing happens in it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How far reading is.

    Attributes:
        done, total: files, of those that were new or changed at the last look.
        finished: nothing is left to read of what was seen.
    """

    done: int = 0
    total: int = 0
    finished: bool = False


def _silent(text: str) -> None:
    """Tell nobody."""


class DirectoryDatabase:
    """One folder and everything below it. Made by `open`; every method is for one event loop.

    What was read is kept in a cache, which may be deleted at any time: it is made again. Several processes
    may open a folder at once; one of them reads the documents and the others see what it has read.
    """

    def __init__(self, root: Path, name: str, keeping: Keeping, thread: ThreadPoolExecutor) -> None:
        self.name = name
        self.folder = root
        self._keeping = keeping
        self._writer = thread
        self._askers = ThreadPoolExecutor(4, thread_name_prefix=f"ask {name}")
        self._about = About(name)
        self._embedding: Embedding | None = None
        self._progress: Callable[[str], None] = _silent
        self._pool = Pool()
        self._look: Look | None = None
        self._looked = False
        self._busy = True
        self._trouble = ""
        self._damaged: Index | None = None
        self._in_use: Counter[Index] = Counter()
        self._everywhere = True
        self._heard: set[str] = set()
        self._wake = asyncio.Event()
        self._wrote = asyncio.Event()
        self._readying: list[asyncio.Future[None]] = []
        self._refreshing: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        name: str = "",
        cache: Path | None = None,
        embedder: Embedder | None = None,
        progress: Callable[[str], None] = _silent,
        follow: bool = False,
    ) -> Self:
        """Open a folder. Returns at once with what the cache holds; reading goes on beside.

        Args:
            name: for people and models; the folder's own, where it is empty.
            cache: the folder for what is made of the documents; None: one among the user's caches.
            embedder: turns passages and queries into vectors, so that meanings are found too.
            progress: is told each second how far reading is, in a line for people.
            follow: look at the folder whenever something in it changes.

        Raises:
            ConfigError: there is no such folder (the text names the nearest), nowhere to keep an index, or
                nothing to reckon with vectors with.
        """
        if embedder is not None:
            require_numpy()
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"database {name or folder.name}")
        loop = asyncio.get_running_loop()
        try:
            root, keeping, about = await loop.run_in_executor(thread, _open, folder, name, cache)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        database = cls(root, name or folder.name or root.name, keeping, thread)
        database._about, database._progress = about, progress
        if embedder is not None:
            database._embed(embedder)
        database._start(database._keep_reading())
        if follow:
            database._start(database._follow())
        return database

    @property
    def title(self) -> str:
        """For people: of the folder's description, or its name. One line."""
        return self._about.title

    @property
    def about(self) -> str:
        """What the folder's README or `_about.md` says; "" where there is none. A stranger's words."""
        return self._about.text

    @property
    def entries(self) -> int:
        """How many there are now."""
        return self._keeping.kept.entries

    @property
    def bytes(self) -> int:
        """What is kept of the folder, on disk."""
        return self._keeping.kept.bytes

    @property
    def faults(self) -> Sequence[Fault]:
        """What could not be read, each with the reason and the mend."""
        trouble = (Fault("", self._trouble),) if self._trouble else ()
        walked = self._look.faults if self._look else ()
        return (*trouble, *walked, *self._keeping.kept.faults)

    @property
    def passed_over(self) -> Mapping[str, int]:
        """How many files lie there that are no documents, by their suffix."""
        return dict(self._look.unknown) if self._look else {}

    @property
    def state(self) -> Reading:
        """How far reading is."""
        if self._look and self._keeping.writes:
            return Reading(self._look.done, self._look.total, self._is_at_rest)
        kept = self._keeping.kept
        return Reading(*kept.reading, self._is_at_rest and kept.finished)

    async def ready(self) -> None:
        """Return when everything in the folder has been read.

        Raises:
            ConfigError: it cannot be: the folder is gone, or the disk is full.
        """
        if not self._is_at_rest or (not self._keeping.writes and not self._keeping.kept.finished):
            await self._wait_in(self._readying)
        elif self._trouble:
            raise ConfigError(self._trouble)

    async def embedded(self) -> None:
        """Return when what was read has its vectors, or cannot have them now; at once without an embedder.

        Nobody need wait for that: until then words alone find.
        """
        if self._embedding:
            await self._embedding.caught_up()

    async def refresh(self) -> None:
        """Look at the folder now, and return when all that is new was read.

        Raises:
            ConfigError: as `ready`.
        """
        waiting = self._wait_in(self._refreshing)
        self._everywhere = True
        self._wake.set()
        await waiting

    async def search(self, query: str, limit: int = 10) -> Found:
        """Find entries by what they say. Waits a while where nothing was read yet."""
        await self._first_results()
        index = self._keeping.kept.index
        if index is None or limit < 1:
            return Found(())
        try:
            return await self._asked(index, query, limit)
        except IndexDamaged:
            # Somebody harmed its files; the catalogue makes another.
            self._damaged = index
            await self.refresh()
            index = self._keeping.kept.index
            return await self._asked(index, query, limit) if index else Found(())

    async def read(self, ids: Sequence[int]) -> list[Entry]:
        """The entries with these ids, in this order; an id that is none of this database is left out."""
        return await self._ask(self._keeping.entries, list(ids))

    async def close(self) -> None:
        """Stop reading and let go of the cache. Calling it twice does no harm."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._dismiss(ConfigError(f"the database {on_one_line(self.name)} was closed."))
        if self._embedding:
            await self._embedding.vectors.close()
        await asyncio.to_thread(self._askers.shutdown)
        if tasks:
            await self._thread(self._keeping.close)
            await self._let_go()
        await asyncio.to_thread(self._writer.shutdown)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def _asked(self, index: Index, query: str, limit: int) -> Found:
        self._in_use[index] += 1
        try:
            return await self._rank(index, query, limit)
        finally:
            self._in_use[index] -= 1

    async def _rank(self, index: Index, query: str, limit: int) -> Found:
        if self._embedding and (found := await self._embedding.vectors.search(index, query, limit)):
            return found
        return await self._ask(index.search, query, limit)

    @property
    def _has_results(self) -> bool:
        index = self._keeping.kept.index
        return index is not None and index.entries > 0

    def _embed(self, embedder: Embedder) -> None:
        path = self._keeping.path.with_name("vectors.db")
        vectors = Vectors(path, embedder, name=self.name, progress=self._progress)
        self._embedding = Embedding(vectors, self._keeping, self._ask, self._in_use)
        self._start(self._embedding.run())

    async def _first_results(self) -> None:
        if self._looked or self._has_results:
            return
        ready = asyncio.ensure_future(self._wait_in(self._readying))
        wrote = asyncio.ensure_future(self._wrote.wait())
        try:
            await asyncio.wait((ready, wrote), timeout=_FIRST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (ready, wrote):
                each.cancel()
            # A fault of reading is told by `ready` and `faults`; a search finds what there is.
            await asyncio.gather(ready, wrote, return_exceptions=True)

    # The task that reads.

    @property
    def _is_at_rest(self) -> bool:
        return self._looked and not self._wake.is_set() and not self._busy

    async def _keep_reading(self) -> None:
        try:
            while True:
                self._wake.clear()
                self._busy = True
                only = None if self._everywhere or "" in self._heard else sorted(self._heard)
                self._everywhere, self._heard = False, set()
                refreshing, self._refreshing = self._refreshing, []
                self._readying += refreshing
                await self._look_once(only)
                await self._let_go()
                await self._rest()
        finally:
            self._busy = False
            await self._pool.close()
            self._dismiss(ConfigError(f"reading the database {on_one_line(self.name)} has ended."))

    async def _look_once(self, only: Sequence[str] | None) -> None:
        """One look, or where another process reads, a look at what it has done."""
        try:
            held = await self._thread(self._hold)
            finished = await self._read_new(only) if held else self._others_finished()
        except ConfigError as error:
            self._fail(error)
        except OSError as error:
            gone = f"{shown(self.folder)}: the folder cannot be read ({error.strerror}); put it back."
            self._fail(ConfigError(gone))
        else:
            self._trouble = ""
            self._busy = False
            if self._embedding:
                self._embedding.look()
            if finished:
                self._looked = True
                self._dismiss(None)

    async def _let_go(self) -> None:
        """Close the indexes that others took the place of, once no search asks them any longer."""
        for index in [each for each in self._keeping.replaced if not self._in_use[each]]:
            self._keeping.replaced.remove(index)
            del self._in_use[index]
            await self._thread(index.close)

    def _hold(self) -> bool:
        """Whether this process writes; whatever it writes to is made whole first."""
        keeping = self._keeping
        if not keeping.writes:
            if not keeping.take_over():
                return False
        elif not keeping.whole():
            keeping.reopen()
            if not keeping.writes:
                return False
        keeping.check(broken=self._damaged)
        self._damaged = None
        keeping.trust(readers_tag())
        self._about = describe(self.folder, self.name)
        return True

    async def _read_new(self, only: Sequence[str] | None) -> bool:
        if self._look is None or self._trouble:
            only = None
        look = Look(self.folder, self._keeping, self._thread, self._pool, self._wrote.set, only)
        previous, self._look = self._look, look
        if previous:  # what is known of the walk before, until this one is done
            look.faults, look.unknown, look.seconds = previous.faults, previous.unknown, previous.seconds
            look.held = previous.held if only is not None else 0
        telling = asyncio.create_task(self._tell())
        try:
            await look.run()
        finally:
            telling.cancel()
        return True

    def _others_finished(self) -> bool:
        if self._has_results:
            self._wrote.set()
        return self._keeping.kept.finished

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            if self._look and self._look.total:
                done, total = self._look.done, self._look.total
                self._progress(f"reading {on_one_line(self.name)}: {done:,} of {total:,} files")

    def _fail(self, error: ConfigError) -> None:
        if self._trouble != str(error):
            _log.warning("%s", error)
        self._trouble = str(error)
        self._looked, self._busy = True, False
        self._dismiss(error)

    async def _rest(self) -> None:
        """Wait until there is something to do."""
        held = self._trouble or (self._look and self._look.held)
        pause = _OTHER_SECONDS if not self._keeping.writes else _RETRY_SECONDS if held else None
        if self._pool.is_open and (pause is None or pause > _IDLE_SECONDS):
            if await self._woken(_IDLE_SECONDS):
                return
            await self._pool.close()
        if not await self._woken(pause):
            self._everywhere = True

    async def _woken(self, seconds: float | None) -> bool:
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _follow(self) -> None:
        async with aclosing(changes(self.folder, self._pause)) as changed:
            async for paths in changed:
                self._everywhere = self._everywhere or not paths or len(paths) > _MANY
                self._heard |= paths
                self._wake.set()

    def _pause(self) -> float:
        """Seconds between looks where nothing is heard: the larger the folder, the seldomer."""
        return min((self._look.seconds if self._look else 0.0) / _SHARE, _LONGEST_PAUSE)

    # What these are made of.

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(_told)
        self._tasks.append(task)

    async def _wait_in(self, waiting: "list[asyncio.Future[None]]") -> None:
        if not self._tasks:
            raise ConfigError(f"the database {on_one_line(self.name)} was closed.")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        await future

    def _dismiss(self, error: ConfigError | None) -> None:
        """Let those go who wait for the end of a look."""
        waiting, self._readying = self._readying, []
        if error and not self._tasks:
            waiting += self._refreshing
        for future in waiting:
            if future.done():
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)

    async def _thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in the thread that writes. It is carried out even if the caller is cancelled."""
        work = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread that waits for no writing."""
        work = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._askers, work)


def _open(folder: Path, name: str, cache: Path | None) -> tuple[Path, Keeping, About]:
    require_folder(folder)
    root = Path(os.path.realpath(folder))
    keeping = Keeping(cache_folder(root, name or folder.name or root.name, cache))
    keeping.open()
    return root, keeping, describe(root, name or folder.name)


def _told(task: "asyncio.Task[None]") -> None:
    """A task of ours has ended: nobody awaits it, so what it raised is told here."""
    if not task.cancelled() and (error := task.exception()):
        _log.error("reading a folder has ended", exc_info=error)
