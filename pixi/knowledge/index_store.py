"""The cache folder of a database: catalogue and index, in agreement, whoever was killed where."""

import asyncio
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, display_path
from pixi.knowledge.catalogue import Catalogue, CatalogueDamaged, Read, discard, is_broken
from pixi.knowledge.entry import Entry, Fault
from pixi.knowledge.index import Index
from pixi.knowledge.query import IndexDamaged

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """Threads in which functions that block are run."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one of the threads. It is carried out even if the caller is cancelled."""
        work = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self, work)


_FOLDER_NOTE = "folder"
"""The file that names the folder of which a cache was made; its time tells when that was last opened."""

_FORGOTTEN_SECONDS = 30 * 24 * 3600.0
"""Time for which the cache of a folder that is gone is kept: its disk may only be unplugged."""


def cache_folder(folder: Path, name: str, cache: Path | None) -> Path:
    """Return the folder, made if it is missing: `cache`, or the user's own, or where that cannot be written a
    temporary one.

    Raises:
        ConfigError: none of them can be written.
    """
    if cache is not None:
        if reason := _unwritable(cache):
            raise ConfigError(
                f"{display_path(cache)}: no index can be kept here ({reason}); name another folder."
            )
        return cache
    import platformdirs

    place = blake2b(os.fsencode(folder), digest_size=6).hexdigest()
    own = f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40] or 'database'}-{place}"
    wanted = platformdirs.user_cache_path("pixi-persona") / "databases" / own
    reason = _unwritable(wanted)
    if not reason:
        _note_folder(wanted, folder)
        return wanted
    user = f"-{os.getuid()}" if sys.platform != "win32" else ""
    temporary = Path(tempfile.gettempdir()) / f"pixi-persona{user}"
    if not _unwritable(temporary) and _is_private(temporary) and not _unwritable(temporary / own):
        _note_folder(temporary / own, folder)
        return temporary / own
    raise ConfigError(
        f"{display_path(wanted)}: the index cannot be kept here ({reason}), nor in "
        f"{display_path(temporary)}; free some space, or mend the permissions."
    )


def _note_folder(cache: Path, folder: Path) -> None:
    """Note of what it is the cache. A new one is the occasion to clear those away that nobody will need."""
    with suppress(OSError):
        is_new = not (cache / _FOLDER_NOTE).exists()
        (cache / _FOLDER_NOTE).write_bytes(os.fsencode(folder))
        if is_new:
            _clear_away(cache.parent)


def _clear_away(caches: Path) -> None:
    """Delete the caches of folders that are gone and were not opened for long."""
    for cache in caches.iterdir():
        with suppress(OSError, ValueError, sqlite3.Error):
            signed = cache / _FOLDER_NOTE
            if time.time() - signed.stat().st_mtime < _FORGOTTEN_SECONDS:
                continue
            lock = WriterLock(cache / "lock.db")
            if os.path.isdir(signed.read_bytes()) or not lock.take():
                continue
            try:
                shutil.rmtree(cache, ignore_errors=True)
            finally:
                lock.give_back()


def _unwritable(folder: Path) -> str:
    """Return why nothing can be written there; "" where it can. The folder is made, for its owner alone."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a page" * 1_000)
            file.flush()
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _is_private(folder: Path) -> bool:
    """Return True if nobody else could have laid it there: everybody may write into a temporary folder."""
    if sys.platform == "win32":
        return True  # there each person has one
    status = folder.lstat()
    return status.st_uid == os.getuid() and not folder.is_symlink() and not status.st_mode & 0o022


class WriterLock:
    """Held by the one process that writes. It is given back when the process ends, however it ends.

    An exclusive transaction on an SQLite file of its own: SQLite knows how each system locks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def take(self) -> bool:
        """Try to take it, without waiting; whether it is held now.

        Raises:
            sqlite3.Error: the file cannot be written at all.
        """
        if self._connection:
            return True
        # Opened in one thread and closed in another, never used by two at once.
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
            raise
        self._connection = connection
        return True

    def give_back(self) -> None:
        """Let another process write. Calling it twice does no harm."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._connection.close()
            self._connection = None


_AT_ONCE = 4_000
"""Entries that the index is told of in one commit."""


class Snapshot(Struct, frozen=True):
    """State of the index as of the last change.

    Attributes:
        index: to be asked; None: another process is making the first one.
        entries: how many there are.
        faults: the files that were set aside.
        reading: how far the process that writes has read: files done, and of how many.
        finished: it has read all that it saw at its last look.
        generation: is another after each change of what the index holds.
    """

    index: Index | None = None
    entries: int = 0
    faults: tuple[Fault, ...] = ()
    reading: tuple[int, int] = (0, 0)
    finished: bool = False
    generation: str = ""


class IndexStore:
    """Catalogue and index of one database in its cache folder.

    Every method raises `ConfigError` where the disk does not let it do its work, and but for `open` and
    `begin_anew` `CatalogueDamaged` where the catalogue turns out to be harmed: then begin anew.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "catalogue.db"
        self._cache = cache
        self._lock = WriterLock(cache / "lock.db")
        self._catalogue: Catalogue | None = None
        self._identity: tuple[int, int] | None = None  # of the catalogue's file, where it is open to write
        self._token = ""  # names the index that is open
        self._generation = ""  # of what was seen last, where another process writes
        self.snapshot = Snapshot()
        self._replaced: list[Index] = []  # searches may still ask them
        self._asked: Counter[Index] = Counter()  # by how many searches each is asked now

    @property
    def writes(self) -> bool:
        """Return whether this process is the one that writes."""
        return self._catalogue is not None

    @property
    def catalogue(self) -> Catalogue:
        """Catalogue to write to."""
        assert self._catalogue
        return self._catalogue

    def open(self) -> None:
        """Open what the cache holds: to write if nobody else does, else to look on."""
        try:
            try:
                self.take_over()
            except CatalogueDamaged:
                self.begin_anew()
        except BaseException:
            self.close()
            raise

    def take_over(self) -> bool:
        """Write from now on, if nobody else does any longer; else see what the other has written."""
        with self._disk():
            if self._catalogue:
                return True
            self._cache.mkdir(parents=True, exist_ok=True)
            if self._lock.take():
                self._open_to_write()
                return True
            self._look_on()
            return False

    def is_intact(self) -> bool:
        """Return True if what is open is still what lies in the cache: somebody may have emptied it."""
        return identity(self.path) == self._identity and self._folder(self._token).is_dir()

    def begin_anew(self) -> None:
        """Throw away what is kept and keep an empty catalogue: nothing is lost, it was made of the folder."""
        if self._catalogue:
            self._catalogue.close()
            self._catalogue = None
        try:
            with self._disk():
                if not self._lock.take():
                    return  # another process writes by now, and sees to it
                discard(self.path)
                self._open_to_write()
        except CatalogueDamaged as error:
            raise _unusable(self._cache, str(error)) from error

    def update_index(self, fresh: Mapping[int, Entry] | None = None) -> None:
        """Tell the index whatever it does not know yet."""
        catalogue, known = self.catalogue, fresh or {}
        assert self.snapshot.index
        with self._disk():
            while True:
                add, remove = catalogue.dirty(_AT_ONCE)
                if not add and not remove:
                    break
                there = [known[each] for each in add if each in known]
                there += catalogue.entries(each for each in add if each not in known)
                self.snapshot.index.change(there, [*add, *remove])
                catalogue.mark_told([*add, *remove], indexed=self.snapshot.index.entries)
            self._update_snapshot(self.snapshot.index)

    def check(self, broken: Index | None = None) -> None:
        """See that the index holds what it was told; else, or if it is the broken one, make another."""
        assert self.snapshot.index
        with self._disk():
            held, told = self.snapshot.index.entries, int(self.catalogue.told("indexed") or 0)
            # What was left to tell when a process was killed may have been told already.
            left = any(self.catalogue.dirty(1))
            if self.snapshot.index is broken or (held != told and not (left and held)):
                self._begin_index()
        self.update_index()

    def record(self, reads: Sequence[Read], gone: Sequence[str] = (), **notes: str | int) -> None:
        """Write what was read, and tell the index."""
        with self._disk():
            fresh = self.catalogue.record(reads, gone, **notes)
        self.update_index(fresh)

    def call(self, method: Callable[Concatenate[Catalogue, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the catalogue that does not concern the index."""
        with self._disk():
            return method(self.catalogue, *args, **kwargs)

    def tell(self, **notes: str | int) -> None:
        """Keep notes by their names."""
        with self._disk():
            self.catalogue.tell(**notes)
            if self.snapshot.index:
                self._update_snapshot(self.snapshot.index)

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Return those that there are, in the order asked. From any thread."""
        return self._look_up(lambda catalogue: list(catalogue.entries(ids))) or []

    def digests(self) -> dict[int, str]:
        """Return the digest of each entry that the index holds, by id. From any thread."""
        return self._look_up(Catalogue.digests) or {}

    @contextmanager
    def asking(self, index: Index) -> Iterator[None]:
        """Keep an index open meanwhile, even if another takes its place."""
        self._asked[index] += 1
        try:
            yield
        finally:
            self._asked[index] -= 1

    def take_replaced(self) -> list[Index]:
        """Return the indexes to close: others took their place, and nobody asks them any longer."""
        unasked = [each for each in self._replaced if not self._asked[each]]
        for each in unasked:
            self._replaced.remove(each)
            del self._asked[each]
        return unasked

    def _look_up(self, question: Callable[[Catalogue], T]) -> T | None:
        """Ask the catalogue over a connection of its own; None: there is none yet."""
        with self._disk():
            catalogue = Catalogue.look_into(self.path)
            if not catalogue:
                return None
            with closing(catalogue):
                return question(catalogue)

    def close(self) -> None:
        """Let go of both and let another process write. Calling it twice does no harm.

        `take_replaced` gives the index then, once nobody asks it.
        """
        if self._catalogue:
            self._catalogue.close()
            self._catalogue = None
        if self.snapshot.index:
            self._replaced.append(self.snapshot.index)
            self.snapshot = Snapshot()
        self._token = self._generation = ""
        self._lock.give_back()

    def _open_to_write(self) -> None:
        self._catalogue = Catalogue.open(self.path)
        self._identity = identity(self.path)
        self._token = self._catalogue.token
        try:
            index = Index.open(self._folder(self._token))
        except IndexDamaged:
            index = self._begin_index()
        self._update_snapshot(index)
        self._delete_other_indexes()

    def _begin_index(self) -> Index:
        """Begin another index in another folder: other processes may still have the one before open."""
        self._token = self.catalogue.begin_index()
        index = Index.open(self._folder(self._token))
        self._update_snapshot(index)
        self._delete_other_indexes()
        return index

    def _look_on(self) -> None:
        """Open what the other process has written, if that is more than was seen."""
        catalogue = Catalogue.look_into(self.path)
        if not catalogue:
            return
        try:
            token, generation = catalogue.token, catalogue.told("generation")
            if (token, generation) != (self._token, self._generation):
                folder = self._folder(token)
                if not folder.is_dir():
                    return  # it is being made
                try:
                    index: Index | None = Index.open(folder)
                except IndexDamaged:
                    index = None  # it is being written just now, or the other will make another
                self._token, self._generation = token, generation if index else ""
            else:
                index = self.snapshot.index
            self._update_snapshot(index, catalogue)
        except (sqlite3.DatabaseError, ValueError):
            return  # it is being thrown away; the other makes another
        finally:
            catalogue.close()

    def _update_snapshot(self, index: Index | None, catalogue: Catalogue | None = None) -> None:
        catalogue = catalogue or self.catalogue
        done, _, total = catalogue.told("reading").partition("/")
        if self.snapshot.index not in (None, index):
            self._replaced.append(self.snapshot.index)
        kept = Snapshot(
            index=index,
            entries=int(catalogue.told("entries") or 0),
            faults=tuple(catalogue.faults()),
            reading=(int(done or 0), int(total or 0)),
            finished=bool(catalogue.told("finished")),
            generation=catalogue.told("generation"),
        )
        if kept != self.snapshot:  # so that whoever follows it sees that nothing has changed
            self.snapshot = kept

    def _delete_other_indexes(self) -> None:
        """Delete the indexes of other tokens. What another process holds open may stay, on Windows."""
        for folder in self._cache.glob("index-*"):
            if folder != self._folder(self._token):
                shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, token: str) -> Path:
        return self._cache / f"index-{token}"

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Turn what a disk can do wrong into words for the operator."""
        try:
            yield
        except Exception as error:
            if is_broken(error) or isinstance(error, ValueError):  # the latter: a note that is no number
                raise CatalogueDamaged(str(error)) from error
            if isinstance(error, OSError | sqlite3.Error | IndexDamaged):
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise _unusable(self._cache, reason) from error
            raise


def _unusable(cache: Path, reason: str | None) -> ConfigError:
    why = display_line(reason or "nobody knows why")
    return ConfigError(
        f"{display_path(cache)}: the index cannot be kept here ({why}); free some space, mend the "
        "permissions, or delete this folder: it is made again."
    )


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file or a folder from another one of its name; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
