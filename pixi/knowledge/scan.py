"""Scans a database's folder: which files it holds, and what is new in them, read in worker processes."""

import asyncio
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, without_halves
from pixi.documents import Documents, SetAside, suffix_of
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
    _links: list[tuple[str, str]] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)

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

_AGAIN = 3
"""Looks in a row while files change under the reader's hands."""

_SETTLING_SECONDS = 0.1
"""Seconds between those."""


class Scan(Struct):
    """Looks at a folder, again and again, and knows what came of the last look, also while it goes on.

    Attributes:
        done, total: files that can be found, of those that are new, changed or set aside for a while.
        faults: what the walk came upon.
        unknown: how many files of each unknown suffix were passed over.
        seconds: that the walk took.
        walked: a walk over all of the folder has ended.
        held: files that could not be opened now, and are tried again.
    """

    root: Path
    store: IndexStore
    thread: Threads
    readers: Readers
    wrote: Callable[[], None]
    done: int = 0
    total: int = 0
    faults: tuple[Fault, ...] = ()
    unknown: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    walked: bool = False
    held: int = 0
    _places: dict[str, Path] = field(default_factory=dict)
    _batch: list[Read] = field(default_factory=list)
    _entries: int = 0
    _characters: int = 0
    _writing: "asyncio.Task[None] | None" = None
    _written: float = 0.0
    _wait: float = _FIRST_SECONDS
    _moved: bool = False
    _tries_left: int = 0

    async def run(self, only: Sequence[str] | None) -> None:
        """Read all that is new.

        Args:
            only: the paths that are said to have changed; None: all of the folder is looked at.

        Raises:
            ConfigError: the index cannot be written.
            OSError: the folder itself cannot be read.
        """
        self.done = self.total = 0
        self._batch, self._entries, self._characters = [], 0, 0
        self._wait = _FIRST_SECONDS
        for self._tries_left in reversed(range(_AGAIN)):
            self._moved = False
            await self._once(only)
            if not self._moved:
                return
            await asyncio.sleep(_SETTLING_SECONDS)

    async def _once(self, only: Sequence[str] | None) -> None:
        gone = await self.thread.run(self._compare, only)
        self.done = 0
        if only is None:
            self.held = 0
        if gone:
            await self.thread.run(self.store.record, (), gone)
            self.wrote()
        if self.total:
            await self.thread.run(self.store.tell, finished="", reading=f"0/{self.total}")
        self._written = time.monotonic()
        try:
            after = ""
            while files := await self.thread.run(self.store.call, Catalogue.changed, after, _CHUNK):
                after = files[-1][0].path
                await self._read(files)
            await self._flush()
        finally:
            await self._settled()
        if self.total or not self.store.snapshot.finished:
            await self.thread.run(self.store.tell, finished="1", reading=f"{self.done}/{self.total}")

    def _compare(self, only: Sequence[str] | None) -> list[str]:
        started = time.monotonic()
        walk = Walk(self.root)
        some = None if only is None else walk.some(only)
        if some is not None:
            gone, self.total = self.store.call(Catalogue.compare, some, walk.unseen, only)
            self._places = {}
            return gone
        walk = Walk(self.root)
        gone, self.total = self.store.call(Catalogue.compare, walk.files(), walk.unseen)
        self.faults, self.unknown, self._places = tuple(walk.faults), walk.unknown, walk.places
        self.seconds, self.walked = time.monotonic() - started, True
        return gone

    async def _read(self, files: Sequence[tuple[ScannedFile, bytes]]) -> None:
        changed, same, failed = await asyncio.to_thread(self._sort_out, files)
        if same:
            await self.thread.run(self.store.call, Catalogue.touch, same)
        self.done += len(same)
        for read in failed:
            self.held += bool(read.reason)
            await self._keep(read)
        if not changed:
            return
        waiting = {self._place(seen.path): (seen, digest) for seen, digest in changed}
        async with aclosing(self.readers.read_many(list(waiting))) as outcomes:
            async for path, outcome in outcomes:
                seen, digest = waiting.pop(path)
                moved = _print(path) != (seen.size, seen.mtime)
                if moved and self._tries_left:
                    self._moved = True  # it is being written: what was read may be half of it
                elif moved:  # without end, it seems: what was read must do until the next look
                    await self._keep(Read(seen, b"", outcome if isinstance(outcome, Documents) else ()))
                elif isinstance(outcome, SetAside):
                    self.held += outcome.again
                    known = b"" if outcome.again else digest
                    await self._keep(Read(_as_known(seen), known, (), outcome.reason))
                else:
                    note = outcome.note if isinstance(outcome, Documents) else ""
                    await self._keep(Read(_as_known(seen), digest, outcome, note))

    def _sort_out(
        self, files: Sequence[tuple[ScannedFile, bytes]]
    ) -> tuple[list[tuple[ScannedFile, bytes]], list[ScannedFile], list[Read]]:
        """Return the files with new content, those only written anew, and what cannot be opened."""
        changed: list[tuple[ScannedFile, bytes]] = []
        same: list[ScannedFile] = []
        failed: list[Read] = []
        for seen, known in files:
            try:
                digest = _hash(self._place(seen.path))
            except FileNotFoundError:
                self._moved = True
            except OSError as error:
                # Without a hash it is looked at again each time: it may be locked for a moment only.
                reason = f"it cannot be opened ({error.strerror}); it is tried again."
                failed.append(Read(seen, b"", (), reason))
            else:
                if digest == known:
                    same.append(_as_known(seen))
                else:
                    changed.append((seen, digest))
        return changed, same, failed

    def _place(self, path: str) -> Path:
        return self._places.get(path) or self.root / path

    async def _keep(self, read: Read) -> None:
        """Put it into the batch, and have the batch written when it is large or old enough."""
        self._batch.append(read)
        self._entries += len(read.documents)
        self._characters += sum(map(_length, read.documents))
        if (
            self._entries >= _ENTRIES
            or self._characters >= _CHARACTERS
            or time.monotonic() - self._written >= self._wait
        ):
            await self._flush()

    async def _flush(self) -> None:
        """Write what is read, while more is being read; but not two batches ahead."""
        await self._settled()
        if self._batch:
            batch, self._batch = self._batch, []
            self._entries = self._characters = 0
            self._wait = _SECONDS
            self._writing = asyncio.create_task(self._write(batch))

    async def _write(self, batch: list[Read]) -> None:
        done = self.done + len(batch)
        await self.thread.run(self.store.record, batch, (), reading=f"{done}/{self.total}")
        self.done = done
        self._written = time.monotonic()
        self.wrote()

    async def _settled(self) -> None:
        writing, self._writing = self._writing, None
        if writing:
            await writing


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
