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
    """Return True if a text costs at most four times the steps of its first quarter, and a few.

    A regular expression is one step however long it takes; there the length of the text must be such that a
    test which takes its square would not end.
    """
    work(text)  # what is made once for all texts is made now
    return steps(lambda: work(text)) <= 4 * steps(lambda: work(text[: len(text) // 4])) + 100
