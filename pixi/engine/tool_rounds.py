"""Runs the tools that a model asked for: side by side, within limits, and always with an answer for it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pixi.core.errors import ChannelError, PixiError, ToolError
from pixi.core.events import ToolAnswered, ToolCalled, TurnEvent
from pixi.core.limits import Limits
from pixi.core.lines import ToolCall
from pixi.core.turn import UNANSWERED
from pixi.engine.bounded import within
from pixi.toolbox.context import Context
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.tools import Tool

_LEAST_BYTES = 256  # of a result, however little room is left


class ToolRounds:
    """Answers the calls of a turn.

    Args:
        tools: those that the persona may use, by name.
        context: what they are told first.
        limits: seconds and bytes of each.
        show: takes the events, in order.
    """

    __slots__ = ("_context", "_limits", "_show", "_tools")

    def __init__(
        self,
        tools: Mapping[str, Tool],
        context: Context,
        limits: Limits,
        show: Callable[[TurnEvent], None],
    ) -> None:
        self._tools = tools
        self._context = context
        self._limits = limits
        self._show = show

    async def answer(
        self, calls: Sequence[ToolCall], give: Callable[[ToolCall, str], None], *, room: int
    ) -> None:
        """Run them all; `give` takes each call's answer, also where it is cancelled half-way.

        `room` is how many bytes of results the model has place for.
        """
        limit = min(self._limits.tool_result_bytes, max(room // len(calls), _LEAST_BYTES))
        async with asyncio.TaskGroup() as group:
            for number, call in enumerate(calls, 1):
                group.create_task(self._answer(number, call, give, limit))

    async def _answer(
        self, number: int, call: ToolCall, give: Callable[[ToolCall, str], None], limit: int
    ) -> None:
        ok, result, text = False, UNANSWERED, UNANSWERED
        try:
            arguments = self._shown_arguments(call)
            try:
                if number > self._limits.tool_calls:
                    raise ToolError(f"Only {self._limits.tool_calls} calls at once are carried out.")
                result = await self._run(call, arguments)
                ok = True
            except ToolError as error:
                result = str(error)
            text = clipped(result, limit)
        finally:
            give(call, text)
            self._show(ToolAnswered(call.id, call.name, ok, text))

    def _shown_arguments(self, call: ToolCall) -> dict[str, Any] | ToolError:
        try:
            arguments = arguments_of(call)
        except ToolError as error:
            self._show(ToolCalled(call.id, call.name, {}))
            return error
        self._show(ToolCalled(call.id, call.name, arguments))
        return arguments

    async def _run(self, call: ToolCall, arguments: dict[str, Any] | ToolError) -> str:
        """The result as text.

        Raises:
            ToolError: it could not be done; words for the model, without any exception's own text.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise ToolError(f"There is no tool {call.name!r}. Tools: {known}.")
        if isinstance(arguments, ToolError):
            raise arguments
        seconds = min(tool.timeout, self._limits.tool_seconds)
        what = f"tool {call.name!r}"
        try:
            return await within(seconds, _guarded(what, tool.call(self._context, arguments)), what)
        except TimeoutError:
            raise ToolError(f"{call.name} took longer than {seconds:g} seconds and was stopped.") from None
        except (ForeignError, ChannelError) as error:
            raise ToolError(str(error)) from error
        except ToolError:
            raise
        except PixiError as error:
            raise ToolError(f"{call.name} could not be carried out.") from error


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments that a model wrote; nothing at all counts as none.

    Raises:
        ToolError: they are no JSON object.
    """
    try:
        arguments = json.loads(call.arguments) if call.arguments.strip() else {}
    except RecursionError:
        raise ToolError(f"The arguments of {call.name} are nested too deeply.") from None
    except ValueError as error:
        raise ToolError(
            f"The arguments of {call.name} are not JSON ({error}). Call it again with one JSON object."
        ) from None
    if not isinstance(arguments, dict):
        raise ToolError(
            f"The arguments of {call.name} must be one JSON object, not {type(arguments).__name__}."
        )
    return arguments


def clipped(text: str, limit: int) -> str:
    """The text within so many bytes of UTF-8; where it is cut, it says so."""
    head = text[:limit].encode("utf-8", "replace")
    if len(head) <= limit and len(text) <= limit:
        return head.decode("utf-8")
    notice = f"\n[cut here; the whole has {len(text)} characters]"
    return head[: max(0, limit - len(notice))].decode("utf-8", "ignore") + notice


async def _guarded(what: str, work: Awaitable[object]) -> str:
    with foreign(what):  # it makes a tool's own TimeoutError unlike the limit's
        return _as_text(await work)


def _as_text(result: object) -> str:
    if isinstance(result, str):
        return result
    if result is None:
        return "Done."
    return json.dumps(result, ensure_ascii=False, default=str)
