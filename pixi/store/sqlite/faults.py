"""What the database complains of, in the operator's words."""

import sqlite3

from pixi.core.errors import ConfigError, StoreError

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
    """SQLite's primary result code; 0 where the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the index of the log, which is mapped into memory
        return sqlite3.SQLITE_FULL
    return code & 0xFF if isinstance(code, int) else 0


def is_busy(error: Exception) -> bool:
    """Whether another connection held the lock for longer than we wait."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _text(error: Exception, name: str) -> str:
    mend = _MENDS.get(_code(error))
    return f"The store {name}: {mend or error}."


def store_error(error: Exception, name: str) -> StoreError:
    """The error of a call."""
    return StoreError(_text(error, name))


class Damaged(ConfigError):
    """A file holds no database that can be read, or no longer."""


def is_damage(error: Exception) -> bool:
    """Whether the file is not what it was written as."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def opening_error(error: Exception, name: str) -> ConfigError:
    """The error of opening the file."""
    return (Damaged if is_damage(error) else ConfigError)(_text(error, name))


def later_version(name: str, version: int, known: int) -> ConfigError:
    """The error of opening what a later version of this program wrote."""
    return ConfigError(
        f"The store {name} was written by a later Pixi (version {version} of the tables, "
        f"this one knows {known}); update Pixi, or name another store in [store] url."
    )
