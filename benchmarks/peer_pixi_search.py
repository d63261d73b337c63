"""Runs inside pixi-bot's own environment: its database of documents, one job a line in, one answer out."""

import array
import asyncio
import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def put_in_what_is_missing() -> None:
    """Python before 3.12 takes no type for an array's elements, as pixi-bot's annotations do."""
    if not hasattr(array.array, "__class_getitem__"):
        named = {"__class_getitem__": classmethod(lambda cls, _: cls)}
        setattr(array, "array", type("array", (array.array,), named))  # noqa: B010


put_in_what_is_missing()
database: Any = import_module("pixi.storage.database")
paths: Any = import_module("pixi.storage.paths")


def resident_megabytes() -> float:
    """Of this process alone, without what is mapped from files; 0 where /proc does not tell it."""
    gc.collect()
    try:
        with open("/proc/self/statm") as file:
            resident, mapped = map(int, file.read().split()[1:3])
            return (resident - mapped) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except FileNotFoundError:
        return 0.0


class Documents:
    """A folder in its own format."""

    def __init__(self) -> None:
        self._database: Any = None

    def build(self, folder: str, place: str) -> dict[str, float]:
        """Write the folder's documents as it keeps them; it has no index that could be built."""
        paths.PixiPaths.set_root(place)
        before = time.perf_counter()
        made = database.DirectoryDatabase("documents")
        for path in sorted(Path(folder).rglob("*.md")):
            made.dataset.add_entry(path.stem, path.read_text(encoding="utf-8"))
        made.save()
        size = sum(path.stat().st_size for path in (paths.PixiPaths.datasets() / "documents").iterdir())
        return {"seconds": time.perf_counter() - before, "bytes": size}

    def open(self) -> dict[str, float]:
        """Load it, which reads every document."""
        before = time.perf_counter()
        self._database = database.DirectoryDatabase.from_directory("documents")
        return {"seconds": time.perf_counter() - before}

    def search(self, queries: list[str]) -> dict[str, Any]:
        """Milliseconds of each query."""
        told = []
        spent = time.process_time()
        for query in queries:
            before = time.perf_counter()
            asyncio.run(self._database.search(query))
            told.append((time.perf_counter() - before) * 1e3)
        spent = (time.process_time() - spent) * 1e3
        return {"ms": told, "processor_ms": spent, "megabytes": resident_megabytes()}


def main() -> None:
    """Answer until standard input closes."""
    documents = Documents()
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(getattr(documents, job.pop("do"))(**job)), flush=True)


if __name__ == "__main__":
    main()
