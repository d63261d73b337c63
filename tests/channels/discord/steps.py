"""Counts what a function does, which no clock can tell on a busy machine."""

import sys
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Return how many functions are called while `work` runs, those written in C included."""
    count = 0

    def calls(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(calls)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def grows_in_proportion(work: Callable[[str], object], text: str) -> bool:
    """Return True if a text costs no more than five times the steps of its ends, which are a quarter of it.

    A regular expression is one step however long it takes: a text has to be so long that the test would not
    end where one takes the square of its length.
    """
    work(text)  # what is made once for all texts is made now
    end = len(text) // 8
    return steps(lambda: work(text)) <= 5 * steps(lambda: work(text[:end] + text[-end:])) + 100
