"""A clock that stands until everything waits for it: a minute of waiting passes at once, and exactly."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from selectors import BaseSelector
from typing import ParamSpec, TypeVar

import pytest

from pixi.store.writer import Writer
from tests.waiting import LIMIT

P = ParamSpec("P")
T = TypeVar("T")


class HeldClock:
    """The time of `time.monotonic()` and of the event loop, in seconds.

    It moves when nothing else can happen, and then to the next timer of the loop: so `asyncio.sleep(20)`
    takes no time, and exactly 20 s by this clock. While a thread of the store or of the loop works, it
    stands. Sockets and processes do not go with it: what comes from there is not waited for.
    """

    def __init__(self) -> None:
        self._now = 1_000.0
        self._under_way = 0  # calls to threads

    def time(self) -> float:
        """Return the seconds of now."""
        return self._now

    def select_with(self, selector: BaseSelector) -> Callable[[float | None], list[object]]:
        """Return a `select` for the event loop that moves the clock in place of waiting for a timer."""
        select = selector.select

        def jump(timeout: float | None) -> list[object]:
            if not timeout or self._under_way:
                return list(select(LIMIT if timeout else timeout))
            if not (ready := select(0)):
                self._now += timeout
            return list(ready)

        return jump

    def of_coroutine(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Return the function, in which the clock stands until its call is over."""

        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            self._under_way += 1
            try:
                return await function(*args, **kwargs)
            finally:
                self._under_way -= 1

        return call

    def of_future(self, function: Callable[P, "asyncio.Future[T]"]) -> Callable[P, "asyncio.Future[T]"]:
        """Return the function, in which the clock stands until its future is done.

        It does not stand for what the store may record later.
        """

        def ended(_: object) -> None:
            self._under_way -= 1

        def call(*args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
            future = function(*args, **kwargs)
            if not kwargs.get("later"):
                self._under_way += 1
                future.add_done_callback(ended)
            return future

        return call


def hold(patch: pytest.MonkeyPatch) -> HeldClock:
    """Hold the clock of the running event loop, until the patch is undone."""
    held = HeldClock()
    loop = asyncio.get_running_loop()
    selector: BaseSelector = loop._selector  # type: ignore[attr-defined]
    for name in ("open", "close"):
        patch.setattr(Writer, name, held.of_coroutine(getattr(Writer, name)))
    patch.setattr(Writer, "ask", held.of_future(Writer.ask))
    patch.setattr(loop, "run_in_executor", held.of_future(loop.run_in_executor))
    patch.setattr(selector, "select", held.select_with(selector))
    patch.setattr(time, "monotonic", held.time)
    return held


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HeldClock]:
    """Hold the clock for a test whose all is in the event loop, but for the store."""
    with monkeypatch.context() as patch:
        yield hold(patch)
