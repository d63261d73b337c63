"""What the database tells of all parts: for `doctor --cluster`, for Prometheus, and at the start."""

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest

from pixi.app.cluster.gateway import Recorder, ShardClaim, open_gateway
from pixi.app.cluster.queue import ConversationQueue, open_queue
from pixi.app.cluster.state import ClusterGauges, gateway_label, read_processes
from pixi.app.doctor import checks
from pixi.app.doctor.cluster import check_cluster
from pixi.app.metrics import monitoring_port
from pixi.app.studio.health import QueueForm, _cluster
from pixi.cli.frame import run
from pixi.core.errors import StoreError
from pixi.core.message import Author, Message
from pixi.engine import Engine
from pixi.settings import Settings, load
from pixi.store.opening import open_store
from pixi.store.postgres.address import read_address
from pixi.store.store import Store
from pixi.testing import RecordingChannel, ScriptedModel
from tests.app.cluster.house import TALK, House, working
from tests.app.test_metrics import families, scraped, values
from tests.app.test_monitoring import asked
from tests.app.watched import port_of
from tests.engine.scene import PIXI
from tests.servers.postgres import Postgres
from tests.waiting import until

HERE = version("pixi-persona")


def schema_of(url: str) -> str:
    return url.partition("schema=")[2]


def settings(tmp_path: Path, url: str) -> Settings:
    return load(environ={}, folder=tmp_path, overrides={"store.url": url, "monitoring.port": 0})


async def findings(tmp_path: Path, url: str) -> dict[str, str]:
    """Texts of what is found, by subject; `fail ` begins what is to be mended."""
    found = [each async for each in check_cluster(settings(tmp_path, url))]
    assert len({each.subject for each in found}) == len(found)
    return {each.subject: f"{'' if each.ok else 'fail '}{each.text}" for each in found}


def message(seconds_ago: float) -> Message:
    return Message("1", TALK, Author("7", "Mo"), "hi", time.time() - seconds_ago, addressed=True)


async def test_all_is_well_while_all_live(
    tmp_path: Path, url: str, store: Store, queue: ConversationQueue
) -> None:
    claims = [ShardClaim(url, "bot", (numbers, 4)) for numbers in ((0, 1), (2, 3))]
    for claim in claims:
        await claim.take()
    house = House(Recorder(store, queue), store, ScriptedModel())
    async with Engine(model=house.model, persona=PIXI, store=store) as engine:
        house.model.add("[SEND: a]")
        async with working(engine, store, queue, house):
            await house.say("hi")
            await until(house.said)
            await house.rests()
            found = await findings(tmp_path, url)
    for claim in claims:
        await claim.release()
    assert not {name: text for name, text in found.items() if text.startswith("fail")}
    assert f"{HERE} (" in found["versions of Pixi"]
    assert found["workers"] == "1 worker"
    assert found["gateways"] == "shards 0-1/4, shards 2-3/4"
    assert found["queue"] == "nothing waits"
    assert found["serve"] == "none runs: it is needed for HTTP alone"
    assert found["leases"] == "1 conversation, of 1 process"
    assert found["stuck talks"] == "none"


async def test_processes_are_told_one_by_one(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 1_234_567.0)
        stores = [await open_store(url, part=part) for part in ("worker", "http", "")]
    for store, talk in zip((stores[0], stores[1], stores[1]), "abc", strict=True):
        await store.lease(f"test:{talk}")
    claim = ShardClaim(url, "bot", ((0, 1), 4))
    address = read_address(url)
    async with await psycopg.AsyncConnection.connect(
        address.conninfo, options=f"-c search_path={address.schema}"
    ) as session:
        told = await read_processes(session, address)
        assert [(each.part, each.leases) for each in told] == [("serve", 2), ("worker", 1)]
        assert {(each.version, each.since) for each in told} == {(HERE, 1_234_567.0)}
    found = await findings(tmp_path, url)
    assert found["serve"] == "1 process, with 2 conversations"
    assert found["queue tables"] == "none: no gateway and no worker was ever started"
    async with open_queue(url):
        await claim.take()
        shown = await _cluster(url)
        assert [(each.part, each.shards) for each in shown.processes] == [
            ("gateway", "0-1/4"),
            ("serve", ""),
            ("worker", ""),
        ]
        assert shown.queue == QueueForm(waiting=0, oldest_seconds=0.0, stalled=0)
        await claim.release()
    for store in stores:
        await store.close()
    assert (await _cluster("postgresql://nobody@127.0.0.1:1/none")).why.endswith("in [store] url.")


async def test_what_is_wrong_is_named_with_the_mend(
    tmp_path: Path, url: str, store: Store, queue: ConversationQueue, postgres: Postgres
) -> None:
    claim = ShardClaim(url, "bot", ((0, 1), 4))
    await claim.take()
    await store.receive(message(900.0))
    await queue.put("discord:1:3:pixi")
    await queue.put("discord:1:4:pixi")
    for change in (
        "UPDATE procrastinate_events SET at = now() - interval '50 minutes'",
        "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 minute')",
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)"
        " WHERE lock = 'discord:1:4:pixi'",
        "INSERT INTO leases (conversation, owner, number) VALUES ('discord:1:9:pixi', 4711, 1)",
        "UPDATE procrastinate_jobs SET attempts = 2 WHERE lock = 'discord:1:3:pixi'",
        "UPDATE pixi_version SET version = version - 1",
    ):
        postgres.run_in(schema_of(url), change)
    other = gateway_label(read_address(url), "bot", ((3,), 8))  # as where a pooler keeps a connection open
    with psycopg.connect(postgres.url(), application_name=other):
        found = await findings(tmp_path, url)
    assert "upgrade all processes together" in found["store tables"]
    assert found["workers"].startswith("fail none lives")
    assert found["gateways"].startswith("fail shards 0-1/4, shards 3-3/8: they count differently")
    assert found["queue"].startswith("fail 1 conversation waiting, the oldest for 30")
    assert "1 of workers that died" in found["queue"]
    assert "workers died again and again while they had discord:1:3:pixi" in found["queue"]
    assert "1 of processes that ended" in found["leases"]
    assert found["stuck talks"].startswith("fail 1 conversation without a job, the longest for 9")
    assert TALK in found["stuck talks"]

    async def gateways(told: str) -> bool:  # a connection is closed a moment before the database forgets it
        return told in (await findings(tmp_path, url))["gateways"]

    await until(partial(gateways, "nobody hears shard 2, 3: start a gateway"))
    await claim.release()
    await until(partial(gateways, "fail none lives"))
    held = gateway_label(read_address(url), "bot", ((0, 1), 2))
    with (
        psycopg.connect(postgres.url(), application_name=held),
        psycopg.connect(postgres.url(), application_name=held),
    ):
        found = await findings(tmp_path, url)
    assert "two run shard 0, 1, so that people are heard twice: end one" in found["gateways"]


@pytest.mark.usefixtures("queue")
async def test_other_versions_and_other_schemas_are_told_apart(
    tmp_path: Path, url: str, postgres: Postgres
) -> None:
    older = read_address(url).label.replace(HERE, "0.0.1")
    elsewhere = read_address(postgres.url("elsewhere")).label.replace(HERE, "0.0.2")
    with (
        psycopg.connect(postgres.url(), application_name=older),
        psycopg.connect(postgres.url(), application_name=elsewhere),
    ):
        told = (await findings(tmp_path, url))["versions of Pixi"]
    assert told.startswith("fail 0.0.1 (1 connection), ")
    assert "0.0.2" not in told


@pytest.mark.usefixtures("queue")
async def test_tables_of_another_procrastinate_are_told_at_the_start(
    tmp_path: Path, url: str, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    schema = schema_of(url)
    postgres.run_in(
        schema, "CREATE FUNCTION procrastinate_fetch_job_v99() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    async with open_queue(url):
        assert "later than those of procrastinate" in caplog.text
    assert "procrastinate_fetch_job_v99" in (await findings(tmp_path, url))["queue tables"]
    postgres.run_in(
        schema, "DROP FUNCTION procrastinate_fetch_job_v99; DROP FUNCTION procrastinate_fetch_job_v2"
    )
    with pytest.raises(
        StoreError, match=r"procrastinate_fetch_job_v2 not there.*end all gateways and workers"
    ):
        async with open_queue(url):
            pass
    found = await findings(tmp_path, url)
    assert found["queue tables"].startswith("fail")
    assert "queue" not in found


async def test_what_cannot_be_looked_at_is_said(tmp_path: Path, url: str) -> None:
    assert (await findings(tmp_path, url))["tables"].startswith("fail")
    assert "PostgreSQL" in (await findings(tmp_path, "sqlite:///pixi.db"))["cluster"]
    away = await findings(tmp_path, "postgresql://nobody@127.0.0.1:1/none")
    assert "no server answers there; start it" in away["cluster"]


def test_the_flag_of_doctor_adds_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    every = checks.checks
    monkeypatch.setattr(
        checks,
        "checks",
        lambda progress, *, cluster: set(every(cluster=cluster)) & {check_cluster, checks.check_key},
    )
    run(["doctor"])
    assert "fail cluster" not in capsys.readouterr().out
    assert run(["doctor", "--cluster"]) == 1
    assert "fail cluster — gateways and workers need a PostgreSQL server" in capsys.readouterr().out


async def test_a_gateway_has_the_port(tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pixi.app")
    chosen = settings(tmp_path, url)
    async with (
        open_gateway(chosen, print) as gateway,
        monitoring_port(gateway.settings.monitoring, gateway.metrics, gateway.unready),
    ):
        port = port_of(caplog)
        await gateway.receive(message(0.0), RecordingChannel(TALK))
        await gateway.receive(message(0.0), RecordingChannel(TALK))
        told = values(families(await scraped(port)))
        assert await asked(port, "/healthz") == (200, "ok")
        assert await asked(port, "/readyz") == (503, "Discord is not connected.")
        await gateway.engine.drain(1.0)
        assert "about to end" in (await asked(port, "/readyz"))[1]
    assert told["pixi_messages_recorded_total"] == told["pixi_queue_conversations"] == {(): 1}
    assert told["pixi_workers"] == told["pixi_queue_stalled"] == {(): 0}
    assert told["pixi_info"] == {(HERE,): 1}
    assert "pixi_loop_lag_seconds" in told
    assert "pixi_turns_total" not in told


@asynccontextmanager
async def away(_: ConversationQueue) -> AsyncGenerator[None, None]:
    raise psycopg.OperationalError("the server is away")
    yield


async def test_scraping_asks_the_database_every_few_seconds_and_goes_on_without(
    queue: ConversationQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("pixi.app.cluster.state.time.monotonic", lambda: now[0])
    gauges = ClusterGauges(queue)
    assert (await gauges.gauges())["pixi_queue_conversations"] == {(): 0}
    await queue.put(TALK)
    assert (await gauges.gauges())["pixi_queue_conversations"] == {(): 0}
    now[0] += 5.0
    assert (await gauges.gauges())["pixi_queue_conversations"] == {(): 1}
    monkeypatch.setattr(ConversationQueue, "session", away)
    now[0] += 5.0
    assert await gauges.gauges() == {}
