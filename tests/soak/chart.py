"""Draws rows of samples over time as SVG: lines on shared axes, and bands that tell how things were."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tests.soak.trend import Point

WIDTH, HEIGHT = 960, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 30, 24
_MOST = 480  # points of a line: more cannot be told apart

Band = tuple[float, float, str]
"""From when to when, in seconds, and the name of its class in the style sheet."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of samples. `bars`: it is drawn as bars from zero, each as wide as its share of the time."""

    name: str
    points: Sequence[Point]
    bars: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines that share their axes.

    Attributes:
        title: with the unit.
        about: what a reader should know; may be empty.
        zero: the axis begins at zero.
    """

    title: str
    lines: Sequence[Line]
    about: str = ""
    zero: bool = True


def svg(chart: Chart, seconds: float, bands: Sequence[Band]) -> str:
    """The drawing."""
    lines = [Line(line.name, _thinned(line.points), line.bars) for line in chart.lines]
    values = [value for line in lines for _, value in line.points] or [0.0]
    low, high = (0.0 if chart.zero else min(values)), max(values)
    ticks = _ticks(low, high if high > low else low + 1)
    low, high = ticks[0], ticks[-1]
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def x(at: float) -> float:
        return round(_LEFT + (right - _LEFT) * min(max(at / seconds, 0), 1), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - _TOP) * (value - low) / (high - low), 1)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">']
    for begin, end, name in bands:
        width = round(x(end) - x(begin), 1)
        parts.append(
            f'<rect class="{name}" x="{x(begin)}" y="{_TOP}" width="{width}" height="{bottom - _TOP}"/>'
        )
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {y(tick)}H{right}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>'
        )
    for at, told in _moments(seconds):
        parts.append(f'<text class="tick" x="{x(at)}" y="{HEIGHT - 6}" text-anchor="middle">{told}</text>')
    for number, line in enumerate(lines):
        if line.bars:
            wide = max(1.0, (right - _LEFT) / max(len(line.points), 1) - 1)
            drawn = "".join(
                f"M{round(x(at) - wide / 2, 1)} {y(0)}V{y(v)}h{wide:.1f}V{y(0)}z" for at, v in line.points
            )
            parts.append(f'<path class="bar tone{number}" d="{drawn}"/>')
        else:
            path = " ".join(f"{x(at)},{y(value)}" for at, value in line.points)
            parts.append(f'<polyline class="line tone{number}" points="{path}"/>')
    parts.append(f'<text class="title" x="{_LEFT}" y="17">{escape(chart.title)}</text>{_legend(lines)}</svg>')
    return "\n".join(parts)


def _legend(lines: Sequence[Line]) -> str:
    if len(lines) < 2:
        return ""
    parts, at = [], WIDTH - _RIGHT
    for number, line in reversed(list(enumerate(lines))):
        at -= 7 * len(line.name) + 4
        parts.append(f'<text class="tick" x="{at}" y="17">{escape(line.name)}</text>')
        parts.append(f'<circle class="dot tone{number}" cx="{at - 9}" cy="13" r="4"/>')
        at -= 26
    return "".join(parts)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """So many that they can be told apart; a block of them is shown by its medians."""
    step = max(1, math.ceil(len(points) / _MOST))
    blocks = [points[at : at + step] for at in range(0, len(points), step)]
    return [(statistics.median(p[0] for p in b), statistics.median(p[1] for p in b)) for b in blocks]


def _ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers round a range."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _moments(seconds: float) -> list[tuple[float, str]]:
    """Where the time is told, and how."""
    steps = (5, 10, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
    step = next((each for each in steps if seconds / each <= 10), steps[-1])
    moments = [number * step for number in range(int(seconds / step) + 1)]
    if step < 60:
        return [(at, f"{at} s") for at in moments]
    if step < 3_600:
        return [(at, f"{at // 60} min") for at in moments]
    return [(at, f"{at // 3_600} h") for at in moments]
