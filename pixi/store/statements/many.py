"""Statements for many rows at once: to ask a server for each of them would take seconds."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pixi.store.database import Database

T = TypeVar("T")


def portions(rows: list[T]) -> Iterator[list[T]]:
    """The rows in portions of a few sizes, so that few different statements are prepared, and kept."""
    at, count = 0, len(rows)
    for size in (64, 8, 4, 2, 1):
        while size <= count - at:
            yield rows[at : at + size]
            at += size


def apart(rows: list[T], key: Callable[[T], object]) -> Iterator[list[T]]:
    """The rows in portions, in each of which no key comes twice."""
    at, keys = 0, set[object]()
    for n, row in enumerate(rows):
        if (own := key(row)) in keys:
            yield from portions(rows[at:n])
            at, keys = n, set()
        keys.add(own)
    yield from portions(rows[at:])


def marks(rows: int, columns: int) -> str:
    """The places of so many rows of values in a statement."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def select_many(db: Database, statement: str, keys: Iterable[object]) -> Iterator[Any]:
    """The rows of a statement with `IN ({})`, in the order of the keys as far as they come in portions."""
    for portion in portions(list(keys)):
        yield from db.execute(_filled(statement, portion), portion).fetchall()


def change_many(db: Database, statement: str, keys: Iterable[object]) -> None:
    """Carry out a statement with `IN ({})` that gives no rows."""
    for portion in portions(list(keys)):
        db.execute(_filled(statement, portion), portion)


def _filled(statement: str, portion: list[object]) -> str:
    return statement.format(", ".join("?" * len(portion)))
