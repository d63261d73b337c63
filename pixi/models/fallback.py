"""Several models as one: where the first cannot answer, the next is asked, before anybody saw a word."""

import asyncio
import logging
import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.errors import ModelError, Reporter, silent
from pixi.core.llm import (
    Delta,
    Finished,
    PromptProgress,
    Request,
    SystemLine,
    UserLine,
    estimate,
    estimate_all,
    estimate_tools,
    shortened,
)
from pixi.models.breaker import Clock
from pixi.models.faults import Refusal
from pixi.models.model import Model, PushedModel, Take, Traits, push

_SPARE = 0.25  # of the context, for the reply
_SHORTEST = 64  # tokens that are left of a user line, fit or not
_log = logging.getLogger("pixi.models")
_REST_SECONDS = 10.0  # after a request in vain; doubled after each that follows
_LONGEST_REST = 120.0


def fitted(request: Request, context_tokens: int) -> Request:
    """Return a request that fits a context, by estimate: the oldest turns are left out, as many as it takes.

    The system lines stay, and so does the last turn; where its user line is too long by itself, the middle of
    that is left out.
    """
    room = int(context_tokens * (1 - _SPARE)) - estimate_tools(request.tools)
    lines = request.lines
    start = next((at for at, line in enumerate(lines) if not isinstance(line, SystemLine)), len(lines))
    prefix, turns = lines[:start], lines[start:]
    room -= estimate_all(prefix)
    size = estimate_all(turns)
    cut = 0  # the turns from here on are kept
    for at, line in enumerate(turns):
        if size <= room:
            break
        if at and isinstance(line, UserLine):  # a turn begins
            size -= estimate_all(turns[cut:at])
            cut = at
    turns = turns[cut:]
    if turns and size > room and isinstance(turns[0], UserLine):
        said = turns[0]
        left = max(room - (size - estimate(said)), _SHORTEST)
        turns = (shortened(said, left), *turns[1:])
    return replace(request, lines=(*prefix, *turns))


class _Member(Struct):
    """A model of the list. One that failed rests: the others are asked before it.

    Attributes:
        failures: in a row.
        rests_until: on the clock of `FallbackModel`.
    """

    model: Model
    failures: int = 0
    rests_until: float = 0.0

    def asked(self, now: float) -> None:
        """Take note of a request. A model that failed rests meanwhile: one request tries it, not all."""
        if self.failures:
            self.rests_until = now + min(_REST_SECONDS * 2.0 ** (self.failures - 1), _LONGEST_REST)

    def failed(self, now: float) -> None:
        """Take note of a request in vain: the rest begins, longer than the last."""
        self.failures += 1
        self.asked(now)

    def answered(self) -> None:
        """Take note of an answer."""
        self.failures = 0
        self.rests_until = 0.0


class FallbackModel(PushedModel):
    """A list of models behind the protocol of one.

    It is called and described as its first model: a prompt is written for that one. Each of the others
    renders the same request in its own way, and one that holds less is given less of it. Who really wrote a
    reply stands in its `Finished`, with the prices, unless it was the first.

    Args:
        models: in the order in which they are asked; at least one.
        context_tokens: what a prompt may count on, prompt and reply together.
        seconds: how long one request may take, however many are asked; the time in which one reads a long
            prompt is not counted.
        clock: seconds, monotonic, for the rests of models that failed.
        told: called, beside the log, when another model answers than before.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        context_tokens: int,
        seconds: float,
        clock: Clock = time.monotonic,
        told: Reporter = silent,
    ) -> None:
        self._members = [_Member(model) for model in models]
        self._context_tokens = context_tokens
        self._seconds = seconds
        self._clock = clock
        self._told = told
        self._last_speaker = self._members[0]  # the one that answered last

    @property
    def first(self) -> Model:
        """The model that is asked before all others."""
        return self._members[0].model

    @property
    def name(self) -> str:
        """The name of the first."""
        return self.first.name

    @property
    def traits(self) -> Traits:
        """Return the traits of the first by now, with a context that the others share."""
        return replace(self.first.traits, context_tokens=self._context_tokens)

    async def push(self, request: Request, take: Take) -> None:
        """Ask one after the other until one answers, and hand on its reply; see `PushedModel.push`.

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
            member.asked(self._clock())
            attempt = _Attempt(member.model, ends)

            def heard(delta: Delta, member: _Member = member, attempt: _Attempt = attempt) -> bool:
                if type(delta) is PromptProgress:
                    attempt.reads_on()
                elif not attempt.is_answered:
                    attempt.answered()
                    self._answered(member, faults)
                if isinstance(delta, Finished) and member.model is not self.first:
                    delta = _signed(delta, member.model)
                return take(delta)

            try:
                await self._ask(member.model, request, attempt, heard)
                return
            except ModelError as fault:
                if attempt.is_answered:
                    raise
                if attempt.reads:  # the time in which it read is given back
                    ends = loop.time() + attempt.left
                if not (isinstance(fault, Refusal) and fault.is_about_request):
                    member.failed(self._clock())
                faults.append(fault)
        raise _none_answers(faults)

    async def close(self) -> None:
        """Close all of them. Calling it twice does no harm."""
        for member in self._members:
            await member.model.close()

    async def _ask(self, model: Model, request: Request, attempt: "_Attempt", take: Take) -> None:
        """Ask one of the models, within the time that is left."""
        if model.traits.context_tokens < self._context_tokens:
            request = fitted(request, model.traits.context_tokens)
        try:
            async with attempt.timeout:
                await push(model, request, take)
        except TimeoutError:
            raise ModelError(f"{model.name} was not done within {self._seconds:g} s.") from None

    def _answered(self, member: _Member, faults: Sequence[ModelError]) -> None:
        """Take note of the model that answers; tell of it where it is another than before."""
        member.answered()
        if member is self._last_speaker:
            return
        self._last_speaker = member
        if member.model is self.first:
            line = f"{self.name} answers again"
            _log.info("%s", line)
        else:
            why = "; ".join(map(str, faults)) or f"{self.name} is given a rest"
            line = f"{member.model.name} answers instead of {self.name}: {why}"
            _log.warning("%s", line)
        self._told(line)


class _Attempt:
    """A request to one of the models. While that reads a long prompt the time does not run.

    Attributes:
        left: seconds that it has, reading apart.
        reads: it reads the prompt, and the time stands still.
        is_answered: something of its reply came.
        timeout: ends the request when its time is over.
    """

    def __init__(self, model: Model, ends: float) -> None:
        self.left = ends - asyncio.get_running_loop().time()
        self.reads = model.traits.reads_long
        self.is_answered = False
        self.timeout = asyncio.timeout_at(None if self.reads else ends)

    def reads_on(self) -> None:
        """Stop the time: the model told how far it has read."""
        self.reads = True
        self._end_at(None)

    def answered(self) -> None:
        """Let the time run: the first of the reply came."""
        self.is_answered = True
        if self.reads:
            self.reads = False
            self._end_at(asyncio.get_running_loop().time() + self.left)

    def _end_at(self, when: float | None) -> None:
        if not self.timeout.expired():
            self.timeout.reschedule(when)


def _signed(finished: Finished, model: Model) -> Finished:
    """Return the end of a reply with the model that wrote it, and its prices."""
    return Finished(
        finished.reason, finished.usage, finished.model or model.name, finished.prices or model.traits.prices
    )


def _next_of(members: Sequence[_Member], now: float) -> _Member:
    """Return the first that does not rest; where all do, the first."""
    for member in members:
        if member.rests_until <= now:
            return member
    return members[0]


def _none_answers(faults: Sequence[ModelError]) -> ModelError:
    """Return one error for the errors of all models."""
    told = dict.fromkeys(map(str, faults))  # of two at one server both often say the same
    waits = [fault.retry_after for fault in faults]
    return ModelError(
        " ".join(told) if len(told) == 1 else f"No model could answer. {' '.join(told)}",
        permanent=all(fault.permanent for fault in faults),
        retry_after=min((wait for wait in waits if wait is not None), default=None),
    )
