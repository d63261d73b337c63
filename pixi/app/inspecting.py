"""Looks at databases for the lists of them: what is there, how far it was read, and what is wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_path

if TYPE_CHECKING:
    from pixi.knowledge.database import DirectoryDatabase
    from pixi.knowledge.entry import Fault
    from pixi.knowledge.registry import About, DatabaseRef

EACH_SECONDS = 3.0
"""How long a database may go on reading while somebody waits for a list. What it has read by then is kept."""

ALL_SECONDS = 12.0
"""The same for all of them together."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is known of a database after a short look.

    Attributes:
        shelved: its name and its folder.
        title, about: of its description.
        entries: that were read, now or earlier.
        files, bytes: of documents in the folder.
        waiting: how many of the files are still to be read; None: nobody knows yet.
        faults: files that were set aside.
        passed_over: how many files are no documents, by the ends of their names.
        trouble: why it cannot be opened or read at all; "" where it can.
    """

    shelved: "DatabaseRef"
    title: str
    about: str
    entries: int = 0
    files: int = 0
    bytes: int = 0
    waiting: int | None = 0
    faults: "tuple[Fault, ...]" = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""

    @property
    def state(self) -> str:
        """How far it was read, in a word or a few."""
        if self.trouble:
            return "broken"
        if self.waiting is None:
            return "not read yet"
        if self.waiting:
            return f"{self.waiting:,} to read"
        return "ready" if self.files else "empty"

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "name": self.shelved.name,
            "title": self.title,
            "about": self.about,
            "folder": display_path(self.shelved.folder),
            "tools": [f"{verb}_{self.shelved.tool}_database" for verb in ("search", "query")],
            "entries": self.entries,
            "files": self.files,
            "bytes": self.bytes,
            "state": self.state,
            "trouble": self.trouble or None,
            "passed_over": dict(self.passed_over),
            "faults": [{"file": fault.path, "reason": fault.reason} for fault in self.faults],
        }


async def inspect_all(
    every: "Sequence[DatabaseRef]", progress: Callable[[str], None]
) -> AsyncIterator[Inspected]:
    """Look at each in turn. It takes `ALL_SECONDS` at most, but for counting files."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ALL_SECONDS
    for each in every:
        yield await inspect(each, min(EACH_SECONDS, max(0.0, end - loop.time())), progress)
        progress("")


async def inspect(shelved: "DatabaseRef", seconds: float, progress: Callable[[str], None]) -> Inspected:
    """Look at one; it reads what is new in its folder for as long as it is given."""
    from pixi.knowledge.database import DirectoryDatabase

    try:
        folder = await asyncio.to_thread(_Folder.of, shelved)
        database = await DirectoryDatabase.open(shelved.folder, name=shelved.name, progress=progress)
    except (ConfigError, OSError) as error:
        return await broken(shelved, error)
    trouble, finished = "", False
    try:
        async with asyncio.timeout(seconds):
            await database.ready()
        finished = True
    except TimeoutError:
        pass  # what it has read by now is what can be told
    except ConfigError as error:
        trouble = str(error)
    finally:
        found = _looked_at(shelved, folder, database, finished=finished, trouble=trouble)
        await database.close()
    return found


async def inspect_open(shelved: "DatabaseRef", database: "DirectoryDatabase") -> Inspected:
    """Look at one that is open, and reads on by itself."""
    try:
        folder = await asyncio.to_thread(_Folder.of, shelved)
    except (ConfigError, OSError) as error:
        return await broken(shelved, error)
    return _looked_at(shelved, folder, database, finished=database.state.finished)


async def broken(shelved: "DatabaseRef", error: Exception) -> Inspected:
    """Tell of one that cannot be opened."""
    about = await asyncio.to_thread(shelved.describe)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Inspected(shelved, about.title, about.text, trouble=reason)


def _looked_at(
    shelved: "DatabaseRef",
    folder: "_Folder",
    database: "DirectoryDatabase",
    *,
    finished: bool,
    trouble: str = "",
) -> Inspected:
    state = database.state
    return Inspected(
        shelved,
        folder.about.title,
        folder.about.text,
        database.entries,
        folder.files,
        folder.bytes,
        # Without a total it has not come to compare the folder with what it knows.
        waiting=0 if finished else state.total - state.done if state.total else None,
        faults=tuple(fault for fault in database.faults if fault.reason != trouble),
        passed_over=database.passed_over,
        trouble=trouble,
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    """A database's description, and how many documents lie in its folder, with their bytes together."""

    about: "About"
    files: int
    bytes: int

    @classmethod
    def of(cls, shelved: "DatabaseRef") -> "_Folder":
        """Look at it.

        Raises:
            ConfigError, OSError: it cannot be read.
        """
        return cls(shelved.describe(), *_count(shelved.folder))


def _count(folder: Path) -> tuple[int, int]:
    """How many documents lie in the folder, and how many bytes they are."""
    from pixi.documents import suffix_of
    from pixi.knowledge.scan import Walk

    files = size = 0
    for seen in Walk(folder.resolve(), lambda name: bool(suffix_of(name))).files():
        files, size = files + 1, size + seen.size
    return files, size
