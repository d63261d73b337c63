"""Errors of the database in the operator's words, and the locks of owners."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from pixi.core.errors import ConfigError, StoreError
from pixi.store.database import on_error

_LOCKED = "another program kept it locked; stop that program, or name another file in [store] url"
_MENDS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: "the disk is full; nothing is saved until there is room",
    sqlite3.SQLITE_READONLY: "it may not be written; mend the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "it may not be opened; mend the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; mend the path or the permissions of its folder",
    sqlite3.SQLITE_NOTADB: "it is not a database; move it away, or name another file in [store] url",
    sqlite3.SQLITE_CORRUPT: "it is damaged and was left as it is; stop all that use it and start again: "
    "then it is set aside, and what can be read is carried over",
    sqlite3.SQLITE_IOERR: "the disk refused to read or write; see that it is well and has room",
}


def _code(error: Exception) -> int:
    """Return SQLite's primary result code; 0 if the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the index of the log, which is mapped into memory
        return sqlite3.SQLITE_FULL
    return code & 0xFF if isinstance(code, int) else 0


def is_busy(error: Exception) -> bool:
    """Return True if another connection held the lock for longer than we wait."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _text(error: Exception, name: str) -> str:
    mend = _MENDS.get(sqlite3.SQLITE_CORRUPT if isinstance(error, ValueError) else _code(error))
    return f"The store {name}: {mend or error}."


def store_error(error: Exception, name: str) -> StoreError:
    """Return the error of a call."""
    return StoreError(_text(error, name))


class Damaged(ConfigError):
    """A file holds no database that can be read, or no longer."""


def is_damage(error: Exception) -> bool:
    """Return True if the error says that the file is not as it was written.

    SQLite and Python complain without a code of their own about tables and texts that are not as they were
    made. A ValueError comes of a row that cannot be read; a UnicodeDecodeError also of SQLite's complaint of
    a damaged schema, which quotes it. A UnicodeEncodeError comes of what somebody would write.
    """
    if isinstance(error, sqlite3.OperationalError) and _code(error) in (0, sqlite3.SQLITE_ERROR):
        return True
    if isinstance(error, sqlite3.Error):
        return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)


def is_suspicious(error: Exception) -> bool:
    """Return True if the error is or may be one of damage.

    A damaged header can forbid writing, and a damaged row can stand in the way of one that fits.
    """
    forbidden = _code(error) == sqlite3.SQLITE_READONLY
    return forbidden or isinstance(error, sqlite3.IntegrityError) or is_damage(error)


def opening_error(error: Exception, name: str) -> ConfigError:
    """Return the error of opening the file."""
    return (Damaged if is_damage(error) else ConfigError)(_text(error, name))


# The lock that shows that the owner of a number lives: on a file beside the store, gone with its process.
#
# It is a lock of SQLite's, since those work on all systems, between processes and within one.


def lock(file: Path, seconds: float) -> sqlite3.Connection:
    """Take a lock on a file, which is made; wait so long at most. It is held until the connection is closed.

    Raises:
        sqlite3.Error: it cannot be taken.
    """
    with suppress(OSError):  # then SQLite says what is wrong
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(file, timeout=seconds, isolation_level=None)
    with on_error(connection.close):
        connection.execute("PRAGMA journal_mode = MEMORY")  # no second file
        connection.execute("BEGIN EXCLUSIVE")
    return connection


def hold(store: Path, number: int) -> sqlite3.Connection:
    """Take the lock of a number, see `lock`."""
    return lock(_file(store, number), 0)


def release(store: Path, number: int, held: sqlite3.Connection) -> None:
    """Give the lock back, and remove its file."""
    held.close()
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
