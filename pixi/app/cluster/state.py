"""The state of a bot in several processes, as their PostgreSQL server knows it: for Prometheus and doctor.

Nothing is written for this but names: each connection says which version of Pixi made it and for which tables
(`Address.label`). The one of a process's store says which part of the program it is, and since when, and the
one that holds a gateway's shards says which these are. So what is told of a process ends with its
connections, and nobody has to clear it away. The store of a `serve` says `http`: by `serve` the servers know
the connections that carry what they say to each other.

The drivers are imported where they are used: whoever has no PostgreSQL server may have none.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from pixi.app.metrics import Values, gauges
from pixi.channels.discord.backend import ALL_ADDRESSES
from pixi.store.statements.inbox import under

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from pixi.app.cluster.queue import ConversationQueue
    from pixi.store.postgres.address import Address

_ASK_SECONDS = 3.0  # between two questions for what is scraped
_ANSWER_SECONDS = 2.0  # in which the database answers them

_LIVING = """
WITH living AS MATERIALIZED (
    SELECT pid, objid::bigint AS id FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = %(owners)s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""
"""Begins a statement that looks for the owners that live, see `owner_locks`."""

_PROCESSES = f"""{_LIVING}
SELECT application_name, extract(epoch FROM backend_start)::float,
    greatest(0, extract(epoch FROM clock_timestamp() - state_change))::float, coalesce(leases, 0)
FROM pg_stat_activity AS activity
LEFT JOIN living ON living.pid = activity.pid
LEFT JOIN (
    SELECT owner %% 4294967296 AS id, count(*) AS leases FROM leases
    WHERE owner <> 0 AND owner %% 4294967296 IN (SELECT id FROM living) GROUP BY 1
) AS owned ON owned.id = living.id
WHERE datname = current_database() AND application_name ~ '^pixi '
AND split_part(application_name, ' ', 3) = %(tables)s
AND split_part(application_name, ' ', 4) IN ('discord', 'gateway', 'http', 'worker')
ORDER BY split_part(application_name, ' ', 4), backend_start
"""
_STATE = f"""{_LIVING}
SELECT
    waiting, failed, stalled, oldest_seconds, leases, living_leases,
    (SELECT count(*) FROM procrastinate_workers
        WHERE last_heartbeat > now() - make_interval(secs => %(stalled)s)) AS workers,
    ARRAY(SELECT application_name FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND application_name ~ '^pixi ' AND split_part(application_name, ' ', 3) = %(tables)s
    ) AS labels,
    ARRAY(SELECT lock FROM procrastinate_jobs WHERE attempts > 1 AND status IN ('todo', 'doing')
        ORDER BY attempts DESC, id) AS deadly,
    (SELECT count(*) FROM owners WHERE id %% 4294967296 IN (SELECT id FROM living)) AS living_owners
FROM (
    SELECT
        count(*) FILTER (WHERE status = 'todo') AS waiting,
        count(*) FILTER (WHERE status = 'failed') AS failed,
        count(*) FILTER (WHERE status = 'doing' AND (worker.id IS NULL
            OR worker.last_heartbeat < now() - make_interval(secs => %(stalled)s))) AS stalled,
        coalesce(extract(epoch FROM now() - min(greatest(event.at, scheduled_at)) FILTER (
            WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now()))), 0)::float
            AS oldest_seconds
    FROM procrastinate_jobs AS job
    LEFT JOIN procrastinate_workers AS worker ON worker.id = worker_id
    LEFT JOIN procrastinate_events AS event ON event.job_id = job.id AND event.type = 'deferred'
) AS queue, (
    SELECT count(*) AS leases,
        count(*) FILTER (WHERE owner %% 4294967296 IN (SELECT id FROM living)) AS living_leases
    FROM leases WHERE owner <> 0
) AS owned
"""
_STUCK = """
SELECT conversation, min(since) FROM (
    SELECT conversation, sent_at AS since FROM messages
    WHERE turn IS NULL AND addressed = 1 AND body IS NOT NULL
    AND conversation >= %(first)s AND conversation < %(last)s AND sent_at BETWEEN %(oldest)s AND %(newest)s
    UNION ALL SELECT conversation, sent_at FROM messages
    WHERE again = 0 AND body IS NOT NULL
    AND conversation >= %(first)s AND conversation < %(last)s AND sent_at BETWEEN %(oldest)s AND %(newest)s
    UNION ALL SELECT conversation, began FROM turns
    WHERE finish IS NULL AND conversation >= %(first)s AND conversation < %(last)s AND began <= %(newest)s
) AS waiting
WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE lock = conversation AND status IN ('todo', 'doing'))
GROUP BY conversation ORDER BY 2
"""


class RunningProcess(Struct):
    """A process that is connected to a PostgreSQL server.

    Attributes:
        part: the command of `pixi-persona` that it runs: `gateway`, `worker`, `serve` or `discord`.
        shards: of a gateway, as in `0-3/16`, or `all`; "" for all others.
        since: when it began, in seconds since the epoch.
        seen_seconds: how long ago it asked the database something. Most do so each second, a gateway every
            five.
        leases: conversations that it owns.
    """

    part: str
    version: str
    shards: str
    since: float
    seen_seconds: float
    leases: int


async def read_processes(session: "AsyncConnection[Any]", address: "Address") -> Sequence[RunningProcess]:
    """Ask the database who is connected. The session's search path leads to the tables of the store.

    Raises:
        psycopg.Error: it does not answer.
    """
    values = {"tables": address.label.split(" ")[2], "owners": owner_locks(address)}
    found = await session.execute(_PROCESSES.encode(), values)
    processes = []
    for label, since, seen_seconds, leases in await found.fetchall():
        _, version, _, part, first, *more = f"{label} ".split(" ")
        began = float(first) if first.isdecimal() and part != "gateway" else since
        part = "serve" if part == "http" else part
        processes.append(RunningProcess(part, version, " ".join(more).strip(), began, seen_seconds, leases))
    return processes


def owner_locks(address: "Address") -> int:
    """Return the number that the locks of all living owners begin with: the first half of their keys."""
    from pixi.store.postgres.session import owner_key

    return (owner_key(address, 0) >> 32) % 2**32


class RunningGateway(NamedTuple):
    """A gateway that lives: a bot's mark, and its shards, as in `0-3/16`, or `all`."""

    bot: str
    shards: str

    @property
    def numbers(self) -> tuple[range, int]:
        """Its shards, and how many there are in all; all of one, where it runs all."""
        found = re.fullmatch(r"(\d+)-(\d+)/(\d+)", self.shards)
        if found is None:
            return range(1), 1
        first, last, count = map(int, found.groups())
        return range(first, last + 1), count


@dataclass(frozen=True)
class ClusterState:
    """The state of all parts, as their database knows it.

    Attributes:
        waiting: conversations on the queue that no worker has.
        oldest_seconds: how long the oldest of them that is due has waited.
        failed: jobs that ended with an error and were kept.
        stalled: conversations whose worker has died, and which no other has taken up.
        workers: that showed a sign of life.
        labels: of all connections for these tables but the one that asks.
        deadly: conversations of which workers died more than once on end, the most deaths first.
        living_owners: processes that may own conversations, and live.
        leases: conversations that somebody owns.
        living_leases: those whose owner lives.
    """

    waiting: int
    oldest_seconds: float
    failed: int
    stalled: int
    workers: int
    labels: Sequence[str]
    deadly: Sequence[str]
    living_owners: int
    leases: int
    living_leases: int

    @cached_property
    def versions(self) -> Mapping[str, int]:
        """The number of connections of each version of Pixi."""
        versions = [label.split(" ")[1] for label in self.labels]
        return {version: versions.count(version) for version in sorted(set(versions))}

    @cached_property
    def gateways(self) -> Sequence[RunningGateway]:
        """Those that hold shards."""
        words = sorted(label.split(" ") for label in self.labels)
        return [RunningGateway(*each[4:6]) for each in words if len(each) == 6 and each[3] == "gateway"]


async def read_state(session: "AsyncConnection[Any]", address: "Address") -> ClusterState:
    """Ask the database once. The session's search path leads to the tables.

    Raises:
        psycopg.Error: it does not answer.
    """
    from psycopg.rows import class_row

    from pixi.app.cluster.queue import STALLED_SECONDS

    values = {
        "stalled": STALLED_SECONDS,
        "tables": address.label.split(" ")[2],
        "owners": owner_locks(address),
    }
    async with session.cursor(row_factory=class_row(ClusterState)) as cursor:
        await cursor.execute(_STATE.encode(), values)
        state = await cursor.fetchone()
    assert state is not None  # it is one row, whatever the tables hold
    return state


async def stuck_talks(
    session: "AsyncConnection[Any]", *, since: float, before: float
) -> Sequence[tuple[str, float]]:
    """Find conversations where something is to be answered that no job is for, the oldest first.

    Args:
        session: whose search path leads to the tables.
        since: when a message was sent at the earliest that is still answered, in seconds since the epoch.
        before: when it was sent at the latest.

    Raises:
        psycopg.Error: the database does not answer.
    """
    from psycopg.rows import tuple_row

    first, last = under(ALL_ADDRESSES)
    values = {"first": first, "last": last, "oldest": since, "newest": before}
    async with session.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_STUCK.encode(), values)
        return await cursor.fetchall()


def gateway_label(address: "Address", bot: str, shards: tuple[Sequence[int], int] | None) -> str:
    """Return the name of a connection that holds a gateway's shards; None: all there are."""
    told = "all" if shards is None else f"{shards[0][0]}-{shards[0][-1]}/{shards[1]}"
    return f"{address.label} gateway {bot[:8]} {told}"


class ClusterGauges:
    """The state of all parts for Prometheus: asked when somebody scrapes, and every few seconds at most."""

    def __init__(self, queue: "ConversationQueue") -> None:
        self._queue = queue
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._gauges: Mapping[str, Values] = {}

    async def gauges(self) -> Mapping[str, Values]:
        """Return the numbers by their metrics; none while the database does not answer."""
        import psycopg

        async with self._asking:
            if time.monotonic() - self._asked >= _ASK_SECONDS:
                try:
                    async with asyncio.timeout(_ANSWER_SECONDS), self._queue.session() as session:
                        state = await read_state(session, self._queue.address)
                except (psycopg.Error, TimeoutError):
                    self._gauges = {}
                else:
                    self._gauges = gauges(
                        queue_conversations=state.waiting,
                        queue_oldest_seconds=state.oldest_seconds,
                        queue_stalled=state.stalled,
                        leases=state.living_leases,
                        workers=state.workers,
                        gateways=len(state.gateways),
                    )
                self._asked = time.monotonic()
            return self._gauges
