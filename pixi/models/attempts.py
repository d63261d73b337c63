"""Asks a server until it answers: under its breaker, as often as is worth it, while nothing was seen."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from pixi.core.deltas import Delta
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.breaker import Asking, Breaker
from pixi.models.deadlines import Deadlines
from pixi.models.faults import Retries, Server


class Answer(Protocol):
    """A reply under way."""

    async def read(self) -> list[Delta]:
        """Wait for the next deltas, at least one; none: the reply is over, and `Finished` was given.

        Raises:
            ModelError: the server failed, broke off, or let a deadline pass.
        """
        ...

    async def drain(self) -> None:
        """Read what comes after the end, so that the connection can serve again."""
        ...

    def close(self) -> None:
        """Give it up, unless it was read to its end."""
        ...


class Attempts:
    """How a server is asked.

    Args:
        server: which, and for which model.
        breaker: of that server.
        deadlines: how long to wait for content.
        retries: how often to ask, while nothing was yielded.
    """

    def __init__(self, server: Server, breaker: Breaker, deadlines: Deadlines, retries: Retries) -> None:
        self._server = server
        self._breaker = breaker
        self._deadlines = deadlines
        self._retries = retries

    async def stream(
        self, ask: Callable[[float], Awaitable[Answer]], learn: Callable[[ModelError], bool]
    ) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written; the last delta is `Finished`.

        Args:
            ask: makes one request; it is given the loop's time at which the first was wanted.
            learn: told of a request in vain; true: the next one is another, and no attempt is lost.

        Raises:
            ModelError: the server could not be asked, refused, failed, or let a deadline pass.
        """
        asked_at = asyncio.get_running_loop().time()
        attempt = 1
        with self._breaker.asking() as asking:
            while True:
                await self._wait_as_asked(asked_at)
                answer: Answer | None = None
                yielded = False
                try:
                    answer = await ask(asked_at)
                    while deltas := await answer.read():
                        if not yielded:
                            yielded = True
                            asking.answered()
                        for delta in deltas:
                            yield delta
                    await answer.drain()
                    return
                except ModelError as fault:
                    if yielded:
                        raise
                    if learn(fault):
                        continue
                    pause = self._pause_after(fault, attempt, asked_at, asking)
                    if pause is None:
                        raise
                finally:
                    if answer is not None:
                        answer.close()
                await self._retries.sleep(pause)
                attempt += 1

    async def _wait_as_asked(self, asked_at: float) -> None:
        """Leave the server alone for as long as it asked for, whomever it told.

        Raises:
            ModelError: that is longer than anybody waits.
        """
        pause = self._breaker.seconds_to_wait(self._server.model)
        if not pause:
            return
        if pause >= self._left(asked_at) or pause > self._retries.wait:
            raise faults.asked_to_wait(self._server, pause)
        await self._retries.sleep(pause)

    def _pause_after(self, fault: ModelError, attempt: int, asked_at: float, asking: Asking) -> float | None:
        """Seconds to wait before the next attempt; None where there is to be none."""
        if fault.retry_after is not None:
            self._breaker.leave_alone(self._server.model, fault.retry_after)
        if asking.may_be_tried_again:
            pause = self._retries.pause_after(fault, attempt, self._left(asked_at))
            if pause is not None:
                return pause
        if faults.is_the_servers(fault):
            asking.failed(fault)
        else:
            asking.answered()
        return None

    def _left(self, asked_at: float) -> float:
        """Seconds until the first content is overdue."""
        return asked_at + self._deadlines.first - asyncio.get_running_loop().time()
