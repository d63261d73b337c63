"""Whether something grows: the slope of a row of samples, which no peak can bend, and what is allowed."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]
"""A moment in seconds, and a value."""

_MOST = 240  # points of which all pairs are looked at


def slope(points: Sequence[Point]) -> float:
    """Growth per second: the median of the slopes between all pairs (Theil and Sen). 0 for a single point."""
    step = max(1, len(points) // _MOST)
    blocks = [points[at : at + step] for at in range(0, len(points), step)]
    # A block counts by its medians: so nothing is left out, however many points there are.
    thinned = [(statistics.median(p[0] for p in b), statistics.median(p[1] for p in b)) for b in blocks]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for at, earlier in enumerate(thinned)
        for later in thinned[at + 1 :]
        if later[0] > earlier[0]
    ]
    return statistics.median(slopes) if slopes else 0.0


@dataclass(frozen=True, slots=True)
class Trend:
    """How something went after the warm-up.

    Attributes:
        level: its median.
        growth: by how much it grew from the warm-up to the end, by its slope.
        limit: how much it may.
    """

    name: str
    unit: str
    level: float
    growth: float
    limit: float

    @property
    def flat(self) -> bool:
        """Whether it does not grow."""
        return self.growth <= self.limit

    def __str__(self) -> str:
        verdict = "flat" if self.flat else "GROWS"
        return (
            f"{self.name}: {verdict}, {self.level:.1f}{self.unit}, "
            f"{self.growth:+.1f}{self.unit} after the warm-up (at most {self.limit:.1f})"
        )


def trend(name: str, unit: str, points: Sequence[Point], *, share: float, least: float) -> Trend:
    """The trend of a row of samples. It may grow by a share of its level, or by `least` if that is more."""
    level = statistics.median(value for _, value in points)
    span = points[-1][0] - points[0][0]
    return Trend(name, unit, level, slope(points) * span, max(least, share * level))
