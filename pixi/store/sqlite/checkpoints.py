"""Checkpoints: the log of a file is carried over into the file by a thread beside the one that commits.

A commit appends pages to the log. A checkpoint waits until the log is on the disk, copies its pages into
the file, and waits for these; then the log begins anew. SQLite by itself does so within the commit that
makes the log long. That commit waits some 20 ms for the disk, and all that it records wait with it. A
checkpoint by another connection delays no commit.

The log begins anew only if no page came while the last ones were copied. So a first pass is followed by
others, which have little left to copy. Where no pass succeeds, because pages come all the time or the disk
refuses, the log reaches `MOST_PAGES`. From then on the connection that commits tries to make the
checkpoint, as SQLite does by itself. Nothing can shorten a log while a connection still reads in an old
state of the file. Ours read for moments only.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue

COMMITS = 60
"""Commits after which a checkpoint is due. Each appends 6 to 20 pages of 4 KB."""
PASSES = 3
"""How often a checkpoint is tried at once, if commits came meanwhile."""
MOST_PAGES = 4_000
"""Pages in the log (16 MB) from which on the connection that commits makes the checkpoint."""


class Checkpoints:
    """Makes the checkpoints of one file. The thread and its connection begin with the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commits = 0
        self._due: SimpleQueue[bool] = SimpleQueue()  # False: the end
        self._thread: threading.Thread | None = None

    def committed(self) -> None:
        """Count a commit; have a checkpoint made if one is due."""
        self._commits += 1
        if self._commits < COMMITS:
            return
        self._commits = 0
        if self._thread is None:
            # A daemon, as the thread that commits.
            thread = threading.Thread(target=self._run, name=f"log of {self._path}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system gives no more threads: the connection that commits does without
                return
            self._thread = thread
        if self._due.empty():
            self._due.put(True)

    def close(self) -> None:
        """End the thread, once a checkpoint under way is made."""
        if self._thread is not None:
            self._due.put(False)
            self._thread.join()

    # What follows runs in the thread.

    def _run(self) -> None:
        while self._due.get():
            # What fails here is tried again when the next one is due, with another connection.
            with suppress(sqlite3.Error), closing(self._connect()) as connection:
                _carry_over(connection)
                while self._due.get():
                    _carry_over(connection)
                return

    def _connect(self) -> sqlite3.Connection:
        existing = f"{self._path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(existing, isolation_level=None, uri=True)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection


def _carry_over(connection: sqlite3.Connection) -> None:
    copied = -1
    for _ in range(PASSES):
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages == copied:  # nothing came meanwhile
            return
        copied = pages
