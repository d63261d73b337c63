"""Functions that others wrote: run within a time, and their errors told as theirs."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from traceback import extract_tb
from types import TracebackType
from typing import Any, TypeVar

from pixi.core.errors import PixiError

_log = logging.getLogger("pixi.addons")


class ForeignError(PixiError):
    """A command, a tool or an addon raised what it should not have.

    The text names the function and the type of what it raised, never that one's own text: an exception's
    text may hold a key or a path, and this one's is read by models and by strangers.
    """


class foreign:
    """Run a third-party function inside; `what` names it for people, e.g. `command 'wave'`.

    Pixi's own errors, which such a function raises on purpose, pass through. One can be entered again and
    again.

    Raises:
        ForeignError: anything else was raised.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One function's `exit()` must not end everybody's talk.
        if not isinstance(error, Exception | SystemExit) or isinstance(error, PixiError):
            return
        place = extract_tb(error.__traceback__)[-1]
        _log.error("%s raised %s (%s:%s)", self._what, type(error).__name__, place.filename, place.lineno)
        _log.debug("%s", self._what, exc_info=error)
        raise ForeignError(f"{self._what} failed with {type(error).__name__}.") from error


_overdue_log = logging.getLogger("pixi.engine")

GRACE_SECONDS = 0.5  # for a task that was told to end

_T = TypeVar("_T")


async def within(
    seconds: float,
    work: Coroutine[Any, Any, _T],
    what: str,
    *,
    spared: Callable[[], float] = lambda: 0.0,
) -> _T:
    """Run work in a task of its own, no longer than some seconds, and return what it returns.

    Args:
        seconds: that it may take.
        work: is cancelled where it takes longer.
        what: names the work for the log.
        spared: gives the seconds by now that are not to be counted.

    Raises:
        TimeoutError: it took longer.
        ForeignError: it cancelled itself, which nobody asked of it.
    """
    task = asyncio.ensure_future(work)
    clock = asyncio.get_running_loop()
    began = clock.time()
    try:
        while not task.done() and (left := began + seconds + spared() - clock.time()) > 0:
            await asyncio.wait([task], timeout=left)
    except asyncio.CancelledError:
        await give_up(task, what)
        raise
    if not task.done():
        await give_up(task, what)
        raise TimeoutError
    if task.cancelled():
        _overdue_log.error("%s cancelled itself", what)
        raise ForeignError(f"{what} failed with CancelledError.")
    return task.result()


async def give_up(task: asyncio.Task[Any], what: str, *, graces: int = 1) -> None:
    """Cancel a task. One that does not end within `graces` times `GRACE_SECONDS` is left to itself."""
    task.add_done_callback(look_at)
    task.cancel()
    await asyncio.wait([task], timeout=graces * GRACE_SECONDS)
    if not task.done():
        _overdue_log.warning("%s does not end; it is left to itself", what)


def look_at(task: asyncio.Future[Any]) -> None:
    """Look at the error of a task, or asyncio would complain that nobody did."""
    if not task.cancelled():
        task.exception()
