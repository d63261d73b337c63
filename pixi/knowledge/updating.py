"""One look at a database's folder: what is new is read in worker processes, and written in batches."""

import asyncio
import os
import stat
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from pixi.knowledge.catalogue import Read
from pixi.knowledge.entry import Document, Fault
from pixi.knowledge.keeping import Keeping
from pixi.knowledge.reading import Documents, Readers, SetAside, suffix_of
from pixi.knowledge.scanning import Seen, Walk

P = ParamSpec("P")
T = TypeVar("T")

_CHUNK = 1_000
"""Files that are taken in hand together."""

_FIRST_SECONDS = 0.5
_SECONDS = 3.0
_ENTRIES = 1_000
_CHARACTERS = 16_000_000
"""What is written in one commit at most: the first soon, so that there is something to find."""

_RECENT = 2_000_000_000
"""Nanoseconds in which a file may be written twice and keep its time: then its time tells nothing."""

_AGAIN = 3
"""Looks in a row while files change under the reader's hands."""

_SETTLING_SECONDS = 0.1
"""Between those."""


class InThread(Protocol):
    """Runs a function in the thread that owns catalogue and index."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Its result."""
        ...


class Pool:
    """The reader processes, running only while there is something to read. One task opens and closes it."""

    def __init__(self) -> None:
        self._readers: Readers | None = None

    @property
    def is_open(self) -> bool:
        """Whether processes run."""
        return self._readers is not None

    async def open(self) -> Readers:
        """The readers, started if they do not run."""
        if self._readers is None:
            self._readers = await Readers().__aenter__()
        return self._readers

    async def close(self) -> None:
        """Stop them. Calling it twice does no harm."""
        readers, self._readers = self._readers, None
        if readers:
            await readers.__aexit__(None, None, None)


@dataclass(slots=True)
class Look:
    """One look, and what is known of it while it goes on.

    Attributes:
        only: the paths that are said to have changed; None: all of the folder is looked at.
        done, total: files that can be found, of those that are new, changed or set aside for a while.
        faults: what the walk came upon.
        unknown: how many files of each unknown suffix were passed over.
        seconds: that the walk took.
        held: files that could not be opened now, and are tried again.
    """

    root: Path
    keeping: Keeping
    thread: InThread
    pool: Pool
    wrote: Callable[[], None]
    only: Sequence[str] | None = None
    done: int = 0
    total: int = 0
    faults: tuple[Fault, ...] = ()
    unknown: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
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

    async def run(self) -> None:
        """Read all that is new.

        Raises:
            ConfigError: the index cannot be written.
            OSError: the folder itself cannot be read.
        """
        for self._tries_left in reversed(range(_AGAIN)):
            self._moved = False
            await self._once()
            if not self._moved:
                return
            await asyncio.sleep(_SETTLING_SECONDS)

    async def _once(self) -> None:
        gone = await self.thread(self._compare)
        self.done = 0
        if self.only is None:
            self.held = 0
        if gone:
            await self.thread(self.keeping.record, (), gone)
            self.wrote()
        if self.total:
            await self.thread(self.keeping.tell, finished="", reading=f"0/{self.total}")
        self._written = time.monotonic()
        try:
            after = ""
            while files := await self.thread(self.keeping.changed, after, _CHUNK):
                after = files[-1][0].path
                await self._read(files)
            await self._flush()
        finally:
            await self._settled()
        if self.total or not self.keeping.kept.finished:
            await self.thread(self.keeping.tell, finished="1", reading=f"{self.done}/{self.total}")

    def _compare(self) -> list[str]:
        started = time.monotonic()
        walk = Walk(self.root, _readable)
        some = None if self.only is None else walk.some(self.only)
        if some is not None:
            gone, self.total = self.keeping.compare(some, walk.unseen, self.only)
            return gone
        walk = Walk(self.root, _readable)
        gone, self.total = self.keeping.compare(walk.files(), walk.unseen, None)
        self.faults, self.unknown, self._places = tuple(walk.faults), walk.unknown, walk.places
        self.seconds = time.monotonic() - started
        return gone

    async def _read(self, files: Sequence[tuple[Seen, bytes]]) -> None:
        changed, same, failed = await asyncio.to_thread(self._sort_out, files)
        if same:
            await self.thread(self.keeping.touch, same)
        self.done += len(same)
        for read in failed:
            self.held += bool(read.reason)
            await self._keep(read)
        if not changed:
            return
        readers = await self.pool.open()
        waiting = {self._place(seen.path): (seen, digest) for seen, digest in changed}
        async with aclosing(readers.read_many(list(waiting))) as outcomes:
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
        self, files: Sequence[tuple[Seen, bytes]]
    ) -> tuple[list[tuple[Seen, bytes]], list[Seen], list[Read]]:
        """The files that say something new, those that only were written anew, and what cannot be opened."""
        changed: list[tuple[Seen, bytes]] = []
        same: list[Seen] = []
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
        await self.thread(self.keeping.record, batch, (), reading=f"{done}/{self.total}")
        self.done = done
        self._written = time.monotonic()
        self.wrote()

    async def _settled(self) -> None:
        writing, self._writing = self._writing, None
        if writing:
            await writing


def _readable(name: str) -> bool:
    return suffix_of(name) != ""


def _hash(path: Path) -> bytes:
    """Of a file's content.

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


def _as_known(seen: Seen) -> Seen:
    """What to remember of the file. One written just now may be written again and show the same time."""
    return replace(seen, mtime=0) if abs(time.time_ns() - seen.mtime) < _RECENT else seen


def _length(document: Document) -> int:
    return sum(len(section.text) for section in document.sections)


def readers_tag() -> str:
    """Names what reads: another release of Pixi or of a library may read what this one set aside."""
    from importlib.metadata import PackageNotFoundError, version

    told = []
    for package in ("pixi-persona", "pypdf", "python-docx", "selectolax", "backports.zstd"):
        try:
            told.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            told.append(f"no {package}")
    return ", ".join(told)
