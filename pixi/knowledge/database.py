"""A folder of documents as a database: read, kept on disk, followed, and asked."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from pixi.core.errors import ConfigError, Reporter, silent
from pixi.core.untrusted import display_path
from pixi.knowledge.catalogue import CatalogueDamaged
from pixi.knowledge.entry import Entry, Fault, Found
from pixi.knowledge.evidence import Excerpt
from pixi.knowledge.index import Index
from pixi.knowledge.index_store import IndexStore, Threads, cache_folder
from pixi.knowledge.query import IndexDamaged
from pixi.knowledge.registry import DatabaseDescription, describe, require_folder
from pixi.knowledge.sync import Sync
from pixi.knowledge.vectors import Vectors

if TYPE_CHECKING:
    from pixi.models.embeddings import OpenAIEmbeddings

_FIRST_SECONDS = 10.0
"""Longest wait of a search where nothing was read yet."""

_MOMENT = 2.0
"""The same for what nobody asked for."""


class ReadingProgress(Struct, frozen=True):
    """Progress of reading.

    Attributes:
        done, total: files, of those that were new or changed at the last look.
        finished: nothing is left to read of what was seen.
    """

    done: int = 0
    total: int = 0
    finished: bool = False


class DirectoryDatabase:
    """A folder and everything below it. Made by `open`; every method is for one event loop.

    What was read is kept in a cache, which may be deleted at any time: it is made again. Several processes
    may open a folder at once; one of them reads the documents and the others see what it has read.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        store: IndexStore,
        *,
        about: DatabaseDescription,
        thread: Threads,
        progress: Reporter,
        embedder: "OpenAIEmbeddings | None",
    ) -> None:
        """Use `open` instead."""
        self.name = name
        self.folder = root
        self._about = about
        self._store = store
        self._askers = Threads(4, thread_name_prefix=f"ask {name}")
        self._vectors: Vectors | None = None
        if embedder is not None:
            self._vectors = Vectors(store, embedder, self._askers, name=name, progress=progress)
        self._sync = Sync(
            root,
            name,
            store,
            thread=thread,
            progress=progress,
            began=self._describe,
            looked=self._vectors.look if self._vectors else lambda: None,
        )
        self._closed = False

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        name: str = "",
        cache: Path | None = None,
        embedder: "OpenAIEmbeddings | None" = None,
        progress: Reporter = silent,
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
        thread = Threads(1, thread_name_prefix=f"database {name or folder.name}")
        try:
            root, store = await thread.run(_open, folder, name, cache)
            name = name or folder.name or root.name
            about = await thread.run(describe, root, name)
            database = cls(
                root, name, store, about=about, thread=thread, progress=progress, embedder=embedder
            )
        except BaseException:
            thread.shutdown(wait=False)
            raise
        database._sync.start(follow, *([database._vectors.run()] if database._vectors else []))
        return database

    @property
    def title(self) -> str:
        """Title for people: of the folder's description, or its name. One line."""
        return self._about.title

    @property
    def about(self) -> str:
        """Return what the folder's README or `_about.md` says; "" where there is none. A stranger's words."""
        return self._about.text

    @property
    def entries(self) -> int:
        """Return how many entries there are now."""
        return self._store.snapshot.entries

    @property
    def faults(self) -> Sequence[Fault]:
        """Return what could not be read, each with the reason and the mend."""
        trouble = (Fault("", self._sync.trouble),) if self._sync.trouble else ()
        return (*trouble, *self._sync.scan.faults, *self._store.snapshot.faults)

    @property
    def passed_over(self) -> Mapping[str, int]:
        """Return how many files lie there that are no documents, by their suffix."""
        return dict(self._sync.scan.unknown)

    @property
    def state(self) -> ReadingProgress:
        """Return how far reading is."""
        scan, kept = self._sync.scan, self._store.snapshot
        if self._store.writes and scan.walked:
            return ReadingProgress(scan.done, scan.total, self._sync.at_rest)
        return ReadingProgress(*kept.reading, self._sync.at_rest and kept.finished)

    async def ready(self) -> None:
        """Return when everything in the folder has been read.

        Raises:
            ConfigError: it cannot be: the folder is gone, or the disk is full.
        """
        await self._sync.ready()

    async def embedded(self) -> None:
        """Return when what was read has its vectors, or cannot have them now; at once without an embedder.

        Nobody need wait for that: until then words alone find.
        """
        if self._vectors:
            await self._vectors.caught_up()

    @property
    def embedding_trouble(self) -> str:
        """Return the reason why not all passages have meanings, for the operator; "" if all have."""
        return self._vectors.trouble if self._vectors else ""

    async def refresh(self) -> None:
        """Look at the folder now, and return when all that is new was read.

        Raises:
            ConfigError: as `ready`.
        """
        await self._sync.refresh()

    async def search(self, query: str, limit: int = 10) -> Found:
        """Find entries by what they say. Waits a while where nothing was read yet."""
        await self._sync.first_results(_FIRST_SECONDS)
        index = self._store.snapshot.index
        if index is None or limit < 1:
            return Found(())
        try:
            return await self._asked(index, query, limit)
        except IndexDamaged:
            # Somebody harmed its files; the catalogue makes another.
            await self._sync.refresh(damaged=index)
            index = self._store.snapshot.index
            return await self._asked(index, query, limit) if index else Found(())

    async def sure_passages(self, text: str, limit: int) -> Sequence[Excerpt]:
        """Return what documents surely say on what a message asks; see `pixi.knowledge.evidence`.

        By words alone: no model is asked. Waits a moment where nothing was read yet.
        """
        await self._sync.first_results(_MOMENT)
        index = self._store.snapshot.index
        if index is None:
            return ()
        try:
            with self._store.asking(index):
                return await self._askers.run(index.sure, text, limit)
        except IndexDamaged:
            self._sync.scan_soon(damaged=index)  # a model that is shown passages may never search
            return ()

    async def read(self, ids: Sequence[int]) -> list[Entry]:
        """Return the entries with these ids, in this order; an id that is none of this database is left out.

        Raises:
            ConfigError: the cache is harmed, and another process is the one to mend it.
        """
        try:
            return await self._askers.run(self._store.entries, list(ids))
        except CatalogueDamaged:
            # As above; the folder is read anew, and the ids are the same.
            await self._sync.refresh(harmed=True)
        try:
            return await self._askers.run(self._store.entries, list(ids))
        except CatalogueDamaged as error:
            place = display_path(self._store.path)
            raise ConfigError(f"{place}: it is harmed; whoever reads this folder makes it again.") from error

    async def close(self) -> None:
        """Stop reading and let go of the cache. Calling it twice does no harm."""
        await self._sync.close()
        if self._closed:
            return
        self._closed = True
        if self._vectors:
            await self._vectors.close()
        await asyncio.to_thread(self._askers.shutdown)
        await self._sync.close_store()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def _asked(self, index: Index, query: str, limit: int) -> Found:
        with self._store.asking(index):
            if self._vectors and (found := await self._vectors.search(index, query, limit)):
                return found
            return await self._askers.run(index.search, query, limit)

    def _describe(self) -> None:
        self._about = describe(self.folder, self.name)


def _open(folder: Path, name: str, cache: Path | None) -> tuple[Path, IndexStore]:
    require_folder(folder)
    root = Path(os.path.realpath(folder))
    store = IndexStore(cache_folder(root, name or folder.name or root.name, cache))
    store.open()
    return root, store


def require_numpy() -> None:
    """See that vectors can be reckoned with.

    Raises:
        ConfigError: numpy is not installed.
    """
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise ConfigError(
            "[embedding_model] needs numpy: install it with `pip install 'pixi-persona[embeddings]'`."
        ) from None
