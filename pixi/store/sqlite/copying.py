"""A file as the source or the target of a copy."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from pixi.core.errors import ConfigError
from pixi.store.copying import Table, Values
from pixi.store.database import older_version, on_error
from pixi.store.layout import latest_version
from pixi.store.sqlite import schema
from pixi.store.sqlite.damage import is_suspected
from pixi.store.sqlite.faults import opening_error
from pixi.store.sqlite.store import SqliteConnection, SqliteStore


class SqliteSide:
    """`StoreSide` of a file."""

    words: ClassVar = SqliteStore.WORDS

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.name = str(path.resolve())
        self.db = SqliteConnection(connection, path)
        self.close = self.db.close

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

    def tables(self) -> dict[str, Table]:
        """See `StoreSide.tables`. Names count without case, and are given in small letters."""
        found = self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        return {table.name: table for table in map(self._table, names)}

    def _table(self, name: str) -> Table:
        columns = self.db.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
        parents = self.db.execute('SELECT "table" FROM pragma_foreign_key_list(?)', (name,)).fetchall()
        keys = [(place, column.lower(), kind) for column, kind, place in columns if place]
        numbered = len(keys) == 1 and keys[0][2].upper() == "INTEGER"
        return Table(
            name.lower(),
            tuple(sorted(column.lower() for column, _, _ in columns)),
            tuple(column for _, column, _ in sorted(keys)),
            frozenset(parent.lower() for (parent,) in parents) - {name.lower()},
            keys[0][1] if numbered else "",
        )

    def rows(self, statement: str, name: str) -> Iterator[Values]:
        """See `StoreSide.rows`."""
        yield from self.db.execute(statement)

    def last_number(self, table: Table) -> int:
        """See `StoreSide.last_number`."""
        if not table.numbered:
            return 0
        (highest,) = self.db.execute(f'SELECT max("{table.numbered}") FROM "{table.name}"').fetchone()
        given = None
        with suppress(sqlite3.OperationalError):  # no table counts in this file
            given = self.db.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)
            ).fetchone()
        return max(highest or 0, given[0] if given else 0)

    def set_last_number(self, table: Table, number: int) -> None:
        """See `StoreSide.set_last_number`. Most tables of a file count on from the highest that they hold."""
        (made,) = self.db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
        if "AUTOINCREMENT" in made.upper():
            self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, number))
