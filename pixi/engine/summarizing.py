"""The summarizer: has the helper model fold what falls out of windows into what a persona remembers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from pixi.core.deltas import Finished, Request, Text, Usage
from pixi.core.errors import ModelError, PixiError
from pixi.core.lines import SystemLine, UserLine
from pixi.core.prompt import fill
from pixi.core.spending import Count
from pixi.core.strangers import one_line
from pixi.core.summary import as_summary, portions, question, told
from pixi.core.tokens import estimate_all, estimate_text
from pixi.engine.templates import summary_template
from pixi.models.model import Model
from pixi.store.kept import Fold
from pixi.toolbox.foreign import foreign

_log = logging.getLogger("pixi.engine")

Helper = Callable[[], Awaitable[Model]]
"""Gives the helper model, opened when it is first asked for. It stays its builder's to close."""

_SECONDS = 120.0  # for one summary, all that is asked for it together
_REST_SECONDS = 300.0  # after the helper failed: a talk goes on without, and it is not asked at each turn
_AT_ONCE = 2  # summaries that are written side by side
_PORTIONS = 4  # of turns, each a request; of more than that only the latest are read
_LARGEST_PORTION = 12_000  # tokens
_READ_SHARE = 0.6  # of the helper's context, for what it is to read: its tokens are only estimated
_WORDS_PER_TOKEN = 0.6
_ROOM = 1.25  # a reply may be so much longer than it should before the rest is left out
_LONGEST = 16  # characters for each token that it should have: what goes on is not read to its end
_SMALLEST_PORTION = 256  # tokens


class Summarizer:
    """Writes summaries for all conversations of an engine.

    What people wrote is shown to the helper as data, and what it answers stands in the persona's prompt as
    data: the worst that anybody can do is to be remembered as they want.

    Args:
        helper: the model that writes.
    """

    __slots__ = ("_gate", "_helper", "_not_before", "_trouble")

    def __init__(self, helper: Helper) -> None:
        self._helper = helper
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._not_before = 0.0  # on the loop's clock
        self._trouble = ""

    @property
    def resting(self) -> bool:
        """Whether the helper failed a moment ago."""
        return asyncio.get_running_loop().time() < self._not_before

    async def summary(self, fold: Fold, persona: str, tokens: int, count: Count) -> str:
        """What the persona remembers once the turns are folded in; "" where the helper could not do it.

        Its errors are logged, once until it works again; meanwhile it is `resting`.

        Args:
            persona: the name.
            tokens: the most that it may have.
            count: told what each request used.
        """
        try:
            async with self._gate, asyncio.timeout(_SECONDS):
                with foreign("the helper model"):
                    text = await self._written(fold, persona, tokens, count)
        except TimeoutError:
            self._failed(f"it took longer than {_SECONDS:.0f} seconds")
        except PixiError as error:
            self._failed(str(error))
        else:
            self._trouble = ""
            return text
        self._not_before = asyncio.get_running_loop().time() + _REST_SECONDS
        return ""

    async def _written(self, fold: Fold, persona: str, tokens: int, count: Count) -> str:
        model = await self._helper()
        if model.traits.small:
            raise ModelError(f"{model.name} is too small for that; name a larger one in [helper_model].")
        name, words = one_line(persona), int(tokens * _WORDS_PER_TOKEN)
        instruction = fill(summary_template(), {"name": name, "words": str(words)})
        room = int(model.traits.context_tokens * _READ_SHARE - estimate_text(instruction) - 2 * tokens)
        if room < _SMALLEST_PORTION:
            raise ModelError(f"{model.name} holds too few tokens for that; see context_tokens.")
        turns = [told(turn.lines, persona) for turn in fold.turns]
        summary = fold.summary
        for portion in portions(turns, min(room, _LARGEST_PORTION), _PORTIONS):
            reply = await _ask(model, instruction, question(summary, portion), tokens, count)
            summary = as_summary(reply, int(tokens * _ROOM))
            if not summary:
                raise ModelError(f"{model.name} wrote nothing.")
        return summary

    def _failed(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            why = " ".join(why.split())
            _log.warning("what falls out of a talk was not written down by the helper model: %s", why)


async def _ask(model: Model, instruction: str, told: str, tokens: int, count: Count) -> str:
    """What the helper answers, as far as it is read.

    Raises:
        ModelError: it could not be asked, or broke off.
    """
    pieces: list[str] = []
    length, usage = 0, Usage()
    request = Request((SystemLine(instruction), UserLine(told)))
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished):
                    usage = delta.usage
                elif isinstance(delta, Text):
                    pieces.append(delta.text)
                    length += len(delta.text)
                    if length > tokens * _LONGEST:
                        break
    finally:
        if usage == Usage():  # it broke off, or its server does not count
            usage = Usage(estimate_all(request.lines), 0, estimate_text("".join(pieces)))
        count(model.name, usage, model.traits.prices)
    return "".join(pieces)
