"""Prometheus scrapes what is counted of turns: whole, readable to its own parsers, and without a word."""

import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from pixi.app.health import LoopMonitor
from pixi.app.metrics import FIGURES, MOST_VALUES, OTHER, Metrics
from pixi.core.persona import Persona
from pixi.engine import Engine
from pixi.models.breaker import Breakers
from pixi.testing import ScriptedModel
from tests.app.watched import WORD, port_of, talk, watched

OPENMETRICS = "application/openmetrics-text; version=1.0.0"

OF_PARTS = {
    *("pixi_messages_recorded", "pixi_queue_conversations", "pixi_queue_oldest_seconds"),
    *("pixi_queue_stalled", "pixi_leases", "pixi_workers", "pixi_gateways"),
}
"""What gateways and workers alone tell."""

Samples = dict[str, dict[tuple[str, ...], float]]
"""Numbers by the names of samples and the values of their labels, in the order of the labels' names."""


def families(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


def values(found_in: Iterable[Metric]) -> Samples:
    found: Samples = {}
    for sample in (sample for family in found_in for sample in family.samples):
        found.setdefault(sample.name, {})[tuple(sample.labels[name] for name in sorted(sample.labels))] = (
            sample.value
        )
    return found


async def scraped(url: str, accept: str = "") -> str:
    async with (
        aiohttp.ClientSession() as http,
        http.get(url + "/metrics", headers={"Accept": accept}) as told,
    ):
        assert told.status == 200
        return await told.text()


async def test_what_happened_in_turns_is_scraped_from_a_port_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pixi.app")
    async with watched(tmp_path, "[monitoring]\nport = 0\n") as service:
        channel = await talk(service, f"I have a {WORD}", f"break the {WORD}")
        service.metrics.discord_statuses.update([200, 200, 429])
        plain = await scraped(port_of(caplog))
        newer = await scraped(port_of(caplog), OPENMETRICS)
    assert channel.sent[0] == f"a {WORD}? let me write that down"
    parsed = families(plain)
    told = values(parsed)
    assert {family.name: family.type for family in parsed if family.name.startswith("pixi_")} == {
        name: figure.kind for name, figure in FIGURES.items() if name not in OF_PARTS
    }
    assert told["pixi_turns_total"] == {("stop", "first"): 1, ("error", "first"): 1}
    assert told["pixi_model_requests_total"] == {("first", "done"): 2, ("first", "failed"): 1}
    tokens = told["pixi_tokens_total"]
    assert tokens["cached", "first"] == 60
    assert tokens["prompt", "first"] >= 250
    assert told["pixi_cost_dollars_total"]["first",] == pytest.approx(
        (tokens["prompt", "first"] + tokens["completion", "first"]) / 1e6
    )
    assert told["pixi_acts_total"] == {("note", "done"): 1, ("send", "done"): 2, ("react", "done"): 1}
    assert told["pixi_tool_calls_total"] == {("done", "remember"): 1, ("failed", OTHER): 1}
    assert told["pixi_discord_requests_total"] == {("200",): 2, ("429",): 1}
    assert told["pixi_turns_lost_total"] == {(): 0}
    for name, count in {"wait": 2, "turn": 2, "first_visible": 1, "act": 4, "tool": 2}.items():
        assert told[f"pixi_{name}_seconds_count"] == {(): count}, name
        assert told[f"pixi_{name}_seconds_bucket"]["+Inf",] == count
    assert told["pixi_model_first_seconds_count"] == {("first",): 2}
    assert told["pixi_conversations_in_memory"] == {(): 1}
    assert told["pixi_replies_under_way"] == told["pixi_conversations_waiting"] == {(): 0}
    assert set(told["pixi_breaker_open"].values()) == {0}
    assert told["pixi_info"] == {(service.version,): 1}
    if Path("/proc/self/stat").exists():
        assert told["process_resident_memory_bytes"][()] > 10_000_000
    newer_names = {family.name for family in openmetrics_families(newer)}  # type: ignore[no-untyped-call]
    assert newer_names == {family.name for family in parsed}
    for form in (plain, newer):
        assert WORD not in form.lower()


@asynccontextmanager
async def counting() -> AsyncGenerator[tuple[Metrics, Engine], None]:
    """Metrics of an engine by itself."""
    async with Engine(model=ScriptedModel(), persona=Persona("Pixi", "You are Pixi.")) as engine:
        yield Metrics(engine, LoopMonitor, dict), engine


async def test_a_label_has_no_more_values_than_can_be_kept() -> None:
    async with counting() as (metrics, _):
        usage = {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}
        form = {"event": "answered", "usage": usage, "failed": False, "first": 0.5}
        for number in range(MOST_VALUES + 50):
            metrics.observe({**form, "model": f"model {number}"})
        body, _ = await metrics.rendered("")
    requests = values(families(body.decode()))["pixi_model_requests_total"]
    assert len(requests) == MOST_VALUES + 1
    assert requests[OTHER, "done"] == 50


async def test_counting_is_begun_once() -> None:
    async with counting() as (metrics, engine):
        assert (metrics.begun, engine.settings.observers) == (False, [])
        metrics.begin()
        metrics.begin()
        assert (metrics.begun, engine.settings.observers) == (True, [metrics.observe])


_STARTS = """
import asyncio, sys
from pixi.app.service import open_service
from pixi.settings import load

def heavy():
    print(*sorted({"prometheus_client", "opentelemetry"} & sys.modules.keys()))

async def start():
    model = {"model.name": "m", "model.base_url": "http://127.0.0.1:9"}
    async with open_service(load(overrides=model)) as it:
        it.metrics.begin()
        heavy()
        await it.scraped("")
        heavy()

asyncio.run(start())
"""


@pytest.mark.nightly
def test_what_nobody_asks_for_is_not_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STARTS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "\nprometheus_client\n", done.stderr


def test_a_breaker_refuses_until_its_pause_is_over() -> None:
    now = 0.0
    breakers = Breakers(lambda: now)
    breaker = breakers.of("a:1")
    assert (breaker.refuses, breakers.open) == (False, {"a:1": False})
    breaker._open(5.0)
    assert (breaker.refuses, breakers.open) == (True, {"a:1": True})
    now = 5.0
    assert (breaker.refuses, breakers.open) == (False, {"a:1": True})
    with breaker.asking():
        assert breaker.refuses
