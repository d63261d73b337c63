"""How often a tool may be used: so many times within so many seconds, by each person or in each guild."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pixi.core.errors import ConfigError

_MOST_TIMES = 10_000
_KEPT = 10_000  # windows; of those above, the one that was not used for longest is forgotten

Key = tuple[str, ...]
"""Whose use is counted, e.g. `("draw", "person", "discord:7")`."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `times` uses within any stretch of `seconds`.

    Raises:
        ConfigError: one of them is not above 0, or there are more than 10,000 times.
    """

    times: int
    seconds: float

    def __post_init__(self) -> None:
        if not 1 <= self.times <= _MOST_TIMES or not 0 < self.seconds < float("inf"):
            raise ConfigError(f"Rate({self.times}, {self.seconds}): write e.g. Rate(3, 60) for 3 a minute.")


class Rates:
    """Counts uses in sliding windows, in memory and of a bounded number.

    Args:
        clock: seconds that only ever grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: OrderedDict[Key, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def use(self, rates: Mapping[Key, Rate]) -> float:
        """Count one use in all windows, if it is within all rates.

        0.0: it was counted. Otherwise the seconds until it would be within them, and nothing was counted.
        """
        now = self._clock()
        wait = max((self._wait(key, rate, now) for key, rate in rates.items()), default=0.0)
        if wait > 0:
            return wait
        for key in rates:
            self._windows.setdefault(key, deque()).append(now)
            self._windows.move_to_end(key)
        while len(self._windows) > _KEPT:
            self._windows.popitem(last=False)
        return 0.0

    def _wait(self, key: Key, rate: Rate, now: float) -> float:
        window = self._windows.get(key)
        if window is None:
            return 0.0
        while window and window[0] + rate.seconds <= now:
            window.popleft()
        if len(window) < rate.times:
            return 0.0
        return window[len(window) - rate.times] + rate.seconds - now


def as_words(seconds: float) -> str:
    """A stretch of time for people: never shorter than it is."""
    for unit, size in (("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds > size or size == 1:
            count = max(1, -int(-seconds // size))
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("there is a smallest unit")
