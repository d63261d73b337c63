"""A schema on a server as the source or the target of a copy."""

from collections.abc import Iterator
from typing import ClassVar, Self

import psycopg

from pixi.core.errors import ConfigError
from pixi.store.copying import Table, Values, size_of
from pixi.store.database import older_version, on_error
from pixi.store.layout import latest_version
from pixi.store.postgres.address import opening_error, read_address
from pixi.store.postgres.session import migrate, open_session, version_of
from pixi.store.postgres.store import PostgresConnection, PostgresStore

_OWN_BOOKS = frozenset({"pixi_version", "writers", "rate_slices"})
_QUEUE = "procrastinate_"
"""The begin of the names of the queue's tables. A queue tells of messages that wait in the store: it is made
again from there."""

_MOST_FETCHED = 1_000
_FETCHED_BYTES = 1_000_000
"""Rows that are asked for at once: more while they are smaller than this together, else fewer."""


class PostgresSide:
    """`StoreSide` of a schema on a server."""

    words: ClassVar = PostgresStore.WORDS

    def __init__(self, db: PostgresConnection, name: str) -> None:
        self.name = name
        self.db = db
        self.close = db.close

    @classmethod
    def open_source(cls, url: str) -> Self:
        """Connect to read.

        Raises:
            ConfigError: that cannot be done, or the tables are not there, or not of the present version.
        """
        return cls._open(url, is_target=False)

    @classmethod
    def open_target(cls, url: str) -> Self:
        """Connect to write; the tables are made if they are missing.

        Raises:
            ConfigError: that cannot be done.
        """
        return cls._open(url, is_target=True)

    @classmethod
    def _open(cls, url: str, *, is_target: bool) -> Self:
        address = read_address(url)
        session = open_session(address)
        latest = latest_version()
        try:
            with on_error(session.close):
                if is_target:
                    migrate(session, address, unfinished=True)
                else:
                    session.execute("SET default_transaction_read_only TO on")
                    version = version_of(session, address)
                    if not version:
                        raise ConfigError(f"There is no store {address}: nothing was kept there yet.")
                    if version != latest:
                        raise older_version(str(address), version, latest)
                return cls(PostgresConnection(session, address), str(address))
        except psycopg.Error as error:
            raise opening_error(error, address) from None

    def tables(self) -> dict[str, Table]:
        """See `StoreSide.tables`."""
        found = self.db.execute(
            "SELECT relname, attname, attidentity <> '', coalesce(array_position(conkey, attnum), 0)"
            " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " LEFT JOIN pg_constraint ON conrelid = pg_class.oid AND contype = 'p'"
            " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attname"
        ).fetchall()
        parents = self.db.execute(
            "SELECT child.relname, parent.relname FROM pg_constraint"
            " JOIN pg_class AS child ON child.oid = conrelid"
            " JOIN pg_class AS parent ON parent.oid = confrelid"
            " WHERE contype = 'f' AND child.relnamespace = current_schema()::regnamespace"
        ).fetchall()
        return {
            name: Table(
                name,
                tuple(sorted(column for table, column, _, _ in found if table == name)),
                tuple(
                    column
                    for _, column in sorted(
                        (place, each) for table, each, _, place in found if table == name and place
                    )
                ),
                frozenset(parent for child, parent in parents if child == name != parent),
                next((column for table, column, numbered, _ in found if table == name and numbered), ""),
            )
            for name in {table for table, *_ in found} - _OWN_BOOKS
            if not name.startswith(_QUEUE)
        }

    def rows(self, statement: str, name: str) -> Iterator[Values]:
        """See `StoreSide.rows`."""
        # The server waits for the target while a batch is written there.
        self.db.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
        cursor = f'"copy of {name}"'
        self.db.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {statement}")
        wanted = 8
        while found := self.db.execute(f"FETCH {wanted} FROM {cursor}").fetchall():
            yield from found
            small = sum(map(size_of, found)) < _FETCHED_BYTES
            wanted = min(_MOST_FETCHED, 2 * wanted) if small else max(1, wanted // 2)
        self.db.execute(f"CLOSE {cursor}")

    def last_number(self, table: Table) -> int:
        """See `StoreSide.last_number`."""
        if not table.numbered:
            return 0
        (sequence,) = self._sequence(table)
        (number,) = self.db.execute(
            "SELECT greatest(CASE WHEN is_called THEN last_value ELSE 0 END,"
            f' (SELECT max("{table.numbered}") FROM "{table.name}")) FROM {sequence}'
        ).fetchone() or (0,)
        return int(number)

    def set_last_number(self, table: Table, number: int) -> None:
        """See `StoreSide.set_last_number`."""
        if table.numbered:
            self.db.execute("SELECT setval(?::regclass, ?)", (*self._sequence(table), number))

    def _sequence(self, table: Table) -> Values:
        asked = "SELECT pg_get_serial_sequence(?, ?)"
        return self.db.execute(asked, (f'"{table.name}"', table.numbered)).fetchone() or ("",)
