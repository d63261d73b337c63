"""Counts what happens in turns, and tells Prometheus of it and of the process, also at a port for that alone.

`Metrics` is an observer of an engine, see `pixi.channels.observing`: an event that it counts costs some
additions, and all others one look into a table. What it counts it keeps in plain numbers. What needs no
engine is in `Exposition`, which a gateway uses alone. prometheus_client, which knows the forms of Prometheus
and the figures of the process, is imported when it is first asked.

No label is a word, an id or a name of a person. A label's value is one of few: a word of the code, a name of
the settings, or the name of a tool that there is. A model may ask for tools that do not exist, by any words;
those are `other`. Were there ever more values than `MOST_VALUES` of one label, so would be the rest.
"""

import asyncio
import importlib
import logging
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Set
from contextlib import asynccontextmanager
from importlib.metadata import version
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from pixi.app.health import LoopMonitor
from pixi.settings import MonitoringSettings
from pixi.settings.rules import cannot_listen, url_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from pixi.engine.engine import Engine

_log = logging.getLogger("pixi.app")

T = TypeVar("T")
Form = dict[str, Any]
Values = Mapping[tuple[str, ...], float]
"""The numbers of a metric, by the values of its labels."""

MOST_VALUES = 100
"""Values of one label that are told apart."""

OTHER = "other"
"""Stands for all further values of a label."""

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds, up to which each bucket of a histogram counts."""


class Figure(Struct, frozen=True):
    """A metric as Prometheus knows it. The name of a counter ends in `_total` there."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    told: str
    labels: tuple[str, ...] = ()


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("pixi_turns", "counter", "Turns that ended.", ("model", "finish")),
        Figure("pixi_model_requests", "counter", "Requests to models.", ("model", "outcome")),
        Figure(
            "pixi_tokens",
            "counter",
            "Tokens that models read (prompt), read from their cache (cached, a part of prompt) and wrote "
            "(completion).",
            ("model", "kind"),
        ),
        Figure(
            "pixi_cost_dollars", "counter", "Dollars that turns cost, of models with a price.", ("model",)
        ),
        Figure("pixi_acts", "counter", "Acts of commands and tools, such as a message.", ("act", "outcome")),
        Figure("pixi_tool_calls", "counter", "Calls of tools.", ("tool", "outcome")),
        Figure(
            "pixi_turns_lost",
            "counter",
            "Turns that another process took over, or whose words were forgotten.",
        ),
        Figure(
            "pixi_discord_requests",
            "counter",
            "Requests to Discord; status 101: connections to its gateway.",
            ("status",),
        ),
        Figure("pixi_messages_recorded", "counter", "Messages that a gateway put on record."),
        Figure("pixi_wait_seconds", "histogram", "From a message to the begin of the turn."),
        Figure("pixi_first_visible_seconds", "histogram", "From a message to the first act that people see."),
        Figure("pixi_turn_seconds", "histogram", "From a message to the end of the turn."),
        Figure("pixi_act_seconds", "histogram", "From a command's closing bracket to the end of its act."),
        Figure("pixi_tool_seconds", "histogram", "From a tool's call to its result."),
        Figure(
            "pixi_model_first_seconds", "histogram", "From a request to its reply's first piece.", ("model",)
        ),
        Figure("pixi_replies_under_way", "gauge", "Conversations in which a turn is under way."),
        Figure("pixi_conversations_waiting", "gauge", "Conversations whose messages wait for a turn."),
        Figure("pixi_conversations_in_memory", "gauge", "Conversations in memory."),
        Figure("pixi_breaker_open", "gauge", "1 while a model's server is known to fail.", ("server",)),
        Figure("pixi_queue_conversations", "gauge", "Conversations that wait for a worker."),
        Figure(
            "pixi_queue_oldest_seconds", "gauge", "How long the oldest of them has waited since it was due."
        ),
        Figure("pixi_queue_stalled", "gauge", "Conversations whose worker has died or stands still."),
        Figure("pixi_leases", "gauge", "Conversations that a living process owns."),
        Figure("pixi_workers", "gauge", "Workers that live."),
        Figure("pixi_gateways", "gauge", "Gateways that live."),
        Figure("pixi_draining", "gauge", "1 while the program is about to end."),
        Figure("pixi_loop_lag_seconds", "gauge", "How late the event loop was, a moment ago."),
        Figure("pixi_loop_lag_longest_seconds", "gauge", "How late the event loop ever was."),
        Figure("pixi_tasks", "gauge", "Tasks of the event loop."),
        Figure("pixi_threads", "gauge", "Threads of the process."),
        Figure("pixi_info", "gauge", "1, with the version of Pixi.", ("version",)),
    )
}
"""All metrics, but for those of the process, which prometheus_client tells (`process_…`)."""


OF_GATEWAYS = frozenset({"pixi_messages_recorded", "pixi_discord_requests"})
"""Metrics of gateways."""

OF_TURNS = frozenset(
    name for name, each in FIGURES.items() if each.kind != "gauge" and name != "pixi_messages_recorded"
)
"""Metrics of processes that run turns."""


def gauges(**values: float) -> dict[str, Values]:
    """Return gauges without labels, by their names without `pixi_`."""
    return {f"pixi_{name}": {(): float(value)} for name, value in values.items()}


def process_gauges(loop_monitor: LoopMonitor, *, draining: bool) -> dict[str, Values]:
    """Return the gauges of any program that stays."""
    plain = gauges(
        draining=draining,
        loop_lag_seconds=round(loop_monitor.lag, 4),
        loop_lag_longest_seconds=round(loop_monitor.longest, 4),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
    )
    return {**plain, "pixi_info": {(version("pixi-persona"),): 1.0}}


class _Spread:
    """The count of numbers in each bucket, and the sum of all."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a number."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many were no more than each bound."""
        so_far, told = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            so_far += count
            told.append((bound, float(so_far)))
        return told


class Exposition:
    """Tells Prometheus of what was counted, and how things are now.

    Args:
        counted: names of the counters and histograms that it tells of.
        now: gives the gauges.

    Attributes:
        discord_statuses: how many requests to Discord were answered with each status of HTTP.
        shared: asks for the gauges that all parts of a bot share; None: there are no parts.
    """

    def __init__(self, counted: Set[str], now: Callable[[], Mapping[str, Values]]) -> None:
        self._counted_here = counted
        self._now = now
        self._counts: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
        self._spreads: dict[str, dict[tuple[str, ...], _Spread]] = defaultdict(lambda: defaultdict(_Spread))
        self.discord_statuses: Counter[int] = Counter()
        self.shared: Callable[[], Awaitable[Mapping[str, Values]]] | None = None

    def begin(self) -> None:
        """Count from now on. Calling it twice does no harm."""

    def count(self, name: str) -> None:
        """Count one of a counter without labels."""
        self._counts[name][()] += 1

    async def rendered(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that an `Accept` header asks for, and the type of that form.

        To be called on the loop of the program.
        """
        # In a thread: the first time this takes a tenth of a second, in which no reply should stand still.
        await asyncio.to_thread(importlib.import_module, "prometheus_client")
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder

        shared = await self.shared() if self.shared is not None else {}
        registry = CollectorRegistry()
        registry.register(_Collected(list(self._families({**self._now(), **shared}))))
        ProcessCollector(registry=registry)
        encode, kind = choose_encoder(accept)
        return encode(registry), kind

    def _families(self, now: Mapping[str, Values]) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        statuses = self.discord_statuses.items()
        counts = self._counts | {"pixi_discord_requests": {(str(each),): count for each, count in statuses}}
        for name, figure in FIGURES.items():
            if name not in (now if figure.kind == "gauge" else self._counted_here):
                continue
            if figure.kind == "histogram":
                histogram = HistogramMetricFamily(name, figure.told, labels=figure.labels)
                for labels, spread in _with_zero(figure, self._spreads[name], _Spread()).items():
                    histogram.add_metric(labels, spread.buckets(), sum_value=spread.total)
                yield histogram
                continue
            kind = GaugeMetricFamily if figure.kind == "gauge" else CounterMetricFamily
            family = kind(name, figure.told, labels=figure.labels)
            values = now[name] if figure.kind == "gauge" else counts.get(name, {})
            for labels, value in _with_zero(figure, values, 0.0).items():
                family.add_metric(labels, value)
            yield family


class _Collected(Struct, eq=False):
    """Metrics as a registry of prometheus_client takes them."""

    families: "list[Metric]"

    def collect(self) -> "list[Metric]":
        return self.families


def _with_zero(figure: Figure, values: Mapping[tuple[str, ...], T], zero: T) -> Mapping[tuple[str, ...], T]:
    """Return the values of a metric; one without labels is told before anything was counted, too."""
    return values if values or figure.labels else {(): zero}


class Metrics(Exposition):
    """Counts turns, from `begin` on.

    Args:
        engine: whose turns are counted.
        loop_monitor: gives how late the event loop was.
        failing: tells of each model's server that was asked whether it is known to fail, by host and port.
    """

    def __init__(
        self,
        engine: "Engine",
        loop_monitor: Callable[[], LoopMonitor],
        failing: Callable[[], Mapping[str, bool]],
    ) -> None:
        super().__init__(OF_TURNS, self._gauges)
        self._engine = engine
        self._loop_monitor = loop_monitor
        self._failing = failing
        self._known: dict[str, set[str]] = defaultdict(set)  # the values of each label so far
        self._takers: Mapping[str, Callable[[Form], None]] = {
            "turn_start": self._turn_start,
            "answered": self._answered,
            "effect": self._effect,
            "tool_result": self._tool_result,
            "turn_end": self._turn_end,
        }

    @property
    def begun(self) -> bool:
        """True if turns are counted."""
        return self.observe in self._engine.settings.observers

    def begin(self) -> None:
        """Count all turns that begin from now on. Calling it twice does no harm."""
        if not self.begun:
            self._engine.settings.observers.append(self.observe)

    def observe(self, form: Form) -> None:
        """Take an event of a turn: this is an observer of an engine."""
        taker = self._takers.get(form["event"])
        if taker is not None:
            taker(form)

    def _gauges(self) -> dict[str, Values]:
        engine, waiting = self._engine, self._engine.waiting_replies
        return {
            **gauges(
                replies_under_way=engine.talking - waiting,
                conversations_waiting=waiting,
                conversations_in_memory=engine.kept,
            ),
            "pixi_breaker_open": {(server,): float(fails) for server, fails in self._failing().items()},
            **process_gauges(self._loop_monitor(), draining=engine.draining),
        }

    # Counters.

    def _turn_start(self, form: Form) -> None:
        self._spreads["pixi_wait_seconds"][()].add(form["waited"])

    def _answered(self, form: Form) -> None:
        model, usage = self._one_of("model", form["model"]), form["usage"]
        self._counts["pixi_model_requests"][model, "failed" if form["failed"] else "done"] += 1
        tokens = self._counts["pixi_tokens"]
        for kind in ("prompt", "cached", "completion"):
            tokens[model, kind] += usage[f"{kind}_tokens"]
        if form["first"] is not None:
            self._spreads["pixi_model_first_seconds"][(model,)].add(form["first"])

    def _effect(self, form: Form) -> None:
        self._counts["pixi_acts"][self._one_of("act", form["act"]), form["outcome"]] += 1
        if form["ms"] is not None:
            self._spreads["pixi_act_seconds"][()].add(form["ms"] / 1_000)

    def _tool_result(self, form: Form) -> None:
        there = self._engine.tools.get(form["name"]) is not None
        tool = self._one_of("tool", form["name"]) if there else OTHER
        self._counts["pixi_tool_calls"][tool, "done" if form["ok"] else "failed"] += 1
        if form["ms"] is not None:
            self._spreads["pixi_tool_seconds"][()].add(form["ms"] / 1_000)

    def _turn_end(self, form: Form) -> None:
        model = self._one_of("model", form["model"])
        self._counts["pixi_turns"][model, form["finish"]] += 1
        self._spreads["pixi_turn_seconds"][()].add(form["seconds"])
        if form["first_visible"] is not None:
            self._spreads["pixi_first_visible_seconds"][()].add(form["first_visible"])
        if form["cost"] is not None:
            self._counts["pixi_cost_dollars"][(model,)] += form["cost"]
        if form["reason"] == "taken":
            self._counts["pixi_turns_lost"][()] += 1

    def _one_of(self, label: str, value: str) -> str:
        """Return a label's value; `other`, where it would be one too many."""
        known = self._known[label]
        if value not in known:
            if len(known) >= MOST_VALUES:
                return OTHER
            known.add(value)
        return value


@asynccontextmanager
async def monitoring_port(
    settings: MonitoringSettings, metrics: Exposition, unready: Callable[[], Awaitable[str]]
) -> AsyncGenerator[None, None]:
    """Open the port for metrics and health checks, if there is to be one, until the block is left.

    From then on turns count.

    It is for programs that serve nothing else over HTTP, and for operators who want these figures apart from
    what people reach. It knows three paths and no key. Nothing there is a word, a name or an id of a person;
    but what models cost is nobody's business either, so that it listens on this machine alone unless the
    settings name another address. There, it answers to addresses and to `localhost`, not to other names: a
    page in the operator's browser could make one of its own lead here.

    Args:
        settings: have the port.
        metrics: told at `/metrics`.
        unready: says at `/readyz` why nothing can be done just now; "" where it can.

    Raises:
        ConfigError: the port is taken, or there is no such address.
    """
    host, port = settings.host, settings.port
    if port is None:
        yield
        return
    from aiohttp import web

    from pixi.models.connections import is_loopback

    here = is_loopback(host)
    metrics.begin()

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if here and not _is_address(request.host):
            raise web.HTTPMisdirectedRequest(text="Ask for this by the address 127.0.0.1, or as localhost.\n")
        return await handler(request)

    async def scraped(request: web.Request) -> web.Response:
        body, kind = await metrics.rendered(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        why = await unready()
        return web.Response(text=f"{why or 'ok'}\n", status=503 if why else 200)

    app = web.Application(middlewares=[guard])
    app.router.add_get("/metrics", scraped)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, UnicodeError) as error:
            raise cannot_listen(f"[monitoring] host = {host}, port = {port}", error) from None
        _log.info("metrics and health checks at %s", url_of(host, runner.addresses[0][1]))
        yield
    finally:
        await runner.cleanup()


def _is_address(host: str) -> bool:
    """Return whether a `Host` header names an address and no other computer's name."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name == "localhost":
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
