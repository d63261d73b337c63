"""Runs the tools that a model asked for: side by side or one by one, and always with an answer for it.

A small model may ask the same again and again. What was answered in a turn is answered from the first call
when it is asked again, unless its tool writes or varies; once a tool wrote, nothing that was read before it
counts. A failure may pass, so what failed is tried a second time.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from pixi.core.errors import PixiError, ToolError
from pixi.core.events import ToolAnswered, ToolCalled, TurnEvent
from pixi.core.limits import Limits
from pixi.core.lines import ToolCall
from pixi.core.message import Image
from pixi.core.rounds import UNANSWERED
from pixi.engine.acts import Acts
from pixi.engine.bench import ToolRunConfig
from pixi.engine.tool_context import ToolContext
from pixi.engine.tool_guards import Guards, Held
from pixi.engine.tool_runs import Runs
from pixi.toolbox.arguments import arguments_in
from pixi.toolbox.results import clipped
from pixi.toolbox.tools import LEAST_BYTES, Tool


class Give(Protocol):
    """Takes a call's answer."""

    def __call__(self, call: ToolCall, text: str, images: tuple[Image, ...] = ()) -> None:
        """For each call at most once."""
        ...


_AGAIN = "(You asked this already in this turn, and this is what came of it. Do not ask it again.)"
_PICTURES_AGAIN = "(Its pictures stand where you asked it first.)"
_TRIES = 2  # of a call that fails, each in a round of its own

_Question = tuple[str, str]
"""A tool's name and its arguments: alike, whatever the order of those and the blanks between them."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of a call.

    Attributes:
        ok: it was carried out.
        text, images: what the model was given.
        tries: in how many rounds it was tried.
        round: the last of them.
    """

    ok: bool
    text: str
    images: tuple[Image, ...]
    tries: int
    round: int

    @property
    def again(self) -> str:
        """The words for a model that asks once more."""
        return "\n".join((_AGAIN, *([_PICTURES_AGAIN] if self.images else []), self.text))


class ToolRounds:
    """Answers the calls of a turn.

    Args:
        run_config: what tools are run with.
        acts: what they act with.
        limits: calls, seconds and bytes.
        show: takes the events, in order.
        drained: waits until the commands that came before are performed.
        held: stops the turn's time while a person thinks.
        left: gives the seconds until the turn ends.
    """

    __slots__ = (
        "_acts",
        "_answers",
        "_drained",
        "_guards",
        "_limits",
        "_round",
        "_run_config",
        "_runs",
        "_show",
    )

    def __init__(
        self,
        run_config: ToolRunConfig,
        acts: Acts,
        limits: Limits,
        *,
        show: Callable[[TurnEvent], None],
        drained: Callable[[], Awaitable[None]],
        held: Held,
        left: Callable[[], float],
    ) -> None:
        self._run_config = run_config
        self._acts = acts
        self._limits = limits
        self._show = show
        self._drained = drained
        self._answers: dict[_Question, _Answer] = {}  # of this turn, since a tool last wrote
        self._round = 0
        self._guards = Guards(run_config, acts, held)
        self._runs = Runs(run_config, acts, limits, left)

    async def answer(
        self, calls: Sequence[ToolCall], give: Give, *, room: int, goes_on: Callable[[], bool]
    ) -> bool:
        """Run them all; `give` takes each call's answer, also where it is cancelled half-way.

        Those that only read run side by side. One that writes, or that a person must approve, begins when
        all before it are done, and runs alone. Once it does not go on any more, none is begun.

        Return False if none of them had to be run: all was answered before in this turn.

        Args:
            calls: in the model's order.
            give: takes the answers.
            room: how many bytes of results the model has place for.
            goes_on: whether the turn does.
        """
        limit = min(self._limits.tool_result_bytes, max(room // len(calls), LEAST_BYTES))
        self._round += 1
        any_ran = False
        for together in self._in_order(calls):
            if not goes_on():
                return True
            async with asyncio.TaskGroup() as group:
                running = [
                    group.create_task(self._answer(number, call, give, limit)) for number, call in together
                ]
            any_ran |= any(task.result() for task in running)
        return any_ran

    def _in_order(self, calls: Sequence[ToolCall]) -> Iterator[list[tuple[int, ToolCall]]]:
        """The calls, numbered from 1, in the groups that run side by side: no group asks the same twice."""
        together: list[tuple[int, ToolCall]] = []
        asked: set[_Question] = set()
        for number, call in enumerate(calls, 1):
            tool, question = self._find(call.name), self._question(call)
            alone = tool is not None and (tool.writes or bool(tool.approval))
            if together and (alone or question in asked):
                yield together
                together, asked = [], set()
            if alone:
                yield [(number, call)]
                continue
            together.append((number, call))
            if question is not None:
                asked.add(question)
        if together:
            yield together

    def _question(self, call: ToolCall) -> _Question | None:
        """What a call asks; None where asking it again may come to something else."""
        tool = self._find(call.name)
        if tool is not None and (tool.writes or tool.varies):
            return None
        try:
            arguments = json.dumps(arguments_in(call), sort_keys=True)
        except ToolError:
            arguments = call.arguments
        return (tool.name if tool else call.name), arguments

    def _find(self, name: str) -> Tool | None:
        """The tool of that name; also where the model put a namespace before it, or brackets behind."""
        tools = self._run_config.tools
        return tools.get(name) or tools.get(re.split(r"[.:/]", name.removesuffix("()"))[-1])

    async def _answer(self, number: int, call: ToolCall, give: Give, limit: int) -> bool:
        """Answer a call. Return False if it was answered from the first that asked the same."""
        ok, text = False, UNANSWERED
        images: tuple[Image, ...] = ()
        question = self._question(call)
        before = self._answers.get(question) if question else None
        is_new = before is None or not (before.ok or before.tries >= _TRIES or before.round == self._round)
        try:
            arguments = self._shown_arguments(call)
            if before and not is_new:
                ok, result = before.ok, before.again
            elif number > self._limits.tool_calls:
                result = f"Only {self._limits.tool_calls} calls at once are carried out."
            else:
                ok, result, images = await self._tried(call, arguments, limit)
                if question:
                    tries = before.tries + 1 if before else 1
                    self._answers[question] = _Answer(ok, result, images, tries, self._round)
            text = clipped(result, limit, self._run_config.mask)
        finally:
            give(call, text, images)
            self._show(ToolAnswered(call.id, call.name, ok, text))
        return is_new

    async def _tried(
        self, call: ToolCall, arguments: dict[str, Any] | ToolError, limit: int
    ) -> tuple[bool, str, tuple[Image, ...]]:
        """Carry a call out; gives whether that was done, the words for the model, and pictures."""
        try:
            return (True, *await self._run(call, arguments, limit))
        except ToolError as error:
            return False, str(error), ()

    def _shown_arguments(self, call: ToolCall) -> dict[str, Any] | ToolError:
        try:
            arguments = arguments_in(call)
        except ToolError as error:
            self._show(ToolCalled(call.id, call.name, {}))
            return error
        self._show(ToolCalled(call.id, call.name, arguments))
        return arguments

    async def _run(
        self, call: ToolCall, arguments: dict[str, Any] | ToolError, limit: int
    ) -> tuple[str, tuple[Image, ...]]:
        """The result for the model.

        Raises:
            ToolError: it could not be done; words for the model, without any exception's own text.
        """
        tool = self._find(call.name)
        if tool is None:
            raise ToolError(self._unknown(call.name))
        if isinstance(arguments, ToolError):
            raise arguments
        if tool.writes:
            self._answers.clear()  # also where it fails: nobody knows what it did by then
        context = ToolContext(self._acts, self._drained, self._run_config.mask, self._show)
        try:
            bound = await self._guards.bound(tool, arguments, context)
            text, images = await self._runs.run(tool, bound, context, self._guards)
        except ToolError:
            raise
        except PixiError as error:  # the turn may do no more, or nothing can be recorded
            raise ToolError(f"{call.name} could not be carried out.") from error
        finally:
            context.close()
        return clipped(text, min(limit, tool.result_bytes or limit), self._run_config.mask), images

    def _unknown(self, name: str) -> str:
        tools = self._run_config.tools
        near = get_close_matches(name, tools, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        there = [*tools][: self._limits.tools]
        more = f" and {len(tools) - len(there)} more" if len(tools) > len(there) else ""
        return f"There is no tool {name[:64]!r}.{meant} Tools: {', '.join(there) or 'none'}{more}."
