"""Count the work that code does, in place of timing it: the count is the same on every machine."""

import asyncio
import sys
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from _typeshed import TraceFunction


class TooManySteps(BaseException):
    """The work went beyond its limit. No `except Exception` on the way holds it up."""


def steps_of(
    work: Callable[[], object], *, most: float = inf, in_lines: bool = False, in_texts: bool = False
) -> int:
    """Run `work`; return its steps. A step is a call of a function, ours or a built-in.

    Loops within a library written in C are not seen, only the calls of it. Other threads do not count.

    Args:
        work: what is run. What it does once only, such as filling a cache, belongs before.
        most: the limit, so that work without end comes to one.
        in_lines: each line of Python that is run is a step too, so that a loop without calls counts.
        in_texts: count a method of a text once more for each of its characters, as if it looked at all of
            them: to search a growing buffer again and again then shows.

    Raises:
        TooManySteps: there were more than `most`.
    """
    steps = 0

    def called(_: FrameType, event: str, function: object) -> None:
        nonlocal steps
        if event in ("call", "c_call"):
            steps += 1
            if in_texts and isinstance(of := getattr(function, "__self__", None), str | bytes | bytearray):
                steps += len(of)
            if steps > most:
                raise TooManySteps(steps)

    def ran(_: FrameType, event: str, __: object) -> "TraceFunction":
        nonlocal steps
        steps += event == "line"
        return ran

    profile, trace = sys.getprofile(), sys.gettrace()
    sys.setprofile(called)
    if in_lines:
        sys.settrace(ran)
    try:
        work()
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)
    return steps


class Calls:
    """Counts the calls of functions between two turns of the loop; `most` is the highest count.

    `pause` is how many seconds pass between two turns that it looks at, at least.
    """

    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause
        self.most = self.turns = self._now = 0

    def __enter__(self) -> Self:
        self._ticking = asyncio.create_task(self._tick())
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._ticking.cancel()

    async def _tick(self) -> None:
        while True:
            self.most, self._now = max(self.most, self._now), 0
            self.turns += 1
            await asyncio.sleep(self._pause)

    def _count(self, _: FrameType, event: str, __: object) -> None:
        self._now += event in ("call", "c_call")


def assert_linear(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Fail if four times the size takes more than some six times the steps.

    Args:
        make: returns the work for a size, ready to be run.
        size: the smaller of the two.
    """
    steps_of(make(size // 4))  # fills the caches
    few, many = (steps_of(make(one), in_lines=True) for one in (size, 4 * size))
    assert many < 6 * few + 1_000, f"{few:,} steps for {size:,}, {many:,} for {4 * size:,}"


def grows_in_proportion(work: Callable[[str], object], text: str) -> bool:
    """Return True if a text costs no more than five times the steps of its ends, which are a quarter of it.

    A regular expression is one step however long it takes: a text has to be so long that the test would not
    end where one takes the square of its length.
    """
    work(text)  # what is made once for all texts is made now
    end = len(text) // 8
    return steps_of(lambda: work(text)) <= 5 * steps_of(lambda: work(text[:end] + text[-end:])) + 100
