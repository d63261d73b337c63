"""How often somebody may ask: a bucket of requests for each caller, which fills as time goes by."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from pixi.channels.http.problems import Problem

_MOST_CALLERS = 10_000
"""Buckets that are kept. The one used longest ago goes first: it is full again, or nearly."""


class RequestLimit:
    """Counts requests. Each caller may send `per_minute` at once, and from then on that many a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, and when it was counted

    def use(self, caller: str) -> None:
        """Count a request.

        Raises:
            Problem: 429, too many; it says when the next one is taken.
        """
        now = self._clock()
        left, then = self._left.pop(caller, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - then) * self._per_minute / 60)
        self._left[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self._per_minute)
            raise Problem(
                429,
                "Too many requests",
                f"At most {self._per_minute} requests a minute are taken. Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
