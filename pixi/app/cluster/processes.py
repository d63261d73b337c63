"""The processes that share a PostgreSQL server, as it knows them by their connections.

Nothing is written for this but names: each connection says which version of Pixi made it and for which tables
(`Address.label`). The one of a process's store says which part of the program it is, and since when, and the
one that holds a gateway's shards says which these are. So what is told of a process ends with its
connections, and nobody has to clear it away. The store of a `serve` says `http`: by `serve` the servers know
the connections that carry what they say to each other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from pixi.store.postgres.address import Address

LIVING = """
WITH living AS MATERIALIZED (
    SELECT pid, objid::bigint AS id FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = %(owners)s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""
"""Begins a statement that looks for the owners that live, see `owner_locks`."""

_PROCESSES = f"""{LIVING}
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
    """Return the first half of the locks that show which owners live."""
    from pixi.store.postgres.session import owner_key

    return (owner_key(address, 0) >> 32) % 2**32
