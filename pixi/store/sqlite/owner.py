"""The lock that shows that the owner of a number lives: on a file beside the store, gone with its process.

It is a lock of SQLite's, since those work on all systems, between processes and within one.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from pixi.store.sqlite.faults import is_busy


def hold(store: Path, number: int) -> sqlite3.Connection:
    """Take the lock of a number; it is held until the connection is closed.

    Raises:
        sqlite3.Error: it cannot be taken.
    """
    file = _file(store, number)
    with suppress(OSError):  # then SQLite says what is wrong
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    lock = sqlite3.connect(file, timeout=0, isolation_level=None)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # no second file
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        lock.close()
        raise
    return lock


def release(store: Path, number: int, lock: sqlite3.Connection) -> None:
    """Give the lock back, and remove its file."""
    lock.close()
    _remove(_file(store, number))


def is_held(store: Path, number: int) -> bool:
    """Return True if somebody holds the lock of a number, without waiting. The file of a dead one goes.

    Nobody is kept from anything meanwhile: the lock is only read by.
    """
    file = _file(store, number)
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", timeout=0, uri=True)) as probe:
            probe.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        if is_busy(error):
            return True
        if file.exists():  # whether they live is not known
            raise
    _remove(file)
    return False


def remove_all(store: Path) -> None:
    """Remove the files of all owners of a store that nobody has open."""
    real = Path(os.path.realpath(store))
    for file in real.parent.iterdir():
        if file.name.startswith(f"{real.name}-owner-"):
            _remove(file)


def _file(store: Path, number: int) -> Path:
    # Whoever reaches the store by another name, through a link, must find the same file.
    real = Path(os.path.realpath(store))
    return real.with_name(f"{real.name}-owner-{number}")


def _remove(file: Path) -> None:
    with suppress(OSError):  # it is gone, or still looked at by somebody else
        file.unlink()
