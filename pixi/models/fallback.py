"""Several models as one: where the first cannot answer, the next is asked, before anybody saw a word."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from msgspec import structs

from pixi.core.deltas import Delta, Finished, PromptProgress, Request
from pixi.core.errors import ModelError
from pixi.models.breaker import Clock
from pixi.models.faults import Refusal
from pixi.models.fitting import fitted
from pixi.models.model import Model, Traits

_log = logging.getLogger("pixi.models")

_REST_SECONDS = 10.0  # after a request in vain; doubled after each that follows
_LONGEST_REST = 120.0


def _nobody(_: str) -> None: ...


@dataclass(slots=True)
class _Member:
    """A model of the list. While it rests the others are asked before it."""

    model: Model
    failures: int = 0  # in a row
    rests_until: float = 0.0

    def ask(self, now: float) -> None:
        """It is asked now: one that failed last time by one request only, until that is answered."""
        if self.failures:
            self.rests_until = now + min(_REST_SECONDS * 2.0 ** (self.failures - 1), _LONGEST_REST)

    def fail(self, now: float) -> None:
        self.failures += 1
        self.ask(now)

    def answer(self) -> None:
        self.failures = 0
        self.rests_until = 0.0


class FallbackModel:
    """A list of models behind the protocol of one.

    It is called and described as its first model: a prompt is written for that one. Each of the others
    renders the same request in its own way, and one that holds less is given less of it. Who really wrote a
    reply stands in its `Finished`, with the prices, unless it was the first.

    Args:
        models: in the order in which they are asked; at least one.
        context_tokens: what a prompt may count on, prompt and reply together.
        seconds: how long one request may take, however many are asked; the time in which one reads a long
            prompt is not counted.
        clock: seconds, monotonic, for the rests of those that failed.
        told: who is told, beside the log, when another answers than before.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        context_tokens: int,
        seconds: float,
        clock: Clock = time.monotonic,
        told: Callable[[str], None] = _nobody,
    ) -> None:
        self._members = [_Member(model) for model in models]
        self._context_tokens = context_tokens
        self._seconds = seconds
        self._clock = clock
        self._told = told
        self._speaker = self._members[0]  # who answered last

    @property
    def first(self) -> Model:
        """The one that is asked before all others."""
        return self._members[0].model

    @property
    def name(self) -> str:
        """The name of the first."""
        return self.first.name

    @property
    def traits(self) -> Traits:
        """What the prompt must know: the traits of the first by now, and a context that the others share."""
        return replace(self.first.traits, context_tokens=self._context_tokens)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask one after the other until one answers, and yield its reply; the last delta is `Finished`.

        Raises:
            ModelError: none of them could answer, or one broke off after its first words.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        faults: list[ModelError] = []
        waiting = list(self._members)
        while waiting and (not faults or loop.time() < ends):
            member = _next_of(waiting, self._clock())
            waiting.remove(member)
            member.ask(self._clock())
            yielded = False
            asked_at, reads = loop.time(), member.model.traits.reads_long
            try:
                async with aclosing(self._ask(member.model, request, ends)) as deltas:
                    async for delta in deltas:
                        if type(delta) is PromptProgress:
                            reads = True
                        elif not yielded:
                            yielded = True
                            self._hear(member, faults)
                        yield delta
                return
            except ModelError as fault:
                if yielded:
                    raise
                if reads:
                    ends += loop.time() - asked_at
                if not (isinstance(fault, Refusal) and fault.is_about_request):
                    member.fail(self._clock())
                faults.append(fault)
        raise _none_answers(faults)

    async def close(self) -> None:
        """Close all of them. Calling it twice does no harm."""
        for member in self._members:
            await member.model.close()

    async def _ask(self, model: Model, request: Request, ends: float) -> AsyncGenerator[Delta, None]:
        """What one of them answers, within the time that is left."""
        if model.traits.context_tokens < self._context_tokens:
            request = fitted(request, model.traits.context_tokens)
        loop = asyncio.get_running_loop()
        asked_at, reads = loop.time(), model.traits.reads_long
        async with aclosing(model.stream(request)) as deltas:
            while True:
                try:
                    async with asyncio.timeout_at(None if reads else ends):
                        delta = await anext(deltas, None)
                except TimeoutError:
                    raise ModelError(f"{model.name} was not done within {self._seconds:g} s.") from None
                if delta is None:
                    return
                if type(delta) is PromptProgress:
                    reads = True
                elif reads:
                    reads = False
                    ends += loop.time() - asked_at
                if isinstance(delta, Finished) and model is not self.first:
                    delta = structs.replace(
                        delta,
                        model=delta.model or model.name,
                        prices=delta.prices or model.traits.prices,
                    )
                yield delta

    def _hear(self, member: _Member, faults: Sequence[ModelError]) -> None:
        """One of them answers; told where it is another than before."""
        member.answer()
        if member is self._speaker:
            return
        self._speaker = member
        if member.model is self.first:
            line = f"{self.name} answers again"
            _log.info("%s", line)
        else:
            why = "; ".join(map(str, faults)) or f"{self.name} is given a rest"
            line = f"{member.model.name} answers instead of {self.name}: {why}"
            _log.warning("%s", line)
        self._told(line)


def _next_of(members: Sequence[_Member], now: float) -> _Member:
    """The first that does not rest; where all do, the first."""
    return next((member for member in members if member.rests_until <= now), members[0])


def _none_answers(faults: Sequence[ModelError]) -> ModelError:
    """One error of many."""
    told = dict.fromkeys(map(str, faults))  # of two at one server both often say the same
    waits = [fault.retry_after for fault in faults]
    return ModelError(
        " ".join(told) if len(told) == 1 else f"No model could answer. {' '.join(told)}",
        permanent=all(fault.permanent for fault in faults),
        retry_after=min((wait for wait in waits if wait is not None), default=None),
    )
