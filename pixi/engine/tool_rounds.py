"""Runs the tools that a model asked for: side by side or one by one, and always with an answer for it.

`ToolRounds` answers the calls of a turn, round by round; `_ToolRun` carries one of them out, records what it
changes, and takes its result apart.

A small model may ask the same again and again. What was answered in a turn is answered from the first call
when it is asked again, unless its tool writes or varies; once a tool wrote, nothing that was read before it
counts. A failure may pass, so what failed is tried a second time.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from pixi.core.errors import ChannelError, OutcomeUnknown, OverQuota, PixiError, StoreError, ToolError
from pixi.core.events import ToolAnswered, ToolCalled
from pixi.core.llm import ToolCall
from pixi.core.message import Card, Image
from pixi.core.spending import UsageEntry
from pixi.core.turn import UNANSWERED
from pixi.engine.command_executor import CommandExecutor
from pixi.engine.context import PersonaSession
from pixi.engine.tool_guards import ApprovalDenied, Held, ToolContext, ToolGuards
from pixi.engine.turn_actions import NotDone, TurnActions
from pixi.store.kept import AuditOutcome, Deed, Quota
from pixi.toolbox.arguments import arguments_in
from pixi.toolbox.foreign import ForeignError, foreign, within
from pixi.toolbox.tools import (
    LEAST_BYTES,
    BoundCall,
    Part,
    Tool,
    as_json,
    as_words,
    parts_of,
    with_pictures_checked,
    within_bytes,
)

_log = logging.getLogger("pixi.engine")

_AGAIN = "(You asked this already in this turn, and this is what came of it. Do not ask it again.)"
_PICTURES_AGAIN = "(Its pictures stand where you asked it first.)"
_SHOWN = "(The people here were shown this card; do not repeat it.)"
_NOT_SHOWN = "(This was to be shown as a card, which is not possible here; tell what matters of it.)"
_TRIES = 2  # of a call that fails, each in a round of its own

_Question = tuple[str, str]
"""A tool's name and its arguments: alike, whatever the order of those and the blanks between them."""


Give = Callable[[ToolCall, str, tuple[Image, ...]], None]
"""Takes a call's answer, at most once for each call."""


class _CallAnswer(Struct, frozen=True):
    """The answer to a call.

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
        acts: performs what they want.
        executor: performs the commands that came before, and shows events behind them.
        held: stops the turn's time while a person thinks.
        left: gives the seconds until the turn ends.
    """

    def __init__(
        self, acts: TurnActions, executor: CommandExecutor, *, held: Held, left: Callable[[], float]
    ) -> None:
        session = acts.turn.session
        self._acts = acts
        self._executor = executor
        self._limits = acts.limits
        self._tools = session.capabilities.tools
        self._mask = session.shared.toolbox.mask
        self._answers: dict[_Question, _CallAnswer] = {}  # of this turn, since a tool last wrote
        self._round = 0
        self._guards = ToolGuards(acts, executor.drained, held)
        self._left = left

    async def answer(self, calls: Sequence[ToolCall], give: Give, *, room: int) -> bool:
        """Run all calls; `give` takes each call's answer, also where it is cancelled half-way.

        Those that only read run side by side. One that writes, or that a person must approve, begins when
        all before it are done, and runs alone. Once the turn does not go on any more, none is begun.

        Return False if none of them had to be run: all was answered before in this turn.

        Args:
            calls: in the model's order.
            give: takes the answers.
            room: how many bytes of results the model has place for.
        """
        limit = min(self._limits.tool_result_bytes, max(room // len(calls), LEAST_BYTES))
        self._round += 1
        any_ran = False
        for together in self._in_order(calls):
            if not self._acts.turn.life.goes_on:
                return True
            async with asyncio.TaskGroup() as group:
                running = [
                    group.create_task(self._answer(number, call, give, limit)) for number, call in together
                ]
            any_ran |= any(task.result() for task in running)
        return any_ran

    def _in_order(self, calls: Sequence[ToolCall]) -> Iterator[list[tuple[int, ToolCall]]]:
        """Number the calls from 1, in groups that run side by side: no group asks the same twice."""
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
        """Say what a call asks; None where asking it again may come to something else."""
        tool = self._find(call.name)
        if tool is not None and (tool.writes or tool.varies):
            return None
        try:
            arguments = json.dumps(arguments_in(call), sort_keys=True)
        except ToolError:
            arguments = call.arguments
        return (tool.name if tool else call.name), arguments

    def _find(self, name: str) -> Tool | None:
        """Find the tool of a name; also where the model put a namespace before it, or brackets behind."""
        return self._tools.get(name) or self._tools.get(re.split(r"[.:/]", name.removesuffix("()"))[-1])

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
                self._acts.reached |= {"tool_calls"}
                result = f"Only {self._limits.tool_calls} calls at once are carried out."
            else:
                try:
                    result, images = await self._run(call, arguments, limit)
                    ok = True
                except ToolError as error:
                    result = str(error)
                if question:
                    tries = before.tries + 1 if before else 1
                    self._answers[question] = _CallAnswer(ok, result, images, tries, self._round)
            text = within_bytes(result, limit, self._mask)
        finally:
            give(call, text, images)
            self._executor.show(ToolAnswered(call.id, call.name, ok, text))
        return is_new

    def _shown_arguments(self, call: ToolCall) -> dict[str, Any] | ToolError:
        try:
            arguments = arguments_in(call)
        except ToolError as error:
            self._executor.show(ToolCalled(call.id, call.name, {}))
            return error
        self._executor.show(ToolCalled(call.id, call.name, arguments))
        return arguments

    async def _run(
        self, call: ToolCall, arguments: dict[str, Any] | ToolError, limit: int
    ) -> tuple[str, tuple[Image, ...]]:
        """Run the tool of a call; gives the result for the model.

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
        context = ToolContext(self._acts, self._executor.drained, self._executor.show)
        try:
            bound = await self._guards.bound(tool, arguments, context)
            run = _ToolRun(tool, bound, context, self._guards, self._acts, self._left)
            text, images = await run.carry_out()
        except ToolError:
            raise
        except PixiError as error:  # the turn may do no more, or nothing can be recorded
            raise ToolError(f"{call.name} could not be carried out.") from error
        finally:
            context.close()
        return within_bytes(text, min(limit, tool.result_bytes or limit), self._mask), images

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        tools = self._tools
        near = get_close_matches(name, tools, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        there = [*tools][: self._limits.tools]
        more = f" and {len(tools) - len(there)} more" if len(tools) > len(there) else ""
        return f"There is no tool {name[:64]!r}.{meant} Tools: {', '.join(there) or 'none'}{more}."


class _ToolRun(Struct, frozen=True):
    """A call that may be carried out: its tool, bound to the arguments, and what it is run with."""

    tool: Tool
    bound: BoundCall
    context: ToolContext
    guards: ToolGuards
    acts: TurnActions
    left: Callable[[], float]

    @property
    def session(self) -> PersonaSession:
        """The session that asked for it."""
        return self.acts.turn.session

    async def carry_out(self) -> tuple[str, tuple[Image, ...]]:
        """Run the tool, after a person approved where that is wanted, and show its cards; gives the result.

        Raises:
            ToolError: it was not, or could not be, done.
        """
        approved_by = await self._approval()
        result = await (self._recorded(approved_by) if self.tool.writes else self._run())
        try:
            with foreign(f"the result of tool {self.tool.name!r}"):
                parts = parts_of(result)
        except ForeignError as error:
            raise ToolError(str(error)) from error
        return await self._told(parts)

    async def _approval(self) -> str:
        """Ask a person; gives the id of who said yes, "" where nobody needs to."""
        if not self.guards.asks(self.tool, self.bound, self.context):
            return ""
        try:
            return await self.guards.approved(self.tool, self.bound, self.context)
        except ApprovalDenied:
            if self.tool.writes:
                await self._end(await self._begin("", denied=True), "denied", 0.0)
            raise

    async def _recorded(self, approved_by: str) -> object:
        """Run a tool that writes, with its audit entry begun before and ended after."""
        usage = self.acts.usage
        await usage.check_writes(self.tool.name)  # again: a person may have thought for long
        self.acts.change()
        number = await self._begin(approved_by, usage.write())
        clock = asyncio.get_running_loop()
        began = clock.time()
        outcome: AuditOutcome = "unknown"
        try:
            result = await self._run()
            outcome = "done"
            return result
        except OutcomeUnknown:
            raise
        except ToolError:
            outcome = "failed"
            raise
        finally:
            await self._end(number, outcome, clock.time() - began)

    async def _run(self) -> object:
        """Run the tool within its time."""
        tool, context = self.tool, self.context
        seconds = self.acts.limits.seconds_for(tool.timeout, self.left())
        what = f"tool {tool.name!r}"
        context.begin(seconds)
        try:
            return await within(seconds, _guarded(what, self.bound, context), what, spared=context.waited)
        except TimeoutError:
            told = f"{tool.name} took longer than {seconds:g} seconds and was stopped."
            if tool.writes:
                told += " Nobody knows whether it was done: do not do it again unless you are asked to."
            raise OutcomeUnknown(told) from None
        except (ForeignError, ChannelError) as error:
            raise ToolError(str(error)) from error
        except ToolError:
            raise
        except PixiError as error:
            raise ToolError(f"{tool.name} could not be carried out.") from error

    async def _begin(
        self, approved_by: str, spent: Sequence[UsageEntry] = (), *, denied: bool = False
    ) -> int:
        acts = self.acts
        deed = Deed(
            acts.message.conversation,
            acts.venue.guild,
            acts.turn.id,
            acts.persona.name,
            acts.message.author.id,
            self.tool.name,
            self.session.shared.toolbox.mask.hide(as_json(dict(self.bound.arguments))),
            approved_by,
        )
        quota = None if denied else self._quota()
        beginning = asyncio.ensure_future(acts.turn.store.audit_begin(deed, spent=spent, quota=quota))
        try:
            return await asyncio.shield(beginning)
        except OverQuota as error:
            raise ToolError(
                f"As much was done for {self.acts.message.author.name} as may be: {self.tool.name} can be "
                f"used again in {as_words(error.wait)}. Tell them so, and go on without it."
            ) from error
        except StoreError as error:
            raise ToolError(
                f"{self.tool.name} could not be put on record, so it was not carried out."
            ) from error
        except asyncio.CancelledError:
            with suppress(StoreError):
                await self._end(await beginning, "failed", 0.0)  # it is on record and was never begun
            raise

    def _quota(self) -> Quota | None:
        rate, source, toolbox = self.tool.writes_per_person, self.tool.source, self.session.shared.toolbox
        if rate is None:
            return None
        # Also those that this persona has not: another may have used them for the same person.
        together = (tool.name for tool in toolbox if tool.source == source and tool.writes)
        return Quota(rate.times, rate.seconds, tuple(together))

    async def _end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        try:
            await self.acts.turn.store.audit_end(number, outcome, seconds)
        except StoreError as error:  # then it stands there as one of which nobody knows
            _log.error("what came of deed %s could not be recorded: %s", number, error)

    async def _told(self, parts: Sequence[Part]) -> tuple[str, tuple[Image, ...]]:
        """Show the cards; gives the text and the pictures for the model."""
        checked = await with_pictures_checked(parts, vision=self.session.role.model.traits.vision)
        texts = [await self._shown(part) if isinstance(part, Card) else part for part in checked]
        images = tuple(part for part in texts if isinstance(part, Image))
        text = "\n".join(part for part in texts if isinstance(part, str))
        return text or ("(a picture)" if len(images) == 1 else f"({len(images)} pictures)"), images

    async def _shown(self, card: Card) -> str:
        try:
            await self.context.card(card)
        except ChannelError:
            return f"{_NOT_SHOWN}\n{card.plain}"
        except NotDone as error:
            raise ToolError("No more can be shown in this turn.") from error
        return f"{_SHOWN}\n{card.plain}"


async def _guarded(what: str, bound: BoundCall, context: ToolContext) -> object:
    with foreign(what):  # it makes a tool's own TimeoutError unlike the limit's
        return await bound.run(context)
