"""The database as the store's statements see it, file or server; and statements for many rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol, TypeVar

from pixi.core.errors import ConfigError, StoreError

T = TypeVar("T")

Within = tuple[str | int, ...] | None
"""What a call changes that others change too, and goes by: conversations, by address, and those of turns, by
number. None: that may be anything. Processes write side by side where that is different conversations."""

COPYING = "copying"
"""The table that a store has while it is being made as a copy of another; see `pixi.store.copying`."""


class Cursor(Protocol):
    """The result of a statement: its rows, each a tuple, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """Return how many rows were changed."""

    def fetchone(self) -> Any:
        """Return the next row; None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""


class Database(Protocol):
    """A connection on which statements are carried out, within a transaction that whoever calls opened.

    Statements are written once, in what SQLite and PostgreSQL have in common, with `?` for a value.
    """

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        """Carry out a statement."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Carry out a statement for each row of values."""


class Connection(Database, Protocol):
    """A database as the thread that owns it uses it: with transactions, and words for what goes wrong."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that its statements raise."""

    @property
    def owner(self) -> int:
        """Return the number under which this store owns conversations; 0: none yet, see `become_owner`."""

    def as_kept(self, text: str) -> str:
        """Return a text as this database gives it back."""

    def become_owner(self) -> None:
        """Take a number, and the lock under it, where there is none yet. In no transaction."""

    def signal(self, text: str) -> None:
        """Tell the processes that listen, once the transaction is committed. A file tells nobody."""

    def is_alive(self, owner: int) -> bool:
        """Return True if the owner of that number lives, without waiting."""

    def transact(self, work: Callable[[], T], *, writes: bool, within: Sequence[Within] = (None,)) -> T:
        """Carry out work in one transaction: all of it is kept, or nothing.

        No other process writes meanwhile; or none does within the same conversations, where it is said of
        each part of the work what that is `within`. A file has one writer in any case.

        Work may be carried out again where nothing of it was kept, because the database was lost meanwhile
        or two processes waited for each other.
        """

    def complaint(self, error: Exception) -> StoreError:
        """Return the error of a call, in the operator's words."""

    def stops_all(self, error: Exception) -> bool:
        """Return True if the error would meet any other work as well, after as long a wait."""

    def sweep(self) -> None:
        """Clear what was deleted from the disk too, as far as that can be done. In no transaction."""

    def check(self) -> None:
        """Read through the whole store.

        Raises:
            StoreError: it is damaged.
        """

    def close(self) -> None:
        """Close the connection."""


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block fails: what it made half is closed."""
    try:
        yield
    except BaseException:
        undo()
        raise


def later_version(name: str, version: int, known: int) -> ConfigError:
    """Return the error of opening what a later version of this program wrote."""
    return ConfigError(
        f"The store {name} was written by a later Pixi (version {version} of the tables, "
        f"this one knows {known}); update Pixi, or name another store in [store] url."
    )


def early_version(name: str, version: int, first: int) -> ConfigError:
    """Return the error of opening tables from before the first that this program reads."""
    return ConfigError(
        f"The store {name} was made by an early Pixi (version {version} of the tables, this one reads them "
        f"from {first} on); name another store in [store] url."
    )


def unfinished_copy(name: str) -> ConfigError:
    """Return the error of opening a store that is half a copy."""
    return ConfigError(
        f"The store {name} is a copy that is not finished: run `pixi-persona store copy` again, or delete it."
    )


def older_version(name: str, version: int, known: int) -> ConfigError:
    """Return the error of copying from a store that an earlier version of this program wrote."""
    return ConfigError(
        f"The store {name} has the tables of an earlier Pixi (version {version}, this one makes {known}): "
        "run `pixi-persona doctor` with it in [store] url once, which brings them up to date."
    )


def portions(rows: list[T]) -> Iterator[list[T]]:
    """Split rows into portions of a few sizes, so that few different statements are prepared, and kept."""
    at, count = 0, len(rows)
    for size in (64, 8, 4, 2, 1):
        while size <= count - at:
            yield rows[at : at + size]
            at += size


def apart(rows: list[T], key: Callable[[T], object]) -> Iterator[list[T]]:
    """Split rows into portions, in each of which no key comes twice."""
    at, keys = 0, set[object]()
    for n, row in enumerate(rows):
        if (own := key(row)) in keys:
            yield from portions(rows[at:n])
            at, keys = n, set()
        keys.add(own)
    yield from portions(rows[at:])


def marks(rows: int, columns: int) -> str:
    """Return the places of so many rows of values in a statement."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def execute_values(
    db: Database, statement: str, rows: Iterable[Sequence[Any]]
) -> list[tuple[list[Sequence[Any]], Cursor]]:
    """Carry out a statement with `VALUES {}`; return each portion of the rows with its result."""
    return [
        (portion, db.execute(statement.format(marks(len(portion), len(portion[0]))), [*chain(*portion)]))
        for portion in portions(list(rows))
    ]


def select_many(db: Database, statement: str, keys: Iterable[object]) -> Iterator[Any]:
    """Yield the rows of a statement with `IN ({})`, in the order of the keys from portion to portion."""
    for portion in portions(list(keys)):
        yield from db.execute(_filled(statement, portion), portion).fetchall()


def change_many(db: Database, statement: str, keys: Iterable[object]) -> None:
    """Carry out a statement with `IN ({})` that gives no rows."""
    for portion in portions(list(keys)):
        db.execute(_filled(statement, portion), portion)


def _filled(statement: str, portion: list[object]) -> str:
    return statement.format(", ".join("?" * len(portion)))
