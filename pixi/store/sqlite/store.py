"""The store in an SQLite file, which is the default, and its checkpoints; the file as one side of a copy."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from pixi.core.errors import ConfigError, Reporter, StoreError
from pixi.store.database import Within, older_version, on_error
from pixi.store.layout import latest_version
from pixi.store.sqlite import faults, schema
from pixi.store.sqlite.damage import identity, is_suspected, open_whole, suspect
from pixi.store.sqlite.faults import is_busy, is_suspicious, opening_error, store_error
from pixi.store.sqlite.salvage import is_whole
from pixi.store.sqlite.schema import empty_wal
from pixi.store.store import Store
from pixi.store.writer import Writer

if TYPE_CHECKING:
    from pixi.store.copying import Table, Values

T = TypeVar("T")

_log = logging.getLogger("pixi.store")

MEMORY = ":memory:"
"""Names a store that is kept nowhere."""

COMMITS = 60
"""Commits after which a checkpoint is due. Each appends 6 to 20 pages of 4 KB."""
PASSES = 3
"""How often a checkpoint is tried at once, if commits came meanwhile."""


class Checkpoints:
    """Makes the checkpoints of one file: a thread carries its log over into it, beside the one that commits.

    A commit appends pages to the log. A checkpoint waits until the log is on the disk, copies its pages into
    the file, and waits for these; then the log begins anew. SQLite by itself does so within the commit that
    makes the log long. That commit waits some 20 ms for the disk, and all that it records wait with it. A
    checkpoint by another connection delays no commit.

    The log begins anew only if no page came while the last ones were copied. So a first pass is followed by
    others, which have little left to copy. Where no pass succeeds, because pages come all the time or the
    disk refuses, the log reaches `schema.MOST_PAGES`. From then on the connection that commits tries to make
    the checkpoint, as SQLite does by itself. Nothing can shorten a log while a connection still reads in an
    old state of the file. Ours read for moments only.

    The thread and its connection begin with the first checkpoint.
    """

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
                _checkpoint(connection)
                while self._due.get():
                    _checkpoint(connection)
                return

    def _connect(self) -> sqlite3.Connection:
        existing = f"{self._path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(existing, isolation_level=None, uri=True)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection


def _checkpoint(connection: sqlite3.Connection) -> None:
    copied = -1
    for _ in range(PASSES):
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages == copied:  # nothing came meanwhile
            return
        copied = pages


class SqliteConnection:
    """`Connection` over one file, or in memory."""

    errors = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._connection = connection
        self._path = path
        self._file = None if path is None else identity(path)
        self._checkpoints = None if path is None else Checkpoints(path)
        self.owner = 0
        self._lock: sqlite3.Connection | None = None  # of the owner; a store in memory has no other
        # Not wrapped: a statement costs less than a call in Python does.
        self.execute = connection.execute
        self.executemany = connection.executemany

    @classmethod
    def open(cls, path: Path | None, tell: Reporter) -> "SqliteConnection":
        """Open the file; None: a store in memory. See `open_whole`."""
        return cls(open_whole(path, tell), path)

    def as_kept(self, text: str) -> str:
        """See `Connection.as_kept`."""
        return text

    def signal(self, text: str) -> None:
        """See `Connection.signal`."""

    def become_owner(self) -> None:
        """See `Connection.become_owner`."""
        if self.owner:
            return
        try:
            self.owner = self.transact(self._own, writes=True)
        finally:
            if not self.owner and self._lock is not None:  # it was not kept: others may get the number
                self._lock.close()
                self._lock = None

    def _own(self) -> int:
        for (other,) in self.execute("SELECT id FROM owners").fetchall():
            if not self.is_alive(other):  # killed, and nobody came to its conversations since
                self.execute("DELETE FROM owners WHERE id = ?", (other,))
        (number,) = self.execute("INSERT INTO owners DEFAULT VALUES RETURNING id").fetchone()
        if self._path is not None:  # before anybody can know the number
            self._lock = faults.hold(self._path, number)
        return int(number)

    def is_alive(self, number: int) -> bool:
        """See `Connection.is_alive`."""
        return number == self.owner or (self._path is not None and faults.is_held(self._path, number))

    def transact(self, work: Callable[[], T], *, writes: bool, within: Sequence[Within] = (None,)) -> T:
        """See `Connection.transact`."""
        if writes and self._path is not None and identity(self._path) != self._file:
            raise StoreError(  # what is written to a file without a name is lost at the end
                f"The store {self._path} is no longer where it was: put it back, or start Pixi again."
            )
        self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        try:
            done = work()
            self.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self.execute("ROLLBACK")
        if writes and self._checkpoints is not None:
            self._checkpoints.committed()
        return done

    def complaint(self, error: Exception) -> StoreError:
        """See `Connection.complaint`."""
        if self._path is not None and is_suspicious(error):
            suspect(self._path)
        return store_error(error, str(self._path or ":memory:"))

    def stops_all(self, error: Exception) -> bool:
        """See `Connection.stops_all`."""
        return is_busy(error)

    def sweep(self) -> None:
        """See `Connection.sweep`."""
        if not empty_wal(self._connection):
            _log.warning(
                "another process reads the store %s for long: what was deleted stays in its log until"
                " the next time",
                self._path,
            )

    def check(self) -> None:
        """See `Connection.check`."""
        if is_whole(self._connection):
            return
        if self._path is not None:
            suspect(self._path)
        raise StoreError(
            f"The store {self._path} is damaged: stop all that use it and start again; then it is set aside, "
            "and what can be read is carried over."
        )

    def close(self) -> None:
        """See `Connection.close`."""
        try:
            if self._lock is not None:
                self.transact(self._disown, writes=True)
        except (sqlite3.Error, StoreError):  # the next owner clears it away
            pass
        finally:
            if self._lock is not None and self._path is not None:
                faults.release(self._path, self.owner, self._lock)
            if self._checkpoints is not None:
                self._checkpoints.close()
            self._connection.close()  # the last one removes the log

    def _disown(self) -> None:
        self.execute("DELETE FROM owners WHERE id = ?", (self.owner,))


class SqliteStore(Store):
    """`Store` over one file, or in memory. Several processes may use a file at once."""

    WORDS: ClassVar = {"id": "INTEGER PRIMARY KEY", "text": "TEXT"}

    @classmethod
    async def open(cls, path: Path | str, tell: Reporter = lambda _: None) -> Self:
        """Open the file, made if it is missing; `":memory:"` is kept nowhere.

        Args:
            path: the file.
            tell: told in a line what people should know: see `open_whole`.

        Raises:
            ConfigError: it cannot be opened, or is not ours. It is left as it is.
        """
        told: list[str] = []
        file = None if path == MEMORY else Path(path)
        writer = Writer(str(path), partial(SqliteConnection.open, file, told.append))
        try:
            await writer.open()
        finally:
            for line in told:
                tell(line)
        return cls(writer)


class SqliteSide(SqliteConnection):
    """`StoreSide` of a file: the source or the target of a copy."""

    words: ClassVar = SqliteStore.WORDS

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self.name = str(path.resolve())

    @classmethod
    def open_source(cls, path: Path) -> Self:
        """Open a file to read it.

        Raises:
            ConfigError: it is no store, or not of the present version, or may be damaged.
        """
        if not path.is_file():
            raise ConfigError(f"There is no store {path}: name one as sqlite:///pixi.db.")
        if is_suspected(path):
            raise ConfigError(f"The store {path} may be damaged: run `pixi-persona doctor` with it first.")
        latest = latest_version()
        read_only = f"{path.absolute().as_uri()}?mode=ro"
        try:
            connection = sqlite3.connect(read_only, schema.LOCK_SECONDS, isolation_level=None, uri=True)
            with on_error(connection.close):
                version = schema.version_of(connection, str(path))
                if version != latest:
                    raise older_version(str(path), version, latest)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise opening_error(error, str(path)) from None
        return cls(connection, path)

    @classmethod
    def open_target(cls, path: Path) -> Self:
        """Open a file to write it; it is made if it is missing.

        Raises:
            ConfigError: see `connect`.
        """
        return cls(schema.connect(path, unfinished=True), path)

    def tables(self) -> "dict[str, Table]":
        """See `StoreSide.tables`. Names count without case, and are given in small letters."""
        found = self.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        return {table.name: table for table in map(self._table, names)}

    def _table(self, name: str) -> "Table":
        from pixi.store.copying import Table

        columns = self.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
        parents = self.execute('SELECT "table" FROM pragma_foreign_key_list(?)', (name,)).fetchall()
        keys = [(place, column.lower(), kind) for column, kind, place in columns if place]
        numbered = len(keys) == 1 and keys[0][2].upper() == "INTEGER"
        return Table(
            name.lower(),
            tuple(sorted(column.lower() for column, _, _ in columns)),
            tuple(column for _, column, _ in sorted(keys)),
            frozenset(parent.lower() for (parent,) in parents) - {name.lower()},
            keys[0][1] if numbered else "",
        )

    def rows(self, statement: str, name: str) -> "Iterator[Values]":
        """See `StoreSide.rows`."""
        yield from self.execute(statement)

    def last_number(self, table: "Table") -> int:
        """See `StoreSide.last_number`."""
        if not table.numbered:
            return 0
        (highest,) = self.execute(f'SELECT max("{table.numbered}") FROM "{table.name}"').fetchone()
        given = None
        with suppress(sqlite3.OperationalError):  # no table counts in this file
            given = self.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
        return max(highest or 0, given[0] if given else 0)

    def set_last_number(self, table: "Table", number: int) -> None:
        """See `StoreSide.set_last_number`. Most tables of a file count on from the highest that they hold."""
        (made,) = self.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
        if "AUTOINCREMENT" in made.upper():
            self.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            self.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, number))
