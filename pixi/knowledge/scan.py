"""Scans a database's folder: which files it holds, and what is new in them, read in worker processes."""

import asyncio
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, without_halves
from pixi.documents import SetAside, suffix_of
from pixi.documents.files import Document
from pixi.documents.readers import Readers
from pixi.knowledge.catalogue import Catalogue, Read, ScannedFile
from pixi.knowledge.entry import Fault
from pixi.knowledge.index_store import IndexStore, Threads
from pixi.knowledge.registry import SOURCES_FILE, describes, sources_of


class Walk(Struct):
    """A walk over a folder. What it came upon besides files is known when it has ended.

    Attributes:
        root: the folder itself, links resolved.
        faults: links that lead out, folders that cannot be read, names that cannot be said.
        unknown: how many files of each other suffix were passed over.
        unseen: folders that could not be looked into; what was known of them still stands.
        places: where each file of another folder lies, by its path here.

    Raises:
        OSError: the folder itself cannot be read.
    """

    root: Path
    faults: list[Fault] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    unseen: list[str] = field(default_factory=list)
    places: dict[str, Path] = field(default_factory=dict)
    # Links that were met and are not followed yet: where to, path here.
    _links: list[tuple[str, str]] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)  # real paths of folders and links: each is walked once

    def __post_init__(self) -> None:
        """See that the folder can be read: one that is gone is no empty one."""
        os.scandir(self.root).close()

    def files(self) -> Iterator[ScannedFile]:
        """Yield every document once; links last, as what they lead to has a path of its own mostly."""
        self._reached = {str(self.root)}
        yield from self._folder(str(self.root), "")
        while self._links:
            links, self._links = sorted(self._links), []
            for real, path in links:
                yield from self._link(real, path)
        yield from self._sources()

    def some(self, paths: Sequence[str]) -> list[ScannedFile] | None:
        """Return the documents at and below these paths of the folder; None: a whole walk is needed.

        So it is where a link takes part: what it shows may have another path.
        """
        found: list[ScannedFile] = []
        for path in paths:
            place = self.root / path
            real = Path(os.path.realpath(place))
            if not _speakable(path) or real != place or not real.is_relative_to(self.root):
                return None
            if any(map(_hidden, path.split("/"))):
                continue
            try:
                status = place.lstat()
            except OSError:
                continue  # it is gone
            if stat.S_ISDIR(status.st_mode):
                found += self._folder(str(place), path)
            elif not _described(path) and (seen := self._document(path, status)):
                found.append(seen)
        return None if self._links else found

    def _folder(self, folder: str, within: str) -> Iterator[ScannedFile]:
        """Yield a folder and those in it, without recursion: folders may lie in each other very deep."""
        waiting = [(folder, within)]
        while waiting:
            folder, within = waiting.pop()
            below: list[tuple[str, str]] = []
            try:
                with os.scandir(folder) as inside:
                    entries = sorted(inside, key=lambda entry: entry.name)
                for entry in entries:
                    if _hidden(entry.name) or (not within and entry.name == SOURCES_FILE):
                        continue
                    path = f"{within}/{entry.name}" if within else entry.name
                    if not _speakable(path):
                        self._fault(path, "its name is not Unicode; give it another.")
                    elif entry.is_symlink():
                        self._links.append((os.path.realpath(entry.path), path))
                    elif entry.is_dir(follow_symlinks=False):
                        # A junction of Windows is a folder to Python, and may lead anywhere.
                        if self._enters(
                            os.path.realpath(entry.path) if os.name == "nt" else entry.path, path
                        ):
                            below.append((entry.path, path))
                    elif not _described(path):
                        with suppress(OSError):  # it went away just now
                            if seen := self._document(path, entry.stat(follow_symlinks=False)):
                                yield seen
            except OSError as error:
                self.unseen.append(within)
                self._fault(within, f"this folder cannot be read ({error.strerror}); mend its permissions.")
            waiting += reversed(below)

    def _enters(self, real: str, path: str) -> bool:
        if not Path(real).is_relative_to(self.root):
            self._fault(path, "this link leads out of the folder; put the files themselves there.")
            return False
        if real in self._reached:
            return False
        self._reached.add(real)
        return True

    def _link(self, real: str, path: str) -> Iterator[ScannedFile]:
        """Yield what lies in the folder by itself has been met; a link can still lead to a hidden place."""
        if self._enters(real, path):
            if os.path.isdir(real):
                yield from self._folder(real, path)
            elif any(map(_hidden, Path(real).relative_to(self.root).parts)):
                with suppress(OSError):  # it leads nowhere
                    if seen := self._document(path, os.stat(real)):
                        yield seen

    def _document(self, path: str, status: os.stat_result) -> ScannedFile | None:
        if not stat.S_ISREG(status.st_mode):
            return None  # a pipe or a device: to open it could wait for ever
        if not suffix_of(path.rsplit("/", 1)[-1]):
            suffix = os.path.splitext(path)[1].lower()
            self.unknown[display_line(suffix, longest=20)] += 1
            return None
        return ScannedFile(path, status.st_size, status.st_mtime_ns)

    def _sources(self) -> Iterator[ScannedFile]:
        try:
            named = list(sources_of(self.root))
        except ConfigError as error:
            self._fault(SOURCES_FILE, str(error))
            return
        for path, place in named:
            if os.path.lexists(self.root / path):
                continue  # what lies in the folder itself comes first
            try:
                seen = self._document(path, place.stat())
            except OSError:  # it is gone
                continue
            if seen:
                self.places[path] = place
                yield seen

    def _fault(self, path: str, reason: str) -> None:
        self.faults.append(Fault(without_halves(path), reason))


def _described(path: str) -> bool:
    return "/" not in path and (describes(path) or path == SOURCES_FILE)


def _hidden(name: str) -> bool:
    """Return True for a leading dot, and for what an office program lays beside an open file."""
    return name.startswith((".", "~$"))


def _speakable(path: str) -> bool:
    """Return False for a name of bytes that are no Unicode: it could be neither kept nor shown."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


_CHUNK = 1_000
"""Files that are taken in hand together."""

_FIRST_SECONDS = 0.5
_SECONDS = 3.0
_ENTRIES = 1_000
_CHARACTERS = 16_000_000
"""Limits of one commit: the first comes soon, so that there is something to find."""

_RECENT = 2_000_000_000
"""Nanoseconds in which a file may be written twice and keep its time: then its time tells nothing."""

_TRIES = 3
"""Scans in a row while files change under the reader's hands."""

_SETTLING_SECONDS = 0.1
"""Seconds between those."""


class FolderScan:
    """Scans a folder, again and again, and tells how far the last scan is, also while it goes on.

    Args:
        root: the folder, links resolved.
        store: where catalogue and index are kept.
        thread: the one that writes to the store.
        readers: the processes that read documents.
        wrote: called whenever there is something new to find.

    Attributes:
        done, total: files that can be found, of those that are new, changed or set aside for a while.
        faults: what the walk came upon.
        unknown: how many files of each unknown suffix were passed over.
        seconds: that the walk took.
        walked: a walk over all of the folder has ended.
        held: files that could not be opened now, and are tried again.
    """

    def __init__(
        self, root: Path, store: IndexStore, thread: Threads, readers: Readers, wrote: Callable[[], None]
    ) -> None:
        self.done = 0
        self.total = 0
        self.faults: tuple[Fault, ...] = ()
        self.unknown: Counter[str] = Counter()
        self.seconds = 0.0
        self.walked = False
        self.held = 0
        self._root = root
        self._store = store
        self._thread = thread
        self._readers = readers
        self._wrote = wrote
        self._places: dict[str, Path] = {}  # of files that lie elsewhere, by their paths here

    async def run(self, only: Sequence[str] | None) -> None:
        """Read all that is new.

        Args:
            only: the paths that are said to have changed; None: all of the folder is looked at.

        Raises:
            ConfigError: the index cannot be written.
            OSError: the folder itself cannot be read.
        """
        self.done = self.total = 0
        batch = _Batch(self._write)
        for tries_left in reversed(range(_TRIES)):
            if await self._scan_once(only, batch, is_last=tries_left == 0):
                return
            await asyncio.sleep(_SETTLING_SECONDS)

    async def _scan_once(self, only: Sequence[str] | None, batch: "_Batch", *, is_last: bool) -> bool:
        """Read all that is new now; return False where files changed while they were read.

        Args:
            is_last: what changed meanwhile is kept as it was read.
        """
        gone = await self._thread.run(self._compare, only)
        self.done = 0
        if only is None:
            self.held = 0
        if gone:
            await self._thread.run(self._store.record, (), gone)
            self._wrote()
        if self.total:
            await self._thread.run(self._store.tell, finished="", reading=f"0/{self.total}")
        batch.begin()
        stable = True
        try:
            after = ""
            while files := await self._thread.run(self._store.call, Catalogue.changed, after, _CHUNK):
                after = files[-1][0].path
                if not await self._read(files, batch, is_last=is_last):
                    stable = False
            await batch.flush()
        finally:
            await batch.settled()
        if self.total or not self._store.snapshot.finished:
            await self._thread.run(self._store.tell, finished="1", reading=f"{self.done}/{self.total}")
        return stable

    def _compare(self, only: Sequence[str] | None) -> list[str]:
        """Walk, and compare with the catalogue; return the paths that are gone."""
        started = time.monotonic()
        if only is not None:
            walk = Walk(self._root)
            some = walk.some(only)
            if some is not None:
                gone, self.total = self._store.call(Catalogue.compare, some, walk.unseen, only)
                self._places = {}
                return gone
        walk = Walk(self._root)
        gone, self.total = self._store.call(Catalogue.compare, walk.files(), walk.unseen)
        self.faults, self.unknown, self._places = tuple(walk.faults), walk.unknown, walk.places
        self.seconds, self.walked = time.monotonic() - started, True
        return gone

    async def _read(
        self, files: Sequence[tuple[ScannedFile, bytes]], batch: "_Batch", *, is_last: bool
    ) -> bool:
        """Read files into the batch; return False where one of them changed meanwhile."""
        sorted_out = await asyncio.to_thread(self._sort_out, files)
        if sorted_out.same:
            await self._thread.run(self._store.call, Catalogue.touch, sorted_out.same)
        self.done += len(sorted_out.same)
        for failed in sorted_out.failed:
            self.held += 1
            await batch.add(failed)
        stable = not sorted_out.vanished
        waiting = {self._place(seen.path): (seen, digest) for seen, digest in sorted_out.changed}
        if not waiting:
            return stable
        async with aclosing(self._readers.read_many(list(waiting))) as outcomes:
            async for path, outcome in outcomes:
                seen, digest = waiting.pop(path)
                changed = _print(path) != (seen.size, seen.mtime)
                if changed and not is_last:
                    stable = False  # it is being written: what was read may be half of it
                elif changed:  # without end, it seems: what was read must do until the next scan
                    await batch.add(Read(seen, b"", () if isinstance(outcome, SetAside) else outcome))
                elif isinstance(outcome, SetAside):
                    self.held += outcome.again
                    known = b"" if outcome.again else digest
                    await batch.add(Read(_as_known(seen), known, (), outcome.reason))
                else:
                    await batch.add(Read(_as_known(seen), digest, outcome, outcome.note))
        return stable

    def _sort_out(self, files: Sequence[tuple[ScannedFile, bytes]]) -> "_SortedFiles":
        """Hash files, and sort them by whether their content is new."""
        sorted_out = _SortedFiles()
        for seen, known in files:
            try:
                digest = _hash(self._place(seen.path))
            except FileNotFoundError:
                sorted_out.vanished = True
            except OSError as error:
                # Without a hash it is looked at again each time: it may be locked for a moment only.
                reason = f"it cannot be opened ({error.strerror}); it is tried again."
                sorted_out.failed.append(Read(seen, b"", (), reason))
            else:
                if digest == known:
                    sorted_out.same.append(_as_known(seen))
                else:
                    sorted_out.changed.append((seen, digest))
        return sorted_out

    def _place(self, path: str) -> Path:
        return self._places.get(path) or self._root / path

    async def _write(self, reads: list[Read]) -> None:
        """Write a batch to the store."""
        done = self.done + len(reads)
        await self._thread.run(self._store.record, reads, (), reading=f"{done}/{self.total}")
        self.done = done
        self._wrote()


class _SortedFiles(Struct):
    """Files by what their hashes tell.

    Attributes:
        changed: with new content, and its hash.
        same: only written anew.
        failed: cannot be opened.
        vanished: one of them is gone.
    """

    changed: list[tuple[ScannedFile, bytes]] = field(default_factory=list)
    same: list[ScannedFile] = field(default_factory=list)
    failed: list[Read] = field(default_factory=list)
    vanished: bool = False


class _Batch:
    """Gathers what is read, and has it written when it is large or old enough.

    One batch is written while the next is gathered, and no more than one.
    """

    def __init__(self, write: Callable[[list[Read]], Coroutine[None, None, None]]) -> None:
        self._write = write
        self._reads: list[Read] = []
        self._entries = 0  # in `_reads`, and the characters in them
        self._characters = 0
        self._writing: asyncio.Task[None] | None = None
        self._written = 0.0  # when the last one was, on the monotonic clock
        self._wait = _FIRST_SECONDS  # after that, until the next one is

    def begin(self) -> None:
        """Count the time until the next commit from now on."""
        self._written = time.monotonic()

    async def add(self, read: Read) -> None:
        """Add what was read of a file."""
        self._reads.append(read)
        self._entries += len(read.documents)
        self._characters += sum(map(_length, read.documents))
        is_old = time.monotonic() - self._written >= self._wait
        if is_old or self._entries >= _ENTRIES or self._characters >= _CHARACTERS:
            await self.flush()

    async def flush(self) -> None:
        """Begin to write what was gathered, once the batch before is written."""
        await self.settled()
        if self._reads:
            reads, self._reads = self._reads, []
            self._entries = self._characters = 0
            self._wait = _SECONDS
            self._writing = asyncio.create_task(self._write_now(reads))

    async def settled(self) -> None:
        """Wait until what is being written is."""
        writing, self._writing = self._writing, None
        if writing:
            await writing

    async def _write_now(self, reads: list[Read]) -> None:
        await self._write(reads)
        self._written = time.monotonic()


def _hash(path: Path) -> bytes:
    """Return the hash of a file's content.

    Raises:
        OSError: it cannot be opened, or is no file any longer.
    """
    # A pipe that was put in a file's place must not hold the thread.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(path)
        digest = blake2b(digest_size=16)
        while chunk := file.read(1 << 20):
            digest.update(chunk)
        return digest.digest()


def _print(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _as_known(seen: ScannedFile) -> ScannedFile:
    """Return what to remember of the file: one written just now may be written again at the same time."""
    return replace(seen, mtime=0) if abs(time.time_ns() - seen.mtime) < _RECENT else seen


def _length(document: Document) -> int:
    return sum(len(section.text) for section in document.sections)


@cache
def readers_tag() -> str:
    """Name the readers: another release of Pixi or of a library may read what this one set aside.

    Looked up once: that takes milliseconds, and each folder that is followed asks every second.
    """
    from importlib.metadata import PackageNotFoundError, version

    told = []
    for package in ("pixi-persona", "pypdf", "python-docx", "selectolax", "backports.zstd"):
        try:
            told.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            told.append(f"no {package}")
    return ", ".join(told)
