"""A store's file: opened, its tables brought to the present version, and its log emptied."""

import errno
import math
import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.store.database import COPYING, early_version, later_version, unfinished_copy
from pixi.store.layout import APPLICATION, FIRST_VERSION, latest_version, names_in, statements
from pixi.store.sqlite.faults import Damaged, is_busy, opening_error

LOCK_SECONDS = 5.0
"""How long a call waits while another process writes."""

WORDS = {"ID": "INTEGER PRIMARY KEY", "SECONDS": "INTEGER", "INDEXED": "conversation"}
"""The words of the tables' statements that a file has in its own way."""

MOST_PAGES = 4_000
"""Pages in the log (16 MB) from which on the connection that commits makes a checkpoint."""

_NEWEST_PLAUSIBLE = 100
"""A version of the tables above this one was written by no Pixi: the file is damaged."""


def connect(path: Path | None, *, unfinished: bool = False) -> sqlite3.Connection:
    """Open the file, made if missing and brought to the present version; None: a store in memory.

    To be used by the calling thread alone.

    Args:
        path: the file.
        unfinished: whether it may be a copy that is not finished.

    Raises:
        ConfigError: the file cannot be opened, is not ours, or is of a later version. It is left as it is.
        Damaged: it holds no database, or not the tables of its version.
    """
    name = ":memory:"
    if path is not None:
        name = str(path)
        _make_private(path)
    connection = sqlite3.connect(name, timeout=LOCK_SECONDS, isolation_level=None)
    try:
        _migrate(connection, name, unfinished=unfinished)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {MOST_PAGES}")  # `Checkpoints` makes most of them
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what a reset forgets is gone from the file too
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        raise opening_error(error, name) from None
    except ConfigError:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Make the file if it is missing, for its owner alone. SQLite gives its companions the same mode.

    One that is there is not opened: to close it again would give up the locks of another connection to it
    in this process, as POSIX has it.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        _see_that_it_may_be_written(path)
    except FileNotFoundError:
        raise ConfigError(f"The store {path}: there is no folder {path.parent}; make it.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise _cannot_be_opened(path, error.strerror if isinstance(error, OSError) else error) from None


_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _see_that_it_may_be_written(path: Path) -> None:
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError as error:  # e.g. a symbolic link that leads to itself
        raise _cannot_be_opened(path, error.strerror) from None
    if kind:
        raise ConfigError(f"The store {path} is a {kind}; name a file in [store] url.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise _cannot_be_opened(path, os.strerror(errno.EACCES))


def _cannot_be_opened(path: Path, reason: object) -> ConfigError:
    return ConfigError(f"The store {path} cannot be opened ({reason}); mend the path or its permissions.")


def _migrate(connection: sqlite3.Connection, name: str, *, unfinished: bool) -> None:
    """Bring the tables to the present version, in one transaction.

    Raises:
        ConfigError: that cannot be done; see `version_of`.
    """
    if version_of(connection, name, unfinished=unfinished) == latest_version():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have done it meanwhile.
        version = version_of(connection, name, unfinished=unfinished)
        if version and tables_of(connection) != tables_of_version(version):
            raise Damaged(f"The store {name} is damaged.")
        make_tables(connection, latest_version(), since=version)
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # A statement of ours that is wrong: that is no reason to set a whole file aside.
        raise ConfigError(f"The tables of the store {name} cannot be brought up to date: {error}.") from None
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def version_of(connection: sqlite3.Connection, name: str, *, unfinished: bool = False) -> int:
    """Return the version of the tables; 0 for an empty file.

    Raises:
        ConfigError: the file is another program's, of a later version, or an unfinished copy.
        Damaged: it is ours, but lacks some of the tables and indexes of its version.
    """
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    found = {table for (table,) in connection.execute("SELECT name FROM sqlite_master")}
    is_ours = application == APPLICATION or {"conversations", "messages", "turns", "lines"} <= found
    if not is_ours and (application or version or found):
        raise ConfigError(
            f"The store {name} is the database of another program; name another file in [store] url."
        )
    if latest_version() < version <= _NEWEST_PLAUSIBLE:
        raise later_version(name, version, latest_version())
    if 0 < version < FIRST_VERSION and not names_in(FIRST_VERSION) <= found:
        raise early_version(name, version, FIRST_VERSION)
    is_plausible = version == 0 or FIRST_VERSION <= version <= _NEWEST_PLAUSIBLE
    has_header = application == APPLICATION and version > 0
    if not is_plausible or not names_in(version) <= found or (found and not has_header):
        raise Damaged(f"The store {name} is damaged.")
    if COPYING in found and not unfinished:
        raise unfinished_copy(name)
    return version


Columns = list[tuple[str, str, int]]
"""The columns of a table, each by its name, its type, and its place in the primary key, counted from 1."""


def tables_of(connection: sqlite3.Connection) -> dict[str, Columns]:
    """Return the columns of each table of ours that is there."""
    ours = names_in(latest_version())
    return {
        table: connection.execute(f"SELECT name, type, pk FROM pragma_table_info('{table}')").fetchall()
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if table in ours
    }


def tables_of_version(version: int) -> dict[str, Columns]:
    """Return the columns of each table that a version has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make_tables(fresh, version)
        return tables_of(fresh)


def make_tables(connection: sqlite3.Connection, version: int, *, since: int = 0) -> None:
    """Make the tables of a version, of those of another or in an empty database."""
    for statement in statements(WORDS, since, version):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {version}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers and the writer work side by side. SQLite does not wait for this lock by itself."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def empty_wal(connection: sqlite3.Connection) -> bool:
    """Carry the log over into the file, so that what was deleted is in neither. In no transaction.

    Returns:
        Whether that was done. Where another process reads for longer than we wait, that is left to the next
        time.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        # SQLite waits by itself for those who read, but not for another checkpoint.
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            connection.execute(f"PRAGMA busy_timeout = {math.ceil(left * 1000)}")
            time.sleep(0.01)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {math.ceil(LOCK_SECONDS * 1000)}")
    return True
