"""Asks a server until it answers: under its breaker, as often as is worth it, while nothing was seen."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from pixi.core.deltas import Delta, PromptProgress
from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.breaker import Asking, Breaker
from pixi.models.deadlines import FirstWait
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
        retries: how often to ask, while nothing was yielded.
    """

    def __init__(self, server: Server, breaker: Breaker, retries: Retries) -> None:
        self._server = server
        self._breaker = breaker
        self._retries = retries

    async def stream(
        self,
        ask: Callable[[FirstWait], Awaitable[Answer]],
        learn: Callable[[ModelError], bool],
        wait: FirstWait,
    ) -> AsyncGenerator[Delta, None]:
        """Ask, and yield the reply as it is written; the last delta is `Finished`.

        Signs that the prompt is read are yielded too, and are none of the reply: it may be asked for again
        after them.

        Args:
            ask: makes one request.
            learn: called with each error; returns True to ask again at once with a changed request, without
                using up an attempt.
            wait: for the first content, all attempts together; it began when the request was made.

        Raises:
            ModelError: the server could not be asked, refused, failed, or let a deadline pass.
        """
        attempt = 1
        with self._breaker.asking() as asking:
            while True:
                await self._wait_as_asked(wait)
                answer: Answer | None = None
                yielded = False
                wait.begin()
                try:
                    answer = await ask(wait)
                    while deltas := await answer.read():
                        if not yielded:
                            asking.answered()
                            if type(deltas[-1]) is not PromptProgress:  # it never follows content
                                yielded = True
                                wait.answered()
                        for delta in deltas:
                            yield delta
                    await answer.drain()
                    return
                except ModelError as fault:
                    if yielded:
                        raise
                    if learn(fault):
                        continue
                    if faults.is_overdue(fault) and asking.may_be_tried_again and wait.goes_on():
                        continue
                    pause = self._pause_after(fault, attempt, wait, asking)
                    if pause is None:
                        raise
                finally:
                    if answer is not None:
                        answer.close()
                await self._retries.sleep(pause)
                attempt += 1

    async def _wait_as_asked(self, wait: FirstWait) -> None:
        """Leave the server alone for as long as it asked for, whomever it told.

        Raises:
            ModelError: that is longer than anybody waits.
        """
        pause = self._breaker.seconds_to_wait(self._server.model)
        if not pause:
            return
        if pause >= wait.left or pause > self._retries.wait:
            raise faults.asked_to_wait(self._server, pause)
        await self._retries.sleep(pause)

    def _pause_after(self, fault: ModelError, attempt: int, wait: FirstWait, asking: Asking) -> float | None:
        """Seconds to wait before the next attempt; None where there is to be none."""
        if fault.retry_after is not None:
            self._breaker.leave_alone(self._server.model, fault.retry_after)
        if asking.may_be_tried_again:
            pause = self._retries.pause_after(fault, attempt, wait.left)
            if pause is not None:
                return pause
        if faults.is_the_servers(fault):
            asking.failed(fault)
        else:
            asking.answered()
        return None
