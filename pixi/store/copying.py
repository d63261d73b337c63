"""Copies a store into another one, of either kind, table by table.

The two databases have the same tables with the same columns, since both are made by the same versions of the
same statements. So a copy is a copy of rows, and the list of tables is the source's own: a table that a later
version or an addon brings is carried too, or refused by name, and never passed over.

A copy can be cut at any moment. Rows go over in batches, in the order of the primary key. Each batch is one
transaction of the target, which also counts in the table `copying` how far its table has come; so the next
run goes on behind the last batch that was kept. While that table is there, nobody can open the target as a
store. The source is only read, in one snapshot a run.

Between two runs the source may have been written to. Where the number of rows shows that, the copy begins
anew. At the end both sides are read again, in fresh snapshots, and each table is compared by its number of
rows and the sum of the digests of its rows. A sum does not depend on the order, which a server and a file
need not share where a text holds a NUL. Values that the two write in different ways count as equal: 5 and
5.0, and a NUL in text and the picture that a server keeps in its place.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from pixi.core.errors import ConfigError, StoreError
from pixi.store.database import COPYING, Connection
from pixi.store.tables import Schema

T = TypeVar("T")
Values = tuple[Any, ...]
Show = Callable[[str, int, int], None]
"""Called with what is being done, and the rows done, of how many."""

BATCH_ROWS = 500
BATCH_BYTES = 4_000_000
"""Rows of a batch: so many at most, or so many bytes of text and pictures."""

_LARGEST_EXACT = 2**53  # up to which a float tells whole numbers apart
_MODULUS = 2**256


class Table(msgspec.Struct, frozen=True):
    """A table as its database describes it.

    Attributes:
        columns: names in alphabetical order, so that both sides name them in the same.
        keys: columns of the primary key, in its order; empty where there is none.
        parents: names of other tables whose rows its rows refer to.
        numbered: column to which the database gives numbers; "" for none.
    """

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    parents: frozenset[str]
    numbered: str


class StoreSide(Connection, Protocol):
    """The connection to a database that is copied from or to."""

    words: ClassVar[dict[str, str]]
    """The SQL for `{id}` and `{text}` in this database, see `Schema`."""

    @property
    def name(self) -> str:
        """The database for people, without a password; the same one has the same name."""

    def tables(self) -> dict[str, Table]:
        """Return the tables by name, without those in which the database keeps books of its own."""

    def rows(self, statement: str, name: str) -> Iterator[Values]:
        """Yield the rows of a query, a few in memory at a time; `name` is that of its table."""

    def last_number(self, table: Table) -> int:
        """Return the last number that was given to a row; 0 for none."""

    def set_last_number(self, table: Table, number: int) -> None:
        """Have the next row get a higher number."""


class Copied(msgspec.Struct, frozen=True):
    """The end of a copy. `was_there`: the target had been a whole copy before."""

    tables: int
    rows: int
    was_there: bool


class StoreCopy:
    """A run of a copy: `look` at the source, then open the target, and `fill` it.

    Args:
        source: the store to read.
        schemas: tables of addons, by name of the addon.
        show: is told how far it is.
    """

    def __init__(self, source: StoreSide, schemas: Mapping[str, Schema], show: Show) -> None:
        self._source = source
        self._schemas = schemas
        self._show = show
        self._tables: list[Table] = []  # of the source, parents before those that refer to them
        self._counts: dict[str, int] = {}  # rows of each, in the source

    def look(self) -> None:
        """See that the source rests, is whole, and can be carried.

        Raises:
            ConfigError: somebody has to do something first.
            StoreError: it is damaged, or cannot be read.
        """
        ask(self._source, self._look, writes=False)
        self._show("reading", 0, 0)
        _check(self._source)

    def fill(self, target: StoreSide) -> Copied:
        """Copy to a target that is empty, or that an earlier run left; check it, and let it be a store.

        Raises:
            ConfigError: somebody has to do something first.
            StoreError: it could not be done, or not be finished. Another run goes on.
        """
        source = self._source
        if source.name == target.name:
            raise ConfigError(f"The store {source.name} cannot be copied to itself: name another target.")
        if not ask(target, lambda: self._begin(target), writes=True):
            if self._differing(target):
                raise _holds_something_else(target)
            return self._copied(was_there=True)
        ask(source, lambda: self._carry(target), writes=False)
        differing = self._differing(target)
        if differing:
            ask(target, lambda: target.execute(f"UPDATE {COPYING} SET total = -1"), writes=True)
            raise StoreError(
                f"The store {source.name} was written to meanwhile (in {', '.join(differing)}): stop what "
                "uses it, and run this again. The copy then begins anew."
            )
        last_numbers = ask(source, lambda: [source.last_number(each) for each in self._tables], writes=False)
        ask(target, lambda: self._finish(target, last_numbers), writes=True)
        target.sweep()
        return self._copied(was_there=False)

    def _copied(self, *, was_there: bool) -> Copied:
        return Copied(len(self._tables), sum(self._counts.values()), was_there)

    def _look(self) -> None:
        """Read the source's tables, count their rows, and see that nobody is at work there."""
        source = self._source
        for (owner,) in source.execute("SELECT id FROM owners").fetchall():
            if source.is_alive(owner):
                raise ConfigError(
                    f"The store {source.name} is in use: stop the bot, and every chat and server that uses "
                    "it, and run this again."
                )
        tables = source.tables()
        self._tables = parents_first(tables)
        self._counts = {name: _count(source, name) for name in tables}
        for addon, version in source.execute("SELECT name, version FROM addon_tables").fetchall():
            schema = self._schemas.get(addon)
            if schema is None:
                raise ConfigError(
                    f"The store {source.name} has tables of the addon {addon}: name it in `addons` of "
                    "pixi.toml, so that they can be made in the target."
                )
            if version != len(schema.versions):
                mend = "start Pixi with it once" if version < len(schema.versions) else "update the addon"
                raise ConfigError(
                    f"The store {source.name} has tables of another version of the addon {addon} ({version}; "
                    f"this one makes {len(schema.versions)}): {mend}."
                )

    def _begin(self, target: StoreSide) -> bool:
        """Make the target ready, or see that an earlier run did; False where it may be a whole copy."""
        there = target.tables()
        if COPYING in there:
            if self._has_begun(target):
                return True
        else:
            counts = {name: _count(target, name) for name in self._counts if name in there}
            if any(counts.values()):
                if counts == self._counts:
                    return False
                raise _holds_something_else(target)
            target.execute(
                f"CREATE TABLE {COPYING} (source {target.words['text']} NOT NULL,"
                f" name {target.words['text']} PRIMARY KEY, total BIGINT NOT NULL, done BIGINT NOT NULL)"
            )
        self._begin_anew(target)
        return True

    def _has_begun(self, target: StoreSide) -> bool:
        """Return True if an earlier run began to copy this source, as it is now.

        Raises:
            ConfigError: it copied another source.
        """
        begun = target.execute(f"SELECT source, name, total FROM {COPYING}").fetchall()
        others = sorted({source for source, _, _ in begun} - {self._source.name})
        if others:
            raise ConfigError(
                f"The store {target.name} holds a part of {others[0]}: finish that copy, or delete it first."
            )
        return {name: total for _, name, total in begun} == self._counts

    def _begin_anew(self, target: StoreSide) -> None:
        there = target.tables()
        for table in reversed(parents_first(there)):
            if table.name in self._counts or table.name == COPYING:
                target.execute(f"DELETE FROM {_quoted(table.name)}")
        for schema in self._schemas.values():
            if any(each.name.startswith(f"{schema.name}_") for each in self._tables):
                schema.update(target, target.words)
        target.execute("DELETE FROM addon_tables")  # its rows are carried, as those of all others
        self._check_columns(target)
        target.executemany(
            f"INSERT INTO {COPYING} (source, name, total, done) VALUES (?, ?, ?, 0)",
            [(self._source.name, name, count) for name, count in self._counts.items()],
        )

    def _check_columns(self, target: StoreSide) -> None:
        there = target.tables()
        for table in self._tables:
            if table.name not in there:
                raise ConfigError(
                    f"The store {self._source.name} has a table {table.name}, which neither Pixi nor an "
                    "addon makes: move it elsewhere first."
                )
            if there[table.name].columns != table.columns:
                raise ConfigError(
                    f"The table {table.name} has other columns in {self._source.name} than in "
                    f"{target.name}: bring both up to date with `pixi-persona doctor`."
                )

    def _carry(self, target: StoreSide) -> None:
        """Copy the rows that the target lacks."""
        found = ask(
            target, lambda: target.execute(f"SELECT name, done FROM {COPYING}").fetchall(), writes=False
        )
        done, total = dict(found), sum(self._counts.values())
        before = 0
        for table in self._tables:
            at = done[table.name]
            for batch in _batches(self._source.rows(_selection(table, at), table.name)):
                _keep(target, table, batch, at)
                at += len(batch)
                self._show("copying", before + at, total)
            before += at

    def _differing(self, target: StoreSide) -> list[str]:
        """Return the names of tables that the two sides have not alike."""
        total, done = 2 * sum(self._counts.values()), 0

        def digests(side: StoreSide) -> dict[str, tuple[int, int]]:
            nonlocal done
            found = {}
            for table in self._tables:
                count, digest = 0, 0
                for row in side.rows(_selection(table), table.name):
                    digest = (digest + digest_of(row, target.as_kept)) % _MODULUS
                    count += 1
                    if count % BATCH_ROWS == 0:
                        self._show("checking", done + count, total)
                done += count
                found[table.name] = count, digest
            return found

        here = ask(self._source, lambda: digests(self._source), writes=False)
        there = ask(target, lambda: digests(target), writes=False)
        self._show("checking", total, total)
        return [name for name in here if here[name] != there[name]]

    def _finish(self, target: StoreSide, last_numbers: Sequence[int]) -> None:
        there = target.tables()
        for table, number in zip(self._tables, last_numbers, strict=True):
            if number:
                target.set_last_number(there[table.name], number)
        target.execute(f"DROP TABLE {COPYING}")


def _keep(target: StoreSide, table: Table, batch: list[Values], at: int) -> None:
    """Write a batch, and that the table has come so far."""

    def keep() -> None:
        ours = target.execute(
            f"UPDATE {COPYING} SET done = ? WHERE name = ? AND done = ?", (at + len(batch), table.name, at)
        )
        if ours.rowcount != 1:
            raise StoreError(f"Another process copies into {target.name}: let that one finish.")
        target.executemany(
            f"INSERT INTO {_quoted(table.name)} ({', '.join(map(_quoted, table.columns))})"
            f" VALUES ({', '.join('?' * len(table.columns))})",
            batch,
        )

    try:
        ask(target, keep, writes=True)
    except StoreError as error:
        raise StoreError(f"The table {table.name} was not copied whole. {error}") from None


def _holds_something_else(target: StoreSide) -> ConfigError:
    return ConfigError(
        f"The store {target.name} holds something else: name an empty one, or delete that one first."
    )


def ask(side: StoreSide, work: Callable[[], T], *, writes: bool) -> T:
    """Carry out work in one transaction.

    Raises:
        StoreError: the database could not do it.
    """
    try:
        return side.transact(work, writes=writes)
    except side.errors as error:
        raise side.complaint(error) from None


def _check(side: StoreSide) -> None:
    """Read through all of a store.

    Raises:
        StoreError: it is damaged, or cannot be read.
    """
    try:
        side.check()
    except side.errors as error:
        raise side.complaint(error) from None


def digest_of(row: Values, as_kept: Callable[[str], str]) -> int:
    """Return a digest of a row's values, which is the same for the same row of a file and of a server.

    Args:
        row: its values.
        as_kept: gives a text as the target keeps it.
    """
    return int.from_bytes(
        hashlib.sha256(msgspec.msgpack.encode([_alike(value, as_kept) for value in row])).digest()
    )


def _alike(value: Any, as_kept: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return as_kept(value)
    if isinstance(value, int | float) and abs(value) < _LARGEST_EXACT:
        return value + 0.0  # which also makes 0.0 of -0.0
    return value


def parents_first(tables: Mapping[str, Table]) -> list[Table]:
    """Return tables in an order in which rows can be written."""
    from graphlib import TopologicalSorter

    order = TopologicalSorter({name: sorted(tables[name].parents & tables.keys()) for name in sorted(tables)})
    return [tables[name] for name in order.static_order()]


def _selection(table: Table, skipped: int = 0) -> str:
    """Return the query of a table's rows, always in the same order, without the first ones."""
    order = ", ".join(map(_quoted, table.keys or table.columns))
    skip = f" LIMIT {2**62} OFFSET {skipped}" if skipped else ""
    return (
        f"SELECT {', '.join(map(_quoted, table.columns))} FROM {_quoted(table.name)} ORDER BY {order}{skip}"
    )


def _batches(rows: Iterable[Values]) -> Iterator[list[Values]]:
    batch: list[Values] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += size_of(row)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def size_of(row: Values) -> int:
    """Return how many bytes a row takes, about."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))


def _count(side: StoreSide, name: str) -> int:
    return int(side.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
