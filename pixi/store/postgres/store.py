"""The store in a PostgreSQL database, for those who have a server; and the database as one side of a copy.

Several processes write at once. Most calls read first, and write by what they found: nobody may change that
in between. So a transaction begins with its locks, and holds them to its end:

- One is for all tables. It is held alone where a call may touch anything: to forget, to count over several
  conversations, in tables of addons. It is shared where all calls say which conversations they are `Within`.
- Then there is one for each of these conversations, or for each of the stripes into which they fall: a server
  has room for so many locks, whatever a transaction holds. They are taken by their numbers, so that no two
  transactions wait for each other. A turn stands for its conversation: it is moved to another under the
  first lock alone.

What calls in different conversations have in common is little:

- Ids of rows. They grow within a conversation. Over all, a lower one may be kept later than a higher one, so
  nobody may go on from the highest id seen. The numbers by which processes ask for news, the revisions of
  conversations, are given under the first lock alone.
- Sums of what was used. Each statement adds to its rows, in one order within a call. Two transactions of
  several such calls may wait for each other; then the server stops one, and it is carried out again, alone.
- An owner that died, which anybody may delete. The same holds.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, ClassVar, Self, TypeVar
from uuid import uuid4

import psycopg

from pixi.core.errors import ConfigError, StoreError
from pixi.store.copying import Table, Values, size_of
from pixi.store.database import Within, older_version, on_error
from pixi.store.layout import latest_version
from pixi.store.postgres.address import (
    Address,
    is_deadlock,
    is_locked,
    is_lost,
    opening_error,
    read_address,
    store_error,
)
from pixi.store.postgres.session import (
    ID,
    TABLES,
    TEXT,
    Session,
    connect,
    end_session,
    hold_owner,
    is_owner_held,
    lock,
    lock_within,
    migrate,
    open_session,
    process_of,
    version_of,
    without_nul,
)
from pixi.store.store import Store
from pixi.store.writer import Writer

T = TypeVar("T")

AWAY_SECONDS = 30.0
"""How long work waits for a server that is gone: longer than a restart, shorter than a turn may take."""
_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5)  # seconds between two attempts to connect; the last, over and over
LONGEST_SIGNAL = 7_900
"""Bytes of a notice of the server."""
_ATTEMPTS = 3  # at the same work, where the connection goes each time: it may be the work that is to blame
_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_OWN_BOOKS = frozenset({"pixi_version", "writers", "rate_slices"})
"""Tables that are not copied: the version, and what processes on this server note for each other."""
_QUEUE = "procrastinate_"
"""The begin of the names of the queue's tables. A queue tells of messages that wait in the store: it is made
again from there."""

_MOST_FETCHED = 1_000
_FETCHED_BYTES = 1_000_000
"""Rows that are asked for at once: more while they are smaller than this together, else fewer."""


class _CutOff(Exception):
    """The connection was lost, or two processes waited for each other, and nothing was kept."""

    def __init__(self, error: psycopg.Error) -> None:
        self.error = error


class _Unsure(StoreError):
    """Nobody knows whether it was kept: it is not to be carried out again."""


class PostgresConnection:
    """`Connection` to a server that may go away and come back."""

    errors = (psycopg.Error,)

    def __init__(self, session: Session, address: Address) -> None:
        self._session = session
        self._process = process_of(session)
        self._address = address
        self.owner = 0
        self._name = uuid4().hex  # under which this process notes what it wrote
        self._batch = 0
        self._away = False  # whether it was waited for in vain
        # Tables in which there may be room to clear: at first all, for what the last process left behind.
        self._with_room = set(TABLES - {"pixi_version"})

    @classmethod
    def open(cls, address: Address) -> "PostgresConnection":
        """Connect, and make the tables or bring them to the present version.

        Raises:
            ConfigError: it cannot be done. What is there is left as it is.
        """
        session = open_session(address)
        try:
            with on_error(session.close):
                migrate(session, address)
                session.execute("DELETE FROM writers WHERE seen < now() - interval '7 days'")
                return cls(session, address)
        except psycopg.Error as error:
            raise opening_error(error, address) from None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """See `Database.execute`."""
        self._note_room(statement)
        return self._session.execute(_in_its_words(statement), values, binary=True)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """See `Database.executemany`."""
        self._note_room(statement)
        with self._session.cursor() as cursor:
            cursor.executemany(_in_its_words(statement), rows)

    def as_kept(self, text: str) -> str:
        """See `Connection.as_kept`."""
        return without_nul(text)

    def signal(self, text: str) -> None:
        """See `Connection.signal`. A text that is too long for a notice lets all look what changed."""
        fits = len(text.encode("utf-8", "surrogatepass")) <= LONGEST_SIGNAL
        self.execute("SELECT pg_notify(?, ?)", (self._address.signals, text if fits else "look "))

    def _note_room(self, statement: str) -> None:
        if table := _changed(statement):
            self._with_room.add(table)

    def become_owner(self) -> None:
        """See `Connection.become_owner`."""
        if self.owner:
            return
        try:
            self.transact(self._own, writes=True)
        except BaseException:
            self.owner = 0
            raise

    def _own(self) -> None:
        for (other,) in self.execute("SELECT id FROM owners").fetchall():
            if not self.is_alive(other):  # killed, and nobody came to its conversations since
                self.execute("DELETE FROM owners WHERE id = ?", (other,))
        (number,) = self.execute("INSERT INTO owners DEFAULT VALUES RETURNING id").fetchone() or (0,)
        hold_owner(self._session, self._address, number)  # before anybody can know the number
        self.owner = number  # at once: a connection that is lost in the midst of the commit takes it again

    def is_alive(self, owner: int) -> bool:
        """See `Connection.is_alive`."""
        return owner == self.owner or is_owner_held(self._session, self._address, owner)

    def transact(self, work: Callable[[], T], *, writes: bool, within: Sequence[Within] = (None,)) -> T:
        """See `Connection.transact`."""
        left = _ATTEMPTS
        while True:
            self._reach()
            try:
                return self._attempt(work, self._beginning(within) if writes else _READING, writes=writes)
            except _CutOff as cut:
                left -= 1
                if not left:
                    raise cut.error from None
                if is_deadlock(cut.error):
                    within = (None,)

    def _attempt(self, work: Callable[[], T], beginning: bytes, *, writes: bool) -> T:
        try:
            self._session.execute(beginning)
            done = work()
        except BaseException as error:
            self._roll_back()
            if isinstance(error, psycopg.Error) and (self._is_gone(error) or is_deadlock(error)):
                raise _CutOff(error) from None
            raise
        try:
            self._session.execute("COMMIT")
        except psycopg.Error as error:
            if not self._is_gone(error):
                raise
            if writes and not self._was_kept():
                raise _CutOff(error) from None
        return done

    def _beginning(self, within: Sequence[Within]) -> bytes:
        """Return the statements that begin a transaction: locks, and a note of what is written, which is
        kept or lost with it.

        An id of the transaction would not do: after a crash a server may give it to somebody else's.
        """
        self._batch += 1
        return (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._lock(within)};"
            f" INSERT INTO writers (name, batch) VALUES ('{self._name}', {self._batch})"
            " ON CONFLICT (name) DO UPDATE SET batch = excluded.batch, seen = now()"
        ).encode()

    def _lock(self, within: Sequence[Within]) -> str:
        if None in within:
            return lock(self._address)
        all_parts = {each for part in within if part for each in part}
        conversations = [self.as_kept(each) for each in all_parts if isinstance(each, str)]
        return lock_within(
            self._address, conversations, [each for each in all_parts if isinstance(each, int)]
        )

    def _was_kept(self) -> bool:
        """Return True if the commit that was cut off happened. The lock says that it is over."""
        for _ in range(_ATTEMPTS):
            try:
                self._reach()
                with self._session.transaction():
                    self._session.execute(lock(self._address).encode())
                    found = self.execute("SELECT batch FROM writers WHERE name = ?", (self._name,)).fetchone()
                return found == (self._batch,)
            except psycopg.Error as error:
                self._is_gone(error)
        raise _Unsure(f"The store {self._address} was cut off while it saved; see that the server is well.")

    def _roll_back(self) -> None:
        try:
            self._session.execute("ROLLBACK")
        except psycopg.Error:  # it is undone with the connection, too
            self._session.close()

    def _is_gone(self, error: psycopg.Error) -> bool:
        """Return True if the connection is lost; then it is closed."""
        if is_lost(error):
            self._session.close()
        return self._session.closed

    def _reach(self) -> None:
        """Connect again where the connection was lost; wait for the server, but once only if it stays away.

        Raises:
            psycopg.Error: it is not to be reached.
        """
        if not self._session.closed:
            return
        deadline = time.monotonic() + (0 if self._away else AWAY_SECONDS)
        pauses = iter(_PAUSES)
        while self._session.closed:
            try:
                self._connect()
            except psycopg.Error:
                pause = next(pauses, _PAUSES[-1])
                self._away = time.monotonic() + pause > deadline
                if self._away:
                    raise
                time.sleep(pause)
        self._away = False

    def _connect(self) -> None:
        session = connect(self._address)
        with on_error(session.close):
            end_session(session, self._process)
            if self.owner:  # its lock went with the connection; whoever saw that may own what it owned
                hold_owner(session, self._address, self.owner)
            self._process = process_of(session)
        self._session.close()
        self._session = session

    def complaint(self, error: Exception) -> StoreError:
        """See `Connection.complaint`."""
        return store_error(error, self._address)

    def stops_all(self, error: Exception) -> bool:
        """See `Connection.stops_all`."""
        if isinstance(error, psycopg.Error):
            return self._session.closed or is_locked(error)
        return isinstance(error, _Unsure)

    def sweep(self) -> None:
        """See `Connection.sweep`. Where it cannot be done, the server does it in its own time."""
        try:
            self._reach()
            tables = ", ".join(sorted(self._with_room))
            if tables:
                with self._session.patient():
                    self._session.execute(f"VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) {tables}".encode())
            self._with_room.clear()
        except psycopg.Error as error:
            self._is_gone(error)

    def check(self) -> None:
        """See `Connection.check`. The server finds damage in what it reads, if it keeps checksums."""
        version_of(self._session, self._address)
        with self._session.patient():
            for table in sorted(TABLES):
                self.execute(f"SELECT count(whole) FROM {table} AS whole").fetchone()

    def close(self) -> None:
        """See `Connection.close`."""
        try:
            if not self._session.closed:
                self._session.execute("DELETE FROM writers WHERE name = %s", (self._name,))
                if self.owner:
                    self._session.execute("DELETE FROM owners WHERE id = %s", (self.owner,))
                    # The server would do it, but a moment after whoever waits for this process looks.
                    self._session.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:  # the note of a process that ended is of no use; others clear it away
            pass
        finally:
            self._session.close()


def has_tables(address: Address) -> bool:
    """Return True if a database holds the tables already. Nothing is made.

    Raises:
        ConfigError: it cannot be opened, or is not ours.
    """
    session = open_session(address)
    try:
        return version_of(session, address) > 0
    except psycopg.Error as error:
        raise opening_error(error, address) from None
    finally:
        session.close()


@lru_cache(maxsize=1_000)
def _changed(statement: str) -> str:
    """Return the table in which a statement leaves room; "" for none."""
    found = re.match(r"(?:DELETE FROM|UPDATE|INSERT INTO (?=.* DO UPDATE )) *(\w+)", statement)
    return found[1] if found else ""


@lru_cache(maxsize=1_000)
def _in_its_words(statement: str) -> bytes:
    """Return a statement as the driver wants it: `%s` for a value."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


class PostgresStore(Store):
    """`Store` over one schema of a database. Several processes may use one at once."""

    WORDS: ClassVar = {"id": ID, "text": TEXT}

    @classmethod
    async def open(cls, url: str, part: str = "") -> Self:
        """Open the database of a URL for a part of the program; see `read_address`. Missing tables are made.

        Raises:
            ConfigError: it cannot be opened, or is not ours. It is left as it is.
        """
        address = read_address(url, part)
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


class PostgresSide(PostgresConnection):
    """`StoreSide` of a schema on a server: the source or the target of a copy."""

    words: ClassVar = PostgresStore.WORDS

    def __init__(self, session: Session, address: Address) -> None:
        super().__init__(session, address)
        self.name = str(address)

    @classmethod
    def open_source(cls, url: str) -> Self:
        """Connect to read.

        Raises:
            ConfigError: that cannot be done; or the tables are not there, or not of the present version.
        """
        address = read_address(url)
        session = open_session(address)
        try:
            with on_error(session.close):
                session.execute("SET default_transaction_read_only TO on")
                version = version_of(session, address)
                if not version:
                    raise ConfigError(f"There is no store {address}: nothing was kept there yet.")
                if version != latest_version():
                    raise older_version(str(address), version, latest_version())
                return cls(session, address)
        except psycopg.Error as error:
            raise opening_error(error, address) from None

    @classmethod
    def open_target(cls, url: str) -> Self:
        """Connect to write; missing tables are made.

        Raises:
            ConfigError: that cannot be done.
        """
        address = read_address(url)
        session = open_session(address)
        try:
            with on_error(session.close):
                migrate(session, address, unfinished=True)
                return cls(session, address)
        except psycopg.Error as error:
            raise opening_error(error, address) from None

    def tables(self) -> dict[str, Table]:
        """See `StoreSide.tables`."""
        found = self.execute(
            "SELECT relname, attname, attidentity <> '', coalesce(array_position(conkey, attnum), 0)"
            " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " LEFT JOIN pg_constraint ON conrelid = pg_class.oid AND contype = 'p'"
            " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attname"
        ).fetchall()
        parents = self.execute(
            "SELECT child.relname, parent.relname FROM pg_constraint"
            " JOIN pg_class AS child ON child.oid = conrelid"
            " JOIN pg_class AS parent ON parent.oid = confrelid"
            " WHERE contype = 'f' AND child.relnamespace = current_schema()::regnamespace"
        ).fetchall()
        tables: dict[str, Table] = {}
        for name in {table for table, *_ in found} - _OWN_BOOKS:
            if name.startswith(_QUEUE):
                continue
            columns = [tuple(column) for table, *column in found if table == name]
            numbered = [column for column, is_numbered, _ in columns if is_numbered]
            tables[name] = Table(
                name,
                columns=tuple(sorted(column for column, _, _ in columns)),
                keys=tuple(column for column, _, place in sorted(columns, key=itemgetter(2)) if place),
                parents=frozenset(parent for child, parent in parents if child == name != parent),
                numbered=numbered[0] if numbered else "",
            )
        return tables

    def rows(self, statement: str, name: str) -> Iterator[Values]:
        """See `StoreSide.rows`."""
        # The server waits for the target while a batch is written there.
        self.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
        # A name for each table: a prepared statement of one cursor would give the columns of the first table.
        cursor = f'"copy of {name}"'
        self.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {statement}")
        wanted = 8
        while found := self.execute(f"FETCH {wanted} FROM {cursor}").fetchall():
            yield from found
            small = sum(map(size_of, found)) < _FETCHED_BYTES
            wanted = min(_MOST_FETCHED, 2 * wanted) if small else max(1, wanted // 2)
        self.execute(f"CLOSE {cursor}")

    def last_number(self, table: Table) -> int:
        """See `StoreSide.last_number`."""
        if not table.numbered:
            return 0
        (sequence,) = self._sequence(table)
        (number,) = self.execute(
            "SELECT greatest(CASE WHEN is_called THEN last_value ELSE 0 END,"
            f' (SELECT max("{table.numbered}") FROM "{table.name}")) FROM {sequence}'
        ).fetchone() or (0,)
        return int(number)

    def set_last_number(self, table: Table, number: int) -> None:
        """See `StoreSide.set_last_number`."""
        if table.numbered:
            self.execute("SELECT setval(?::regclass, ?)", (*self._sequence(table), number))

    def _sequence(self, table: Table) -> Values:
        asked = "SELECT pg_get_serial_sequence(?, ?)"
        return self.execute(asked, (f'"{table.name}"', table.numbered)).fetchone() or ("",)
