"""Runs the tools that a model asked for: side by side or one by one, and always with an answer for it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

from pixi.core.errors import PixiError, ToolError
from pixi.core.events import ToolAnswered, ToolCalled, TurnEvent
from pixi.core.limits import Limits
from pixi.core.lines import ToolCall
from pixi.core.message import Image
from pixi.core.rounds import UNANSWERED
from pixi.engine.acts import Acts
from pixi.engine.bench import Bench
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


class ToolRounds:
    """Answers the calls of a turn.

    Args:
        bench: what tools are run with.
        acts: what they act with.
        limits: calls, seconds and bytes.
        show: takes the events, in order.
        drained: waits until the commands that came before are performed.
        held: stops the turn's time while a person thinks.
    """

    __slots__ = ("_acts", "_bench", "_drained", "_guards", "_limits", "_runs", "_show")

    def __init__(
        self,
        bench: Bench,
        acts: Acts,
        limits: Limits,
        *,
        show: Callable[[TurnEvent], None],
        drained: Callable[[], Awaitable[None]],
        held: Held,
    ) -> None:
        self._bench = bench
        self._acts = acts
        self._limits = limits
        self._show = show
        self._drained = drained
        self._guards = Guards(bench, acts, held)
        self._runs = Runs(bench, acts, limits)

    async def answer(
        self, calls: Sequence[ToolCall], give: Give, *, room: int, goes_on: Callable[[], bool]
    ) -> None:
        """Run them all; `give` takes each call's answer, also where it is cancelled half-way.

        Those that only read run side by side. One that writes, or that a person must approve, begins when
        all before it are done, and runs alone. Once it does not go on any more, none is begun.

        Args:
            calls: in the model's order.
            give: takes the answers.
            room: how many bytes of results the model has place for.
            goes_on: whether the turn does.
        """
        limit = min(self._limits.tool_result_bytes, max(room // len(calls), LEAST_BYTES))
        for together in self._in_order(calls):
            if not goes_on():
                return
            async with asyncio.TaskGroup() as group:
                for number, call in together:
                    group.create_task(self._answer(number, call, give, limit))

    def _in_order(self, calls: Sequence[ToolCall]) -> Iterator[list[tuple[int, ToolCall]]]:
        """The calls, numbered from 1, in the groups that run side by side."""
        together: list[tuple[int, ToolCall]] = []
        for number, call in enumerate(calls, 1):
            tool = self._find(call.name)
            if tool is None or not (tool.writes or tool.approval):
                together.append((number, call))
                continue
            if together:
                yield together
                together = []
            yield [(number, call)]
        if together:
            yield together

    def _find(self, name: str) -> Tool | None:
        """The tool of that name; also where the model put a namespace before it, or brackets behind."""
        tools = self._bench.tools
        return tools.get(name) or tools.get(re.split(r"[.:/]", name.removesuffix("()"))[-1])

    async def _answer(self, number: int, call: ToolCall, give: Give, limit: int) -> None:
        ok, text = False, UNANSWERED
        images: tuple[Image, ...] = ()
        try:
            arguments = self._shown_arguments(call)
            try:
                if number > self._limits.tool_calls:
                    raise ToolError(f"Only {self._limits.tool_calls} calls at once are carried out.")
                result, images = await self._run(call, arguments, limit)
                ok = True
            except ToolError as error:
                result = str(error)
            text = clipped(result, limit, self._bench.mask)
        finally:
            give(call, text, images)
            self._show(ToolAnswered(call.id, call.name, ok, text))

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
        context = ToolContext(self._acts, self._drained, self._bench.mask)
        try:
            bound = await self._guards.bound(tool, arguments, context)
            text, images = await self._runs.run(tool, bound, context, self._guards)
        except ToolError:
            raise
        except PixiError as error:  # the turn may do no more, or nothing can be recorded
            raise ToolError(f"{call.name} could not be carried out.") from error
        finally:
            context.close()
        return clipped(text, min(limit, tool.result_bytes or limit), self._bench.mask), images

    def _unknown(self, name: str) -> str:
        tools = self._bench.tools
        near = get_close_matches(name, tools, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        there = [*tools][: self._limits.tools]
        more = f" and {len(tools) - len(there)} more" if len(tools) > len(there) else ""
        return f"There is no tool {name[:64]!r}.{meant} Tools: {', '.join(there) or 'none'}{more}."
