"""The store in an SQLite file, which is the default."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from pixi.core.errors import Reporter, StoreError
from pixi.store.database import Within
from pixi.store.sqlite import faults
from pixi.store.sqlite.damage import identity, open_whole, suspect
from pixi.store.sqlite.faults import is_busy, is_suspicious, store_error
from pixi.store.sqlite.salvage import is_whole
from pixi.store.sqlite.schema import Checkpoints, empty_wal
from pixi.store.store import Store
from pixi.store.writer import Writer

T = TypeVar("T")

_log = logging.getLogger("pixi.store")


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


MEMORY = ":memory:"


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
