"""Opens a store's file. One of ours that is damaged is set aside, never replaced in silence."""

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from pixi.core.errors import ConfigError, Reporter
from pixi.store.database import on_error
from pixi.store.layout import APPLICATION, latest_version, names_in
from pixi.store.sqlite import faults, schema
from pixi.store.sqlite.faults import Damaged, is_suspicious, opening_error
from pixi.store.sqlite.salvage import carry_over, is_whole
from pixi.store.sqlite.schema import connect

LOOK_SECONDS = 0.5
"""How long a start may look whether a file is whole that was not closed as it should be."""

IN_USE_SECONDS = 2.0
"""How long a damaged file is waited for that another process has open: others that start only look."""

_TRIES = 5
"""How often a start sets a file aside, or finds that another process did, before it gives up."""

_SEARCHED_BYTES = 16 * 2**20
"""How far a file is searched for our tables where its header does not tell whose it is."""

_SHARED_LOCK = 0x40000002, 510
"""The bytes that SQLite locks, from where and how many, for as long as somebody has a file open."""

_WORDS = {
    "messages": ("message", "messages"),
    "lines": ("line of a talk", "lines of talks"),
    "memories": ("memory", "memories"),
}
Identity = tuple[int, int] | None


def open_whole(path: Path | None, tell: Reporter) -> sqlite3.Connection:
    """Open a file, see `connect`; None: a store in memory.

    One of ours that turns out to be damaged is set aside under another name, with all that belongs to it,
    and what can be read of it is carried over. Damage deep in a file that was closed as it should be is not
    looked for: whoever meets it calls `suspect`.

    Args:
        path: the file.
        tell: told in a line what was set aside, why, and what was carried over.

    Raises:
        ConfigError: see `connect`; or the damaged file is in use, or cannot be set aside.
    """
    if path is None:
        return connect(None)
    for _ in range(_TRIES):
        found = identity(path)
        try:
            connection = _open_checked(path)
        except Damaged:
            if not _is_ours(path):
                raise
            _set_aside(path, found, tell)
        else:
            if found in (None, identity(path)):
                return connection
            connection.close()  # another process set it aside in this moment
    raise ConfigError(f"The store {path} is damaged again and again; see to its disk.")


def suspect(path: Path) -> None:
    """Have the next start look through the whole file."""
    with suppress(OSError):
        os.close(os.open(_beside(path, "-suspect"), os.O_CREAT | os.O_WRONLY, 0o600))


def is_suspected(path: Path) -> bool:
    """Return True if the next start is to look through the whole file."""
    return identity(_beside(path, "-suspect")) is not None


def set_aside_before(path: Path) -> list[Path]:
    """Return the damaged files that lie beside a store, oldest first."""
    names = sorted(path.parent.glob(f"{path.name}.damaged-*")) if path.parent.is_dir() else []
    return [name for name in names if not name.name.endswith("-wal")]


def _open_checked(path: Path) -> sqlite3.Connection:
    """Open a connection to a file that is whole, as far as was looked.

    Where damage is suspected, the whole file is read, to the last row; after a crash, it is looked at for
    `LOOK_SECONDS`; else not at all.

    Raises:
        Damaged: it is not whole.
    """
    suspected, crashed = is_suspected(path), _has_log(path)
    connection = connect(path)
    try:
        with on_error(connection.close):
            whole = True
            if suspected:
                connection.execute("DELETE FROM owners WHERE 0")  # which the header may forbid
                whole = is_whole(connection)
            elif crashed:
                whole = _seems_whole(connection)
            if not whole:
                raise Damaged(f"The store {path} is damaged.")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if suspected and is_suspicious(error):
            raise Damaged(f"The store {path} is damaged.") from None
        raise opening_error(error, str(path)) from None
    _beside(path, "-suspect").unlink(missing_ok=True)
    return connection


def _has_log(path: Path) -> bool:
    """Return True if the last process did not close the file well, or another one has it open."""
    try:
        return _beside(path, "-wal").stat().st_size > 0
    except (OSError, ValueError):  # ValueError: a zero byte in the path
        return False


def _seems_whole(connection: sqlite3.Connection) -> bool:
    """Return True if no damage is found in `LOOK_SECONDS`, though not all may have been seen."""
    over = threading.Event()

    def stop() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(LOOK_SECONDS, stop)
    timer.start()
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)) or over.is_set()
    except sqlite3.Error:
        if not over.is_set():
            raise
        return True
    finally:
        timer.cancel()
        timer.join()


def _is_ours(path: Path) -> bool:
    """Return True if the file is a store, and not another's: by its header, or by tables that it holds."""
    try:
        with path.open("rb") as file:
            start = file.read(_SEARCHED_BYTES)
    except OSError:
        return False
    if int.from_bytes(start[68:72]) == APPLICATION:
        return True
    # The schema has a row for each table, which holds its kind, its name, and the name of its table.
    return any(f"table{name}{name}".encode() in start for name in names_in(latest_version()))


def _set_aside(path: Path, found: Identity, tell: Reporter) -> None:
    """Move the file away, and put one in its place that holds what could be read.

    Nothing is done where another process was quicker.

    Raises:
        ConfigError: another process has it open, or it cannot be moved or replaced.
    """
    new, aside = _beside(path, "-mending"), _free_name(path)
    try:
        with closing(faults.lock(_beside(path, "-lock"), schema.LOCK_SECONDS)):  # one process at a time
            if identity(path) != found:
                return
            _in_use_by_nobody(path)
            path.chmod(0o600)  # and so for what is made beside it
            try:
                new.unlink(missing_ok=True)
                os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                    connection.execute("PRAGMA journal_mode = MEMORY")  # no second file
                    counts = carry_over(path, connection)
                _exchange(path, new, aside)
            finally:
                new.unlink(missing_ok=True)
            for ending in ("-suspect", "-lock"):
                _beside(path, ending).unlink(missing_ok=True)
            faults.remove_all(path)
    except sqlite3.Error as error:
        if identity(path) != found:
            return  # the lock went with the file
        raise opening_error(error, str(path)) from None
    except OSError as error:
        raise ConfigError(
            f"The store {path} is damaged, and cannot be set aside ({error.strerror}); "
            "mend the permissions of its folder."
        ) from None
    tell(f"The store {path} was damaged. It is kept as {aside}; {_carried(counts)}.")


def _carried(counts: Mapping[str, int]) -> str:
    told = [
        f"{counts[table]:,} {one if counts[table] == 1 else more}"
        for table, (one, more) in _WORDS.items()
        if counts.get(table)
    ]
    if not told:
        return "nothing in it could be read, so that all talks begin anew"
    return f"carried over is what could be read: {', '.join(told)}"


def _exchange(path: Path, new: Path, aside: Path) -> None:
    """Put the new file in the place of the old one.

    Should the power fail in between, the next start finds the old one, and looks through it.
    """
    suspect(path)
    _in_use_by_nobody(path)
    _beside(path, "-shm").unlink(missing_ok=True)  # made anew by whoever reads the log
    if _has_log(path):
        _beside(path, "-wal").rename(_beside(aside, "-wal"))
    _beside(path, "-wal").unlink(missing_ok=True)
    try:
        os.link(path, aside)
    except OSError:  # not every file system has links
        path.rename(aside)
    new.replace(path)


def _in_use_by_nobody(path: Path) -> None:
    """Check that no process has the file open, or wait until it has let go.

    Raises:
        ConfigError: one keeps it open.
    """
    if sys.platform == "win32":
        return  # a file that is open cannot be moved there
    import fcntl

    deadline = time.monotonic() + IN_USE_SECONDS
    start, length = _SHARED_LOCK
    with path.open("r+b") as file:
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
            except OSError:
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"The store {path} is damaged, and another process has it open: stop that one and "
                        "start again; then it is set aside, and what can be read is carried over."
                    ) from None
                time.sleep(0.02)
            else:
                return


def _free_name(path: Path) -> Path:
    """Return a name that no file has, with the time in it."""
    name = first = _beside(path, f".damaged-{datetime.now():%Y%m%d-%H%M%S}")
    number = 1
    while name.exists() or _beside(name, "-wal").exists():
        number += 1
        name = _beside(first, f"-{number}")
    return name


def _beside(path: Path, ending: str) -> Path:
    return path.parent / (path.name + ending)


def identity(path: Path) -> Identity:
    """Return what tells a file from another one of its name; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
