"""The checks of `pixi-persona doctor --cluster`: gateways, workers, their queue and their tables.

The drivers are imported where they are used: whoever has no PostgreSQL server may have none.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pixi.app.cluster.state import read_processes, read_state, stuck_talks
from pixi.app.doctor.servers import Finding
from pixi.core.errors import ConfigError
from pixi.core.spending import how_many, some
from pixi.core.untrusted import display_line

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from pixi.app.cluster.state import ClusterState, RunningGateway, RunningProcess
    from pixi.settings import Settings
    from pixi.store.postgres.address import Address

STUCK_SECONDS = 60.0
"""How long something may wait without a job: gateways look for such conversations each half minute."""

_LONG_SECONDS = 30.0  # that a conversation may wait for a worker
_MOST_TALKS = 3  # that are named

_SETUP = """
SELECT to_regclass('pixi_version') IS NOT NULL, to_regclass('procrastinate_jobs') IS NOT NULL,
    extract(epoch FROM clock_timestamp())::float
"""


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
            async for finding in _cluster_findings(session, address, settings):
                yield finding
    except psycopg.Error as error:
        yield Finding(False, "cluster", str(opening_error(error, address)))


async def _cluster_findings(
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
