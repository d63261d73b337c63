"""The tables of the queue, which are procrastinate's: made where they are missing, and compared with it.

procrastinate keeps no version in a database. But its functions have versions in their names, and what it does
to a job goes through them. So their names tell whether the procrastinate here can work with the tables there.
"""

import logging
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, Self

from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from pixi.core.errors import StoreError
from pixi.core.spending import some
from pixi.store.postgres.address import Address

_log = logging.getLogger("pixi.queue")

_FUNCTIONS = """
SELECT proname::text FROM pg_proc
WHERE pronamespace = to_regnamespace(%s) AND starts_with(proname::text, 'procrastinate_')
"""


async def make_tables(app: App) -> None:
    """Make the tables, unless there are some.

    Raises:
        ConnectorException: it cannot be done.
    """
    if await app.check_connection_async():
        return
    try:
        await app.schema_manager.apply_schema_async()
    except ConnectorException:
        if not await app.check_connection_async():  # else another process was quicker
            raise


async def check_tables(session: AsyncConnection[Any], address: Address) -> None:
    """Warn of tables of a later procrastinate.

    Raises:
        StoreError: the procrastinate here cannot work with them.
        psycopg.Error: the database does not answer.
    """
    tables = await QueueTables.read(session, address)
    if tables.missing:
        raise StoreError(f"The store {address}: {tables}.")
    if tables.unknown:
        _log.warning("%s", tables)


class QueueTables(NamedTuple):
    """The differences between the tables and those that the procrastinate here makes.

    Attributes:
        missing: functions that it calls, and that are not there: it cannot work.
        unknown: functions that are there, and that it does not know: it can work, but a later one was here.
    """

    missing: Sequence[str]
    unknown: Sequence[str]

    @classmethod
    async def read(cls, session: AsyncConnection[Any], address: Address) -> Self:
        """Compare the functions that are there.

        Raises:
            psycopg.Error: the database does not answer.
        """
        async with session.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_FUNCTIONS.encode(), (address.schema,))
            there = {name for (name,) in await cursor.fetchall()}
        known = set(re.findall(r"^CREATE FUNCTION (\w+)", SchemaManager.get_schema(), re.MULTILINE))
        return cls(sorted(known - there), sorted(there - known))

    def __str__(self) -> str:
        """Tell what is wrong, and the mend; "" where nothing is."""
        here = f"those of procrastinate {version('procrastinate')}, which is installed here"
        if self.missing:
            return (
                f"the queue's tables are not {here}: {some(self.missing, 2)} not there. Install one version "
                "of Pixi and procrastinate everywhere; if it is newer than the tables, end all gateways and "
                "workers, and apply the newer files of `procrastinate schema --migrations-path` with psql"
            )
        if self.unknown:
            return (
                f"the queue's tables are later than {here}, and have {some(self.unknown, 2)}. It goes on; "
                "upgrade Pixi here, too"
            )
        return ""
