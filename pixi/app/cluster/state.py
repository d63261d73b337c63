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
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from pixi.app.doctor.servers import Finding
from pixi.app.metrics import Values, gauges
from pixi.channels.discord.backend import ALL_ADDRESSES
from pixi.core.errors import ConfigError
from pixi.core.spending import how_many, some
from pixi.core.untrusted import display_line
from pixi.store.statements.inbox import under

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from pixi.app.cluster.queue import ConversationQueue
    from pixi.settings import Settings
    from pixi.store.postgres.address import Address

STUCK_SECONDS = 60.0
"""How long something may wait without a job: gateways look for such conversations each half minute."""

_LONG_SECONDS = 30.0  # that a conversation may wait for a worker
_MOST_TALKS = 3  # that are named
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
_SETUP = """
SELECT to_regclass('pixi_version') IS NOT NULL, to_regclass('procrastinate_jobs') IS NOT NULL,
    extract(epoch FROM clock_timestamp())::float
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


# The checks of `pixi-persona doctor --cluster`.


async def check_cluster(settings: "Settings") -> AsyncIterator[Finding]:
    """Check all parts of a bot from the database that they share. Nothing is written there."""
    from pixi.store.opening import is_postgres

    if not is_postgres(settings.store.url):
        told = "gateways and workers need a PostgreSQL server under [store]: see docs/scale.md"
        yield Finding(False, "cluster", told)
        return
    if not all(map(find_spec, ("procrastinate", "psycopg", "psycopg_pool"))):
        yield Finding(False, "cluster", "a part is missing: pip install 'pixi-persona[cluster]'")
        return
    import psycopg
    from psycopg.conninfo import make_conninfo

    from pixi.store.postgres.address import opening_error, read_address

    try:
        address = read_address(settings.store.url)
    except ConfigError as error:
        yield Finding(False, "cluster", str(error))
        return
    try:
        conninfo = make_conninfo(address.conninfo, options=f"-c search_path={address.schema}")
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as session:
            async for finding in _looked_at(session, address, settings):
                yield finding
    except psycopg.Error as error:
        yield Finding(False, "cluster", str(opening_error(error, address)))


async def _looked_at(
    session: "AsyncConnection[Any]", address: "Address", settings: "Settings"
) -> AsyncIterator[Finding]:
    from pixi.app.cluster.queue import clock_fault, still_answered
    from pixi.app.cluster.tables import QueueTables

    (has_store, has_queue, now) = await (await session.execute(_SETUP)).fetchone() or (False, False, 0.0)
    clock = clock_fault(now)
    yield Finding(not clock, "clock", clock or "as the database server's; see the other machines' on each")
    processes = await read_processes(session, address) if has_store else ()
    servers = [each for each in processes if each.part == "serve"]
    if not (has_store and (has_queue or servers)):
        told = f"{address} has none yet: start `pixi-persona gateway`, which makes them"
        yield Finding(False, "tables", told)
        return
    found = await session.execute("SELECT version FROM pixi_version")
    yield _store_tables(*(await found.fetchone() or (0,)))
    if not has_queue:
        yield Finding(True, "queue tables", "none: no gateway and no worker was ever started")
        yield _servers(servers)
        return
    tables = await QueueTables.read(session, address)
    fault = str(tables)
    yield Finding(not fault, "queue tables", fault or f"those of procrastinate {version('procrastinate')}")
    if tables.missing:
        return
    state = await read_state(session, address)
    yield _versions(state)
    yield _workers(state)
    for finding in _gateways(state.gateways):
        yield finding
    yield _servers(servers)
    yield _queue(state)
    yield _leases(state)
    since, before = still_answered(settings.discord), time.time() - STUCK_SECONDS
    yield _stuck(await stuck_talks(session, since=since, before=before))


def _store_tables(there: int) -> Finding:
    from pixi.store.layout import latest_version

    latest, told = latest_version(), f"version {there}"
    if there > latest:
        told += f", of a later Pixi than this one, which knows {latest}: upgrade Pixi here"
    elif there < latest:
        told += f", which this Pixi brings to {latest} at its start: upgrade all processes together"
    return Finding(there == latest, "store tables", told)


def _versions(state: "ClusterState") -> Finding:
    here = version("pixi-persona")
    each = [f"{name} ({how_many(count, 'connection')})" for name, count in state.versions.items()]
    told = f"{', '.join(each) or 'none is connected'}; here it is {here}"
    if set(state.versions) - {here}:
        return Finding(False, "versions of Pixi", f"{told}: start all again with the newest of them")
    return Finding(True, "versions of Pixi", told)


def _workers(state: "ClusterState") -> Finding:
    if not state.workers:
        return Finding(False, "workers", "none lives, so nobody is answered: start `pixi-persona worker`")
    return Finding(True, "workers", how_many(state.workers, "worker"))


def _gateways(gateways: "Sequence[RunningGateway]") -> Iterator[Finding]:
    """Tell of each bot's gateways."""
    if not gateways:
        yield Finding(False, "gateways", "none lives, so nobody is heard: start `pixi-persona gateway`")
    for bot in dict.fromkeys(each.bot for each in gateways):
        its = [each for each in gateways if each.bot == bot]
        fault = _shard_fault(its)
        told = ", ".join(f"shards {each.shards}" if "/" in each.shards else "all shards" for each in its)
        yield Finding(not fault, "gateways", f"{told}: {fault}" if fault else told)


def _shard_fault(gateways: "Sequence[RunningGateway]") -> str:
    """Say what is wrong with how one bot's gateways share its shards; "" for nothing."""
    counts = {each.numbers[1] for each in gateways}
    if len(counts) > 1:
        return "they count differently, so that people are heard twice: give all the same number after the /"
    runs = Counter(number for each in gateways for number in each.numbers[0])
    if twice := [str(number) for number, count in runs.items() if count > 1]:
        return f"two run shard {some(twice)}, so that people are heard twice: end one"
    if missing := [str(number) for number in range(*counts) if number not in runs]:
        return f"nobody hears shard {some(missing)}: start a gateway for it, with --shards"
    return ""


def _servers(servers: "Sequence[RunningProcess]") -> Finding:
    """Tell of the processes that serve HTTP. There may be none."""
    if not servers:
        return Finding(True, "serve", "none runs: it is needed for HTTP alone")
    leases = how_many(sum(each.leases for each in servers), "conversation")
    return Finding(True, "serve", f"{how_many(len(servers), 'process', 'processes')}, with {leases}")


def _queue(state: "ClusterState") -> Finding:
    told = "nothing waits"
    if state.waiting:
        told = (
            f"{how_many(state.waiting, 'conversation')} waiting, the oldest for {state.oldest_seconds:.0f} s"
        )
    mends = []
    if state.oldest_seconds > _LONG_SECONDS:
        mends.append("start more workers, or raise their --concurrency")
    if state.stalled:
        told += f"; {state.stalled:,} of workers that died or stand still"
        mends.append("a worker that lives takes those up within five seconds: see that there is one")
    if state.deadly:
        names = some([display_line(address) for address in state.deadly], _MOST_TALKS)
        told += f"; workers died again and again while they had {names}"
        mends.append("the workers' logs and the system's say why; /reset there ends it")
    if state.failed:
        told += f"; {state.failed:,} failed"
        mends.append("the workers' logs say why jobs failed")
    return Finding(not mends, "queue", f"{told}{': ' if mends else ''}{'; '.join(mends)}")


def _leases(state: "ClusterState") -> Finding:
    """Tell who owns conversations. What processes left that ended, the next one takes: it is no fault."""
    owners = how_many(state.living_owners, "process", "processes")
    told = f"{how_many(state.living_leases, 'conversation')}, of {owners}"
    if left := state.leases - state.living_leases:
        told += f"; {left:,} of processes that ended, for the next one that comes there"
    return Finding(True, "leases", told)


def _stuck(talks: "Sequence[tuple[str, float]]") -> Finding:
    if not talks:
        return Finding(True, "stuck talks", "none")
    names = some([display_line(address) for address, _ in talks], _MOST_TALKS)
    waited = time.time() - talks[0][1]
    told = (
        f"{how_many(len(talks), 'conversation')} without a job, the longest for {waited:.0f} s ({names}): "
        "a gateway queues them each half minute; see that one lives"
    )
    return Finding(False, "stuck talks", told)
