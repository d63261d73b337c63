"""Tell which row of a table, or which seed, a test was at when it failed.

A row that is an item of pytest's costs each process of a run half a millisecond to collect, and some more to
run: tables of many short rows are loops within one test.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NIGHTLY_SEEDS = "nightly-seeds-"
"""The ids of items that try seeds at length begin so: each is for whichever process has nothing to do."""

_SEEDS_OF_AN_ITEM = 50


@contextmanager
def row(name: object) -> Iterator[None]:
    """Add a note to what fails in the block: the row's name."""
    try:
        yield
    except BaseException as error:  # what pytest raises is no Exception
        error.add_note(f"at {name!r}")
        raise


def seeds(quick: int, end: int) -> list[Any]:
    """Return ranges of seeds for `parametrize`: the first, `quick` of them, and nightly ones up to `end`."""
    starts = range(quick, end, _SEEDS_OF_AN_ITEM)
    parts = [range(start, min(start + _SEEDS_OF_AN_ITEM, end)) for start in starts]
    nightly = [
        pytest.param(part, marks=pytest.mark.nightly, id=f"{NIGHTLY_SEEDS}{part.start}") for part in parts
    ]
    return [range(quick), *nightly]
