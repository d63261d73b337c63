"""Circuit breakers: they spare servers that do not answer, and people who wait for them.

Sans-IO: a breaker is told how requests ended, and by a clock that is handed in it says whether another is
worth making. It has three states. *Closed*: everybody may ask. *Open*: after some failures in a row nobody
may, for a while. *Half open*: the while is over and one request, the probe, finds out whether the server is
back; if not, the next while is longer.

Where several processes ask the same servers, each hears of a breaker that opened in another, and opens its
own at the first failure. It does not open it at once: the fault may be the other machine's alone. It tells
nobody of a breaker that opened so, and soon forgets the word: else processes would keep each other alarmed.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from pixi.core.errors import ModelError

Clock = Callable[[], float]

_LONGEST_PAUSE = 600.0  # seconds that a server may ask for; then it is asked again, whatever it said


class BreakerPolicy(Struct, frozen=True):
    """Policy for opening and pausing.

    Attributes:
        failures: in a row, after which it opens. A request counts once, however often it was tried.
        pause: seconds until the first probe; doubled after each that failed.
        cap: the longest pause, and for how long a word of another process counts.
    """

    failures: int = 3
    pause: float = 5.0
    cap: float = 60.0


class Permit:
    """A request that was let through. Of `answered` and `failed` the first call counts."""

    def __init__(self, breaker: "Breaker") -> None:
        self._breaker = breaker
        self._is_over = False

    @property
    def may_be_tried_again(self) -> bool:
        """Return True if the request may be retried: the server does not fail, and this is no probe."""
        return not self._breaker.is_open

    def answered(self) -> None:
        """Count an answer, be it a refusal of this request."""
        if not self._is_over:
            self._is_over = True
            self._breaker._close()

    def failed(self, fault: ModelError) -> None:
        """Count a failure: the server did not answer, or said that it is broken."""
        if not self._is_over:
            self._is_over = True
            self._breaker._count(self, fault)

    def end(self) -> None:
        """End the request; if neither answer nor failure was counted, it was given up, and nothing counts."""
        self._is_over = True
        self._breaker._release(self)


class Breaker:
    """The circuit breaker of one server.

    Args:
        place: the server, for people.
        clock: seconds, monotonic.
        policy: when it opens, and for how long.
        opened: is told the place when the breaker opens by failures in this process.
    """

    def __init__(
        self,
        place: str,
        clock: Clock = time.monotonic,
        policy: BreakerPolicy | None = None,
        opened: Callable[[str], None] = lambda place: None,
    ) -> None:
        self._place = place
        self._opened = opened
        self._clock = clock
        self._policy = policy or BreakerPolicy()
        self._failures = 0  # in a row
        # Of these failures: when the first was, and the text of the last. Both are for the error text.
        self._failing_since = 0.0
        self._last_fault = ""
        # Length of the present pause, and when it ends; 0: the breaker is closed.
        self._pause = 0.0
        self._open_until = 0.0
        self._probe: Permit | None = None  # the request that finds out whether the server is back
        self._suspect_until = -math.inf  # until then the first failure opens the breaker
        self._left_alone: dict[str, float] = {}  # until when, by model; see `leave_alone`

    @property
    def is_open(self) -> bool:
        """Return whether the server is known to fail: nobody but a probe may ask it."""
        return self._pause > 0

    @property
    def refuses(self) -> bool:
        """Return True if a request would be refused now. After a pause one is let through, as a probe."""
        return self._probe is not None or (self.is_open and self._clock() < self._open_until)

    @contextmanager
    def asking(self) -> Iterator[Permit]:
        """Make a request within this block: call `answered` or `failed`, unless it is given up.

        Raises:
            ModelError: the breaker is open.
        """
        if self.refuses:
            raise self._refusal()
        asking = Permit(self)
        if self.is_open:
            self._probe = asking
        try:
            yield asking
        finally:
            asking.end()

    def suspect(self) -> None:
        """Open at the next failure, if that comes soon: the server fails another process."""
        self._suspect_until = self._clock() + self._policy.cap

    def leave_alone(self, model: str, seconds: float) -> None:
        """Let requests for a model wait, as the server asked. That is no failure."""
        self._left_alone[model] = self._clock() + min(seconds, _LONGEST_PAUSE)

    def seconds_to_wait(self, model: str) -> float:
        """Return for how long requests for a model are still to wait."""
        return max(0.0, self._left_alone.get(model, -math.inf) - self._clock())

    def _close(self) -> None:
        self._failures = 0
        self._pause = 0.0
        self._probe = None
        self._suspect_until = -math.inf

    def _count(self, asking: Permit, fault: ModelError) -> None:
        is_probe = asking is self._probe
        if self.is_open and not is_probe:
            return  # the request was made before the breaker opened, and tells nothing new
        if not self._failures:
            self._failing_since = self._clock()
        self._failures += 1
        self._last_fault = str(fault)
        if is_probe:
            self._open(min(self._pause * 2, self._policy.cap))
        elif self._failures >= self._policy.failures:
            self._open(self._policy.pause)
            self._opened(self._place)
        elif self._clock() < self._suspect_until:
            self._open(self._policy.pause)

    def _open(self, pause: float) -> None:
        self._pause = pause
        self._open_until = self._clock() + pause
        self._probe = None

    def _release(self, asking: Permit) -> None:
        if asking is self._probe:
            self._probe = None

    def _refusal(self) -> ModelError:
        now = self._clock()
        since = f"{self._place} has not answered for {now - self._failing_since:.0f} s"
        if self._probe is not None:
            return ModelError(f"{since}; it is being asked again just now. Last time: {self._last_fault}")
        left = self._open_until - now
        again = f"it is asked again in {math.ceil(left)} s"
        return ModelError(f"{since}; {again}. Last time: {self._last_fault}", retry_after=left)


class Breakers:
    """The breakers of all servers that a program asks. One instance is handed to all that ask servers.

    Args:
        clock: seconds, monotonic.
        policy: of each breaker.

    Attributes:
        opened: is told the place of each server that begins to fail, by host and port.
    """

    def __init__(self, clock: Clock = time.monotonic, policy: BreakerPolicy | None = None) -> None:
        self._clock = clock
        self._policy = policy or BreakerPolicy()
        self._breakers: dict[str, Breaker] = {}
        self.opened: Callable[[str], None] = lambda place: None

    @property
    def open(self) -> dict[str, bool]:
        """Tell of each server that was asked, by host and port, whether its breaker is open."""
        return {place: breaker.is_open for place, breaker in self._breakers.items()}

    def of(self, place: str) -> Breaker:
        """Return the breaker of a server, by host and port."""
        if place not in self._breakers:
            self._breakers[place] = Breaker(place, self._clock, self._policy, self._tell_opened)
        return self._breakers[place]

    def _tell_opened(self, place: str) -> None:
        self.opened(place)  # which may have been set after the breaker was made

    def suspect(self, place: str) -> None:
        """Take note that a server fails another process; nothing happens if it was not asked here."""
        if place in self._breakers:
            self._breakers[place].suspect()
