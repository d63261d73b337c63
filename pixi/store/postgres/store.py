"""The store in a PostgreSQL database, for those who have a server."""

import asyncio
from functools import partial
from typing import ClassVar, Self

from pixi.store.postgres.address import read_address
from pixi.store.postgres.connection import PostgresConnection, has_tables
from pixi.store.postgres.schema import ID, TEXT
from pixi.store.sql import SqlStore
from pixi.store.writer import Writer


class PostgresStore(SqlStore):
    """`Store` over one schema of a database. Several processes may use one at once."""

    WORDS: ClassVar = {"id": ID, "text": TEXT}

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the database of a URL; see `read_address`. The tables are made if they are missing.

        Raises:
            ConfigError: it cannot be opened, or is not ours. It is left as it is.
        """
        address = read_address(url)
        writer = Writer(str(address), partial(PostgresConnection.open, address))
        await writer.open()
        return cls(writer)

    @classmethod
    async def open_existing(cls, url: str) -> Self | None:
        """Open the database of a URL to look into it; None where the tables were not made yet.

        Raises:
            ConfigError: as `open`.
        """
        return await cls.open(url) if await asyncio.to_thread(has_tables, read_address(url)) else None
