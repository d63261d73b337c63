"""One contender of `search_speed` in a process of its own: a database of Pixi's, or SQLite's FTS5."""

import asyncio
import gc
import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pixi.knowledge.database import DirectoryDatabase


class Contender(Protocol):
    """What is measured, in seconds each."""

    async def open(self) -> float:
        """Until it can be asked."""
        ...

    async def search(self, query: str) -> int:
        """How many it finds, of ten."""
        ...

    async def add(self, name: str, text: str) -> float:
        """From when a document is saved until it is found; the text is its only one with that word."""
        ...


class Pixi:
    """A folder, opened as anybody would. Before it is measured it is read by another process."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self._folder, self._cache = folder, cache

    async def build(self) -> tuple[float, int]:
        """Seconds until all was read, and bytes on disk."""
        before = time.perf_counter()
        async with await DirectoryDatabase.open(self._folder, cache=self._cache) as database:
            await database.ready()
            seconds = time.perf_counter() - before
        return seconds, sum(path.stat().st_size for path in self._cache.rglob("*") if path.is_file())

    async def open(self) -> float:
        # Once before: a process loads the library at its first opening.
        await (await DirectoryDatabase.open(self._folder, cache=self._cache)).close()
        before = time.perf_counter()
        self._database = await DirectoryDatabase.open(self._folder, cache=self._cache, follow=True)
        return time.perf_counter() - before

    async def search(self, query: str) -> int:
        return len((await self._database.search(query)).hits)

    async def add(self, name: str, text: str) -> float:
        await self._database.ready()
        await asyncio.sleep(3.0)  # the folder is being watched by now
        before = time.perf_counter()
        (self._folder / f"{name}.md").write_text(text, encoding="utf-8")
        while not await self._finds(f"{name}.md", text):  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
        return time.perf_counter() - before

    async def _finds(self, path: str, query: str) -> bool:
        return any(hit.source.path == path for hit in (await self._database.search(query)).hits)


class Fts5:
    """SQLite's full-text search with its own tokenizer, asked for any of the words, best first."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self._folder, self._path = folder, cache / "fts5.db"

    async def build(self) -> tuple[float, int]:
        """As `Pixi.build`; what reads the files is the least that could."""
        before = time.perf_counter()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(self._path) as database:
            database.execute("CREATE VIRTUAL TABLE found USING fts5(title, text)")
            database.executemany(
                "INSERT INTO found VALUES (?, ?)",
                ((path.stem, path.read_text(encoding="utf-8")) for path in self._folder.rglob("*.md")),
            )
        database.close()
        return time.perf_counter() - before, self._path.stat().st_size

    async def open(self) -> float:
        before = time.perf_counter()
        self._database = sqlite3.connect(self._path)
        await self.search("warm")
        return time.perf_counter() - before

    async def search(self, query: str) -> int:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = self._database.execute(
            "SELECT title, snippet(found, 1, '', '', '…', 32) FROM found WHERE found MATCH ? "
            "ORDER BY rank LIMIT 10",
            (words or '""',),
        )
        return len(rows.fetchall())

    async def add(self, name: str, text: str) -> float:
        before = time.perf_counter()
        with self._database:
            self._database.execute("INSERT INTO found VALUES (?, ?)", (name, text))
        await self.search(text)
        return time.perf_counter() - before


def resident_megabytes() -> float:
    """Of this process alone, without what is mapped from files; 0 where /proc does not tell it."""
    gc.collect()
    try:
        with open("/proc/self/statm") as file:
            resident, mapped = map(int, file.read().split()[1:3])
            return (resident - mapped) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except FileNotFoundError:
        return 0.0


async def do(contender: Pixi | Fts5, job: dict[str, Any]) -> dict[str, Any]:
    """One job by name."""
    match job["do"]:
        case "build":
            seconds, size = await contender.build()
            return {"seconds": seconds, "bytes": size}
        case "open":
            return {"seconds": await contender.open()}
        case "search":
            spent = time.process_time()
            told = await timed(contender, job["queries"])
            spent = (time.process_time() - spent) * 1e3
            return {"ms": told, "processor_ms": spent, "megabytes": resident_megabytes()}
        case "add":
            return {"seconds": await contender.add(job["name"], job["text"])}
        case other:
            raise ValueError(f"unknown job {other!r}")


async def timed(contender: Contender, queries: Sequence[str]) -> list[float]:
    """Milliseconds of each query."""
    told = []
    for query in queries:
        before = time.perf_counter()
        await contender.search(query)
        told.append((time.perf_counter() - before) * 1e3)
    return told


async def main(name: str, folder: Path, cache: Path) -> None:
    """Answer until standard input closes."""
    contender = (Pixi if name == "pixi" else Fts5)(folder, cache)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await do(contender, json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
