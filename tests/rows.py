"""Tell which row of a table, or which seed, a test was at when it failed.

A row that is an item of pytest's costs each process of a run half a millisecond to collect, and some more to
run: tables of many short rows are loops within one test.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def row(name: object) -> Iterator[None]:
    """Add a note to what fails in the block: the row's name."""
    try:
        yield
    except BaseException as error:  # what pytest raises is no Exception
        error.add_note(f"at {name!r}")
        raise
