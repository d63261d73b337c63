"""Wait for what a test expects. One limit for the whole suite: only a failure ever waits so long."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, overload

T = TypeVar("T")

LIMIT = 60.0
"""Seconds. Many times what anything takes on a slow, busy machine: no test judges speed by it."""

_PAUSE = 0.005


@overload
async def until(holds: Callable[[], Awaitable[T]], what: str = "") -> T: ...
@overload
async def until(holds: Callable[[], T], what: str = "") -> T: ...
async def until(holds: Callable[[], T | Awaitable[T]], what: str = "") -> T:
    """Ask `holds` again and again; return its first true value.

    Args:
        holds: a plain or an async function.
        what: told when the value does not come; by default the name of `holds`.

    Raises:
        AssertionError: nothing true came within `LIMIT`.
    """
    async with within(what or getattr(holds, "__qualname__", repr(holds))):
        while True:
            found = holds()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return found
            await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def within(what: str) -> AsyncIterator[None]:
    """Run the block; if it takes longer than `LIMIT`, fail and name `what` did not come.

    Raises:
        AssertionError: in place of the TimeoutError.
    """
    limit = asyncio.timeout(LIMIT)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise AssertionError(f"did not come within {LIMIT:.0f} s: {what}") from error


def put_forward(seconds: float) -> None:
    """Put the running loop's clock forward: what is due by then is due at the loop's next turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
