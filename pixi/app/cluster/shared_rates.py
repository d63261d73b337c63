"""Rates over all processes: uses are counted in PostgreSQL, in slices that a process then spends from memory.

A row for each key holds the slices that were given lately: how many uses each has, and when it leaves the
window. A process that has no uses left asks for a slice, by one statement: up to a tenth of what the window
has left, and no more than would be used up in seconds. It may hold the slice for a while, shorter the less is
left. The slice counts until that while and the window are over. So there are never more uses within a window
than the rate allows, whoever spends them when, and nobody has to clear away after a process that died with a
slice. Whoever asks again says how much of the last slice was not used, and so it counts from then on as what
was used of it.

All times are those of the server's clock. A process measures by its own clock for how long it may hold a
slice, from before it asked. So wrong clocks do no harm.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from psycopg import AsyncConnection, errors
from psycopg import Error as DatabaseError
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier

from pixi.core.lru import LRU
from pixi.core.spending import Rate, RateKey
from pixi.store.postgres.address import Address, read_address
from pixi.store.rates import Rates

_log = logging.getLogger("pixi.queue")

TABLE = "rate_slices"
HOLD_SECONDS = 5.0
"""How long a slice may be held at most. It is held no longer than its window, so that others wait for
unused uses at most as long as for used ones."""
AWAY_SECONDS = 5.0
"""After how long a database that is away is asked again."""
SHARE = 4
"""Meanwhile a process allows this part of a rate by itself."""

_ANSWER_SECONDS = 2.0  # in which the database answers, or is taken for away
_MOST_SLICES = 1_000  # of one key, or nearly: a slice is no smaller part of a rate
_KEPT = 10_000  # keys; of those above, the slice that was not used for longest is dropped
_CLEAN_EVERY = 1_000  # slices

_CREATE = """
CREATE UNLOGGED TABLE IF NOT EXISTS {table} (
    key bytea PRIMARY KEY, ends float8[] NOT NULL, uses float8[] NOT NULL,
    given float8 NOT NULL, seconds float8 NOT NULL
)
"""
_TAKE = """
INSERT INTO {table} AS kept (key, ends, uses, given, seconds)
VALUES (%(key)s, ARRAY[{now} + %(held)s + %(window)s], ARRAY[%(first)s], %(first)s, %(held)s)
ON CONFLICT (key) DO UPDATE SET (ends, uses, given, seconds) = (
    WITH known AS (
        SELECT CASE ends WHEN %(last)s THEN least(ends, {now} + %(window)s) ELSE ends END AS ends,
            CASE ends WHEN %(last)s THEN uses - %(left)s ELSE uses END AS uses
        FROM unnest(kept.ends, kept.uses) AS slice (ends, uses)
    ), counted AS (
        SELECT ends, uses FROM known WHERE ends > {now} AND uses > 0
    ), room AS (
        SELECT greatest(%(times)s - coalesce(sum(uses), 0), 0) AS free FROM counted
    ), given AS (
        SELECT uses, CASE WHEN uses > 1 THEN %(hold)s * free / %(times)s ELSE 0 END AS hold
        FROM (SELECT free, least(free, greatest(least(ceil(free / 10), %(most)s), %(least)s)) AS uses
            FROM room) AS sized
    ), after AS (
        SELECT ends, uses FROM counted
        UNION ALL SELECT {now} + hold + %(window)s, uses FROM given WHERE uses > 0
    )
    SELECT array_agg(ends), array_agg(uses), (SELECT uses FROM given),
        CASE WHEN (SELECT uses FROM given) > 0 THEN (SELECT hold FROM given) ELSE min(ends) - {now} END
    FROM after
)
RETURNING given, seconds, {now} + seconds + %(window)s
"""
_CLEAN = "DELETE FROM {table} WHERE (SELECT max(last) FROM unnest(ends) AS last) <= {now}"
_NOW = SQL("extract(epoch FROM statement_timestamp())::float8")


class _Slice(Struct):
    """The slice of a key that this process has.

    Attributes:
        left: uses that were not spent.
        until: when it may be held no longer, by the clock here.
        ends: what the database knows it by: when it leaves the window, by the server's clock.
        ask_at: until then there are no uses, and nobody asks; by the clock here.
        free_at: when there are uses again at the latest, by the clock here.
    """

    left: float = 0.0
    until: float = float("-inf")
    ends: float = 0.0
    ask_at: float = float("-inf")
    free_at: float = float("-inf")


class SharedRates:
    """Counts uses over all processes on one store. While the database is away, each goes by a share.

    Args:
        session: lends a connection that commits each statement by itself.
        address: of the store.
        clock: seconds that only ever grow.
    """

    def __init__(
        self,
        session: Callable[[], AbstractAsyncContextManager[AsyncConnection[Any]]],
        address: Address,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._table = Identifier(address.schema, TABLE)
        self._clock = clock
        self._slices: LRU[RateKey, _Slice] = LRU(_KEPT)
        self._asking = asyncio.Lock()
        self._taken = 0
        self._own = Rates(clock)
        self._is_away = False
        self._ask_at = float("-inf")  # until then the database is not asked

    async def use(self, rates: Mapping[RateKey, Rate]) -> float:
        """Count one use of each key, if it is within all rates.

        0.0: it was counted. Otherwise the seconds until it would be within them at the latest.
        """
        now = self._clock()
        if now < self._ask_at:
            return await self._use_own(rates)
        known = [self._slices.get(key) for key in rates]
        if refused := [each.free_at - now for each in known if each is not None and now < each.ask_at]:
            return max(refused)
        spent: list[_Slice] = []
        for key, rate in rates.items():
            slice_ = self._slices.get(key)
            if slice_ is None:
                self._slices.put(key, slice_ := _Slice())
            try:
                async with self._asking:  # meanwhile another may have found the database away, or no uses
                    now = self._clock()
                    if now < self._ask_at:
                        return await self._use_own(rates)
                    is_over = slice_.left < 1 or now >= slice_.until
                    if is_over and now >= slice_.ask_at:
                        await self._take(key, rate, slice_)
                        is_over = slice_.left < 1
                    if not is_over:
                        slice_.left -= 1
                        spent.append(slice_)
                        continue
            except (DatabaseError, TimeoutError) as error:
                self._note_away(error)
                return await self._use_own(rates)
            for each in spent:  # nothing is done, so nothing is used
                each.left += 1
            return slice_.free_at - now
        return 0.0

    async def _take(self, key: RateKey, rate: Rate, slice_: _Slice) -> None:
        asked = self._clock()
        hold = min(HOLD_SECONDS, rate.seconds)
        most, least = max(1.0, rate.times / rate.seconds * hold // 1), rate.times // _MOST_SLICES
        first = max(min(-(-rate.times // 10), most), least)
        values = {
            "key": blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=16).digest(),
            "times": float(rate.times),
            "window": rate.seconds,
            "hold": hold,
            "most": most,
            "least": float(least),
            "first": first,
            "held": hold if first > 1 else 0.0,
            "last": slice_.ends,
            "left": slice_.left,
        }
        # A query that is cancelled is cancelled at the server too, and the driver waits for that: up to 10 s
        # where the server stands still. A second cancellation ends that wait, and the connection.
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            asyncio.timeout(0.9 * _ANSWER_SECONDS),
            self._session() as session,
            session.cursor(row_factory=tuple_row) as cursor,
        ):
            try:
                await cursor.execute(self._sql(_TAKE), values)
            except errors.UndefinedTable:
                with suppress(errors.UniqueViolation, errors.DuplicateTable):  # another process was quicker
                    await cursor.execute(self._sql(_CREATE))
                await cursor.execute(self._sql(_TAKE), values)
            found = await cursor.fetchone()
            self._taken += 1
            if self._taken % _CLEAN_EVERY == 1:
                await cursor.execute(self._sql(_CLEAN))
        assert found is not None  # it is one row
        slice_.left, seconds, slice_.ends = found
        if self._is_away:
            self._is_away = False
            _log.info("rates are counted over all processes again")
        if slice_.left >= 1:
            slice_.until = asked + seconds
        else:
            slice_.free_at = asked + seconds
            slice_.ask_at = asked + min(seconds, rate.seconds / 10)

    def _sql(self, statement: str) -> Composed:
        return SQL(statement).format(table=self._table, now=_NOW)

    # While the database is away.

    def _note_away(self, error: Exception) -> None:
        self._ask_at = self._clock() + AWAY_SECONDS
        if not self._is_away:
            self._is_away = True
            told = (str(error).splitlines() or [type(error).__name__])[0]
            _log.warning(
                "rates cannot be counted over all processes (%s): this one allows a quarter, until they can",
                told,
            )

    async def _use_own(self, rates: Mapping[RateKey, Rate]) -> float:
        shares = {key: Rate(max(1, rate.times // SHARE), rate.seconds) for key, rate in rates.items()}
        return await self._own.use(shares)


async def connect_unsynced(conninfo: str, label: str) -> AsyncConnection[Any]:
    """Make a connection for what need not outlive a crash. It commits each statement by itself.

    Args:
        conninfo: of the store.
        label: the name of the connection for whoever looks at the server.

    Raises:
        psycopg.Error: the database does not answer.
    """
    session = await AsyncConnection.connect(
        conninfo, autocommit=True, client_encoding="UTF8", application_name=label
    )
    try:
        await session.execute("SET synchronous_commit TO off")
    except BaseException:
        await session.close()
        raise
    return session


class LentConnection:
    """A connection that is made when it is needed, and again after it failed or its use was cancelled; lent
    to one at a time.

    Args:
        connect: makes it, so that it commits each statement by itself.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._session: AsyncConnection[Any] | None = None
        self._asking = asyncio.Lock()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Lend it until the block is left.

        Raises:
            psycopg.Error: the database does not answer.
        """
        async with self._asking:
            try:
                if self._session is None:
                    self._session = await self._connect()
                yield self._session
            except (DatabaseError, asyncio.CancelledError):
                await self.close()
                raise

    async def close(self) -> None:
        """Close it, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


@asynccontextmanager
async def sharing(rates: Rates, url: str) -> AsyncGenerator[None, None]:
    """Count rates over all processes on a store in PostgreSQL until the block is left.

    For a process that has no other connection for it: this one is made with the first use.
    """
    address = read_address(url)

    connection = LentConnection(lambda: connect_unsynced(address.conninfo, address.label))
    rates.shared = SharedRates(connection.lent, address).use
    try:
        yield
    finally:
        rates.shared = None
        await connection.close()
