"""Count the work that code does, in place of timing it: the count is the same on every machine."""

import sys
from collections.abc import Callable
from math import inf
from types import FrameType


class TooManySteps(BaseException):
    """The work went beyond its limit. No `except Exception` on the way holds it up."""


def steps_of(work: Callable[[], object], *, most: float = inf, in_texts: bool = False) -> int:
    """Run `work`; return its steps. A step is a call of a function, ours or a built-in.

    Args:
        work: what is run. What it does once only, such as filling a cache, belongs before.
        most: the limit, so that work without end comes to one.
        in_texts: count a method of a text once more for each of its characters, as if it looked at all of
            them: to search a growing buffer again and again then shows.

    Raises:
        TooManySteps: there were more than `most`.
    """
    steps = 0

    def count(_: FrameType, event: str, called: object) -> None:
        nonlocal steps
        if event in ("call", "c_call"):
            steps += 1
            if in_texts and isinstance(of := getattr(called, "__self__", None), str | bytes | bytearray):
                steps += len(of)
            if steps > most:
                raise TooManySteps(steps)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return steps
