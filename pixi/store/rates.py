"""How often something is done: counted in memory, and over all processes where several work together."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from pixi.core.lru import LRU
from pixi.core.spending import Rate, RateKey

_KEPT = 10_000  # windows; of those above, the one that was not used for longest is forgotten

UseOfAll = Callable[[Mapping[RateKey, Rate]], Awaitable[float]]
"""Counts one use of each key over all processes, and answers as `Rates.use`."""


class Rates:
    """Counts uses in sliding windows, in memory and of a bounded number.

    Args:
        clock: seconds that only ever grow.

    Attributes:
        shared: counts uses over all processes, too; None: there is this process alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.shared: UseOfAll | None = None
        self._clock = clock
        self._windows: LRU[RateKey, deque[float]] = LRU(_KEPT)

    def __len__(self) -> int:
        return len(self._windows)

    async def use(self, rates: Mapping[RateKey, Rate]) -> float:
        """Count one use in all windows, if it is within all rates.

        0.0: it was counted. Otherwise the seconds until it would be within them, and nothing was counted.
        """
        now = self._clock()
        wait = max((self._wait(key, rate, now) for key, rate in rates.items()), default=0.0)
        if not wait and self.shared is not None and rates:
            wait = await self.shared(rates)
        if wait > 0:
            return wait
        for key in rates:
            window = self._windows.get(key) or deque()
            window.append(now)
            self._windows.put(key, window)
        return 0.0

    def _wait(self, key: RateKey, rate: Rate, now: float) -> float:
        window = self._windows.get(key)
        if window is None:
            return 0.0
        while window and window[0] + rate.seconds <= now:
            window.popleft()
        if len(window) < rate.times:
            return 0.0
        return window[len(window) - rate.times] + rate.seconds - now
