"""The report of a soak: a page with its verdict, its numbers and its plots, and the same in lines of text."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from pathlib import Path

from tests.soak.chart import Band, Chart, Line, svg
from tests.soak.gauge import Sample
from tests.soak.run import Outcome
from tests.soak.trend import Point

_WINDOWS = 80  # in which latencies and faults are put together
_SHOWN = 60  # lines of what was wrong

_STYLE = Path(__file__).with_name("page.css")


def page(out: Outcome) -> str:
    """The page."""
    seconds = max(out.samples[-1].at, 1.0) if out.samples else 1.0
    plan, bands = out.plan, _bands(out.samples)
    figures = [
        f"<figure>{svg(chart, seconds, bands)}"
        f"{f'<figcaption>{escape(chart.about)}</figcaption>' if chart.about else ''}</figure>"
        for chart in _charts(out, seconds)
    ]
    numbers = "".join(f"<div><b>{value}</b>{escape(name)}</div>" for name, value in _numbers(out))
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Soak, {_told(plan.seconds)}</title>",
            f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head><body>",
            f"<h1>Soak: {_told(plan.seconds)}, {plan.conversations} conversations</h1>",
            f'<p class="dim">{datetime.now(UTC):%Y-%m-%d %H:%M} UTC · seed {plan.seed} · '
            f"{plan.rate:g} acts of people a second</p>",
            _verdict(out),
            f'<div class="numbers">{numbers}</div>',
            '<p class="dim">The background tells of the model server:'
            '<i style="background:var(--showers)"></i>every fourth request fails'
            '<i style="background:var(--storm)"></i>two of three fail</p>',
            *figures,
            '<h2>What went on</h2><div class="columns">',
            _table("people", out.did),
            _table("model server, faults", out.faults),
            _table("Discord", out.trouble),
            "</div></body></html>",
        ]
    )


def summary(out: Outcome) -> list[str]:
    """The same in lines of text."""
    verdict = out.verdict
    lines = [
        f"{_told(out.plan.seconds)} with {out.plan.conversations} conversations, seed {out.plan.seed}: "
        f"{out.questions:,} questions, {out.requests:,} requests to the model, "
        f"{sum(out.faults.values()):,} of them failed, {sum(out.trouble.values()):,} troubles of Discord's",
        f"{verdict.answered:,} answered, {verdict.told:,} told of, {verdict.silent:,} met with silence, "
        f"{verdict.superseded:,} superseded, {sum(verdict.excused.values()):,} withdrawn; "
        f"{len(verdict.lost)} lost, {len(verdict.twice)} said twice, {len(verdict.false)} never written",
        *map(str, out.trends),
    ]
    if out.waits:
        waits = sorted(took for _, took in out.waits)
        lines.append(
            f"first of an answer after {waits[len(waits) // 2]:.2f} s (median), "
            f"{waits[len(waits) * 95 // 100]:.2f} s (p95), waiting for the model included"
        )
    if unanswered := ", ".join(f"{count} /{name}" for name, count in out.unanswered.items()):
        lines.append(f"commands that met a bot without a connection: {unanswered}")
    return lines


def _verdict(out: Outcome) -> str:
    if not out.wrong:
        told = "Nothing was lost, nothing was said twice, nothing grew."
        return f'<div class="verdict"><b>All is well.</b> {told}</div>'
    lines = "".join(f"<li>{escape(each)}</li>" for each in out.wrong[:_SHOWN])
    count = "1 thing is wrong" if len(out.wrong) == 1 else f"{len(out.wrong)} things are wrong"
    return f'<div class="verdict bad"><b>{count}.</b><ul>{lines}</ul></div>'


def _numbers(out: Outcome) -> list[tuple[str, str]]:
    verdict, last = out.verdict, out.samples[-1]
    memory = next((each for each in out.trends if each.name == "memory"), None)
    waits = sorted(took for _, took in out.waits) or [0.0]
    return [
        ("questions", f"{out.questions:,}"),
        ("answered", f"{verdict.answered:,}"),
        ("told of by one notice", f"{verdict.told:,}"),
        ("lost", str(len(verdict.lost))),
        ("said twice", str(len(verdict.twice))),
        ("model faults", f"{sum(out.faults.values()):,}"),
        ("memory growth after the warm-up", f"{memory.growth:+.1f} MB" if memory else "–"),
        ("memory at the end", f"{last.own or last.resident:.0f} MB"),
        ("tasks at rest", str(last.tasks)),
        ("open files at rest", "–" if last.files is None else str(last.files)),
        ("first of an answer, median", f"{waits[len(waits) // 2]:.2f} s"),
        ("store", f"{last.store:.1f} MB"),
    ]


def _charts(out: Outcome, seconds: float) -> list[Chart]:
    samples, window = out.samples, seconds / _WINDOWS

    def row(value: Callable[[Sample], float | None]) -> list[Point]:
        return [(one.at, found) for one in samples if (found := value(one)) is not None]

    def faults() -> list[Point]:
        return [
            (later.at, float(later.faults - earlier.faults))
            for earlier, later in pairwise(_every(samples, window))
        ]

    return [
        Chart(
            "Memory, MB",
            [Line("in use", row(lambda one: one.resident)), Line("its own", row(lambda one: one.own))],
            "; ".join(str(each) for each in out.trends if each.name == "memory"),
        ),
        Chart(
            "Open files, tasks and threads",
            [
                Line("open files", row(lambda one: one.files)),
                Line("tasks", row(lambda one: one.tasks)),
                Line("threads", row(lambda one: one.threads)),
            ],
        ),
        Chart(
            "From a message to the first of its answer, s",
            [
                Line("p95", _quantiles(out.waits, window, 0.95)),
                Line("median", _quantiles(out.waits, window, 0.5)),
            ],
            "What the model server takes is in it, and what it takes to ask again when it failed.",
        ),
        Chart(
            "Messages",
            [
                Line("asked", row(lambda one: one.asked)),
                Line("answered", row(lambda one: one.answered)),
                Line("notices", row(lambda one: one.notices)),
            ],
        ),
        Chart("Failed requests to the model", [Line("failed", faults(), bars=True)]),
        Chart("Processor, share of a core", [Line("share", row(lambda one: one.processor))]),
        Chart("Store, MB", [Line("store", row(lambda one: one.store))]),
    ]


def _every(samples: list[Sample], seconds: float) -> list[Sample]:
    """Those with so much time between them."""
    kept = samples[:1]
    for sample in samples[1:]:
        if sample.at - kept[-1].at >= seconds:
            kept.append(sample)
    return kept


def _quantiles(waits: list[Point], window: float, share: float) -> list[Point]:
    by_window: dict[int, list[float]] = {}
    for at, took in waits:
        by_window.setdefault(int(at / window), []).append(took)
    return [
        ((number + 0.5) * window, sorted(found)[int(len(found) * share)])
        for number, found in sorted(by_window.items())
    ]


def _bands(samples: list[Sample]) -> list[Band]:
    """The time in which the model server was not kind."""
    bands: list[Band] = []
    for earlier, later in pairwise(samples):
        if earlier.weather == "calm":
            continue
        if bands and bands[-1][2] == earlier.weather and bands[-1][1] == earlier.at:
            bands[-1] = (bands[-1][0], later.at, earlier.weather)
        else:
            bands.append((earlier.at, later.at, earlier.weather))
    return bands


def _table(title: str, counts: Counter[str]) -> str:
    rows = "".join(
        f'<tr><td class="count">{count:,}</td><td>{escape(name)}</td></tr>'
        for name, count in counts.most_common()
    )
    return f'<table><tr><th colspan="2">{escape(title)}</th></tr>{rows}</table>'


def _told(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
