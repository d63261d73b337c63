"""The store in an SQLite file, which is the default."""

from functools import partial
from pathlib import Path
from typing import ClassVar, Self

from pixi.store.sql import SqlStore
from pixi.store.sqlite.connection import SqliteConnection
from pixi.store.sqlite.damage import Tell
from pixi.store.writer import Writer

MEMORY = ":memory:"


class SqliteStore(SqlStore):
    """`Store` over one file, or in memory. Several processes may use a file at once."""

    WORDS: ClassVar = {"id": "INTEGER PRIMARY KEY", "text": "TEXT"}

    @classmethod
    async def open(cls, path: Path | str, tell: Tell = lambda _: None) -> Self:
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
