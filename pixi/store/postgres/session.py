"""A connection to a PostgreSQL server: opened, set up, and the tables brought to the present version."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar, cast
from zlib import crc32

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown

from pixi.core.errors import ConfigError
from pixi.store.database import COPYING, early_version, later_version, on_error, unfinished_copy
from pixi.store.layout import FIRST_VERSION, latest_version, statements
from pixi.store.postgres.address import Address, is_not_ready, opening_error
from pixi.store.postgres.schema import OWN_TABLES, TABLES, WORDS, without_nul
from pixi.store.sqlite.schema import APPLICATION

T = TypeVar("T")

OLDEST_SERVER = 140_000
LOCK_SECONDS = 20.0
"""How long a call waits while other processes write; several may stand still one behind the other."""
IDLE_SECONDS = 4.0
"""How long a process may stand still in the midst of writing: it gives way before others give up."""
STARTING_SECONDS = 20.0
"""How long a server may take to start, if it says that it does."""
SILENT_SECONDS = 30.0
"""How long a server may say nothing to a statement. A frozen one is told from a slow one by nothing else."""
LONG_SECONDS = 600.0
"""How long it may say nothing where all that is kept is looked at, or altered."""


class Session(psycopg.Connection[TupleRow]):
    """A connection that does not wait for ever: one whose server says nothing is closed."""

    _is_patient = False

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Allow statements to take long, until the block is left."""
        self._is_patient = True
        try:
            yield
        finally:
            self._is_patient = False

    def wait(self, gen: PQGen[T], *args: Any, **named: Any) -> T:
        """Wait for the answer to a statement.

        Raises:
            psycopg.OperationalError: none came. The connection is closed.
        """
        return super().wait(self._bounded(gen), *args, **named)

    def _bounded(self, asking: PQGen[T]) -> PQGen[T]:
        """Pass the driver's questions on for as long as there is news of the server, and end when there is
        none."""
        seconds = LONG_SECONDS if self._is_patient else SILENT_SECONDS
        deadline = time.monotonic() + seconds
        try:
            wanted = next(asking)
            while True:
                if news := (yield wanted):
                    deadline = time.monotonic() + seconds
                elif time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError("timeout: the server has stopped answering")
                wanted = asking.send(news)
        except StopIteration as end:
            return cast(T, end.value)


class _Text(StrDumperUnknown):
    """Dump text as this database can hold it."""

    def dump(self, obj: str) -> bytes:
        dumped = super().dump(without_nul(obj))
        return bytes(dumped or b"")


def open_session(address: Address) -> Session:
    """Connect, and wait for a server that is about to start.

    Raises:
        ConfigError: it cannot be done.
    """
    deadline = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            return connect(address)
        except psycopg.Error as error:
            if not is_not_ready(error) or time.monotonic() > deadline:
                raise opening_error(error, address) from None
            time.sleep(0.1)


def connect(address: Address) -> Session:
    """Connect once. Every statement is a transaction of its own, but for those after a BEGIN.

    Raises:
        psycopg.Error: it cannot be done.
    """
    session = Session.connect(address.conninfo, autocommit=True)
    with on_error(session.close):
        session.adapters.register_dumper(str, _Text)
        # All whole numbers alike, so that a statement is prepared once, whatever their size.
        session.adapters.register_dumper(int, Int8Dumper)
        session.execute(
            SQL(
                "SET client_encoding TO 'UTF8'; SET search_path TO {}; SET lock_timeout TO {};"
                " SET idle_in_transaction_session_timeout TO {}; SET client_min_messages TO error;"
                # A snapshot that is older than the lock would miss what the lock was waited for.
                " SET default_transaction_isolation TO 'read committed'"
            ).format(Identifier(address.schema), int(LOCK_SECONDS * 1000), int(IDLE_SECONDS * 1000))
        )
    return session


def lock(address: Address) -> str:
    """Return the statement that waits until no other process writes in these tables, and holds for a
    transaction."""
    return f"SELECT pg_advisory_xact_lock({APPLICATION}, {_key(address.schema)})"


def lock_within(address: Address, conversations: Iterable[str], turns: Iterable[int]) -> str:
    """Return the statements that wait until no other process writes within these conversations and those of
    these turns, or has all tables, and hold for a transaction."""
    stripes = {sha256(each.encode("utf-8", "surrogatepass")).digest()[0] for each in conversations}
    numbers = ",".join(map(str, turns))
    wanted = f"unnest('{{{','.join(map(str, sorted(stripes)))}}}'::int[]) AS stripe"
    if numbers:
        wanted = (
            f"(SELECT stripe FROM {wanted}"
            " UNION SELECT get_byte(sha256(convert_to(conversation, 'UTF8')), 0) FROM turns"
            f" WHERE id = ANY ('{{{numbers}}}') ORDER BY stripe) AS stripes"
        )
    return (
        f"SELECT pg_advisory_xact_lock_shared({APPLICATION}, {_key(address.schema)});"
        f" SELECT pg_advisory_xact_lock({_key(f'conversations of {address.schema}')}, stripe) FROM {wanted}"
    )


def _key(text: str) -> int:
    """Return a half of a lock's key for a text: 32 bits with a sign."""
    return crc32(text.encode()) - 2**31


def hold_owner(session: Session, address: Address, number: int) -> None:
    """Take the lock that shows that an owner lives; it is held for as long as the connection.

    Raises:
        psycopg.Error: it cannot be taken.
    """
    session.execute("SELECT pg_advisory_lock(%s)", (owner_key(address, number),))


def is_owner_held(session: Session, address: Address, number: int) -> bool:
    """Return True if somebody holds the lock of an owner; nobody waits, and nobody is kept from it."""
    asked = "SELECT pg_try_advisory_xact_lock_shared(%s)"
    return session.execute(asked, (owner_key(address, number),)).fetchone() == (False,)


def owner_key(address: Address, number: int) -> int:
    """Return the key of an owner's lock. Locks with one number are others than those with two; see `lock`."""
    return _key(address.schema) * 2**32 + number % 2**32


def version_of(session: Session, address: Address, *, unfinished: bool = False) -> int:
    """Return the version of the tables; 0 where there are none.

    Args:
        session: the connection.
        address: of the store.
        unfinished: whether it may be a copy that is not finished.

    Raises:
        ConfigError: the tables are not ours, of a later version, or an unfinished copy, or the server does
            not do.
    """
    if session.info.server_version < OLDEST_SERVER:
        raise ConfigError(f"The store {address}: Pixi needs PostgreSQL {OLDEST_SERVER // 10_000} or later.")
    encoding = session.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigError(
            f"The store {address}: the database is kept in {encoding}; make one with ENCODING 'UTF8'."
        )
    found = session.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s", (address.schema,)
    ).fetchall()
    tables = {str(table) for (table,) in found}
    if "pixi_version" in tables:
        asked = SQL("SELECT version FROM {}").format(Identifier(address.schema, "pixi_version"))
        version = int(session.execute(asked).fetchall()[0][0])
        if version > latest_version():
            raise later_version(str(address), version, latest_version())
        if version < FIRST_VERSION:
            raise early_version(str(address), version, FIRST_VERSION)
        if COPYING in tables and not unfinished:
            raise unfinished_copy(str(address))
        return version
    foreign = sorted(tables & TABLES)
    if foreign:
        raise ConfigError(
            f"The store {address}: the schema {address.schema} holds a table {foreign[0]} of another program;"
            " name another schema in [store] url, as in postgresql://host/database?schema=talks."
        )
    return 0


def migrate(session: Session, address: Address, *, unfinished: bool = False) -> None:
    """Bring the tables to the present version, in one transaction.

    Raises:
        ConfigError: the tables are not ours, or of a later version. They are left as they are.
        psycopg.Error: it cannot be done.
    """
    latest = latest_version()
    if version_of(session, address, unfinished=unfinished) == latest:
        return
    with session.patient(), session.transaction():
        session.execute(lock(address).encode())
        # Read again under the lock: another process may have done it meanwhile.
        version = version_of(session, address, unfinished=unfinished)
        if version == latest:
            return
        _make_schema(session, address.schema)
        for statement in (*(() if version else OWN_TABLES), *statements(WORDS, version)):
            session.execute(statement.encode())
        session.execute("DELETE FROM pixi_version")
        session.execute("INSERT INTO pixi_version VALUES (%s)", (latest,))


def _make_schema(session: Session, schema: str) -> None:
    # Asked for first: to make one needs a right that a user of an existing one may not have.
    found = session.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if found is None:
        session.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))


def end_session(session: Session, process: tuple[int, str]) -> None:
    """End what is left of a connection that was cut off, so that it holds no lock; see `process_of`."""
    session.execute(
        "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
        " WHERE pid = %s AND backend_start::text = %s",
        process,
    )


def process_of(session: Session) -> tuple[int, str]:
    """Return the server's process behind a connection, and when it began."""
    found = session.execute(
        "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    ).fetchone()
    return (int(found[0]), str(found[1])) if found is not None else (0, "")
