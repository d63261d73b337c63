"""Runs one tool whose call may be carried out, records what it changes, and takes its result apart."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from pixi.core.card import Card
from pixi.core.errors import ChannelError, PixiError, StoreError, ToolError
from pixi.core.limits import Limits
from pixi.core.message import Image
from pixi.core.spending import Spent
from pixi.engine.acts import Acts, NotDone
from pixi.engine.bench import ToolRunConfig
from pixi.engine.bounded import within
from pixi.engine.tool_context import ToolContext
from pixi.engine.tool_guards import Denied, Guards
from pixi.store.kept import AuditOutcome, Deed
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.results import Part, as_json, parts_of, with_pictures_checked
from pixi.toolbox.tools import Bound, Tool

_log = logging.getLogger("pixi.engine")

_SHOWN = "(The people here were shown this card; do not repeat it.)"
_NOT_SHOWN = "(This was to be shown as a card, which is not possible here; tell what matters of it.)"


class _Unfinished(ToolError):
    """It was stopped, and what it did by then is not known."""


class Runs:
    """Runs tools.

    Args:
        run_config: the turn's.
        acts: who asks, and where.
        limits: seconds.
        left: gives the seconds until the turn ends.
    """

    __slots__ = ("_acts", "_left", "_limits", "_run_config")

    def __init__(
        self, run_config: ToolRunConfig, acts: Acts, limits: Limits, left: Callable[[], float]
    ) -> None:
        self._run_config = run_config
        self._acts = acts
        self._limits = limits
        self._left = left

    async def run(
        self, tool: Tool, bound: Bound, context: ToolContext, guards: Guards
    ) -> tuple[str, tuple[Image, ...]]:
        """Ask for approval where it is wanted, run it, and show its cards; gives what the model is told.

        Raises:
            ToolError: it was not, or could not be, done.
        """
        approved_by = await self._approval(tool, bound, context, guards)
        if tool.writes:
            result = await self._recorded(tool, bound, context, approved_by)
        else:
            result = await self._carried_out(tool, bound, context)
        try:
            with foreign(f"the result of tool {tool.name!r}"):
                parts = parts_of(result)
        except ForeignError as error:
            raise ToolError(str(error)) from error
        return await self._told(parts, context)

    async def _approval(self, tool: Tool, bound: Bound, context: ToolContext, guards: Guards) -> str:
        """Who said yes; "" where nobody needs to."""
        if not guards.asks(tool, bound, context):
            return ""
        try:
            return await guards.approved(tool, bound, context)
        except Denied:
            if tool.writes:
                await self._end(await self._begin(tool, bound, ""), "denied", 0.0)
            raise

    async def _recorded(self, tool: Tool, bound: Bound, context: ToolContext, approved_by: str) -> object:
        usage = self._acts.usage
        await usage.check_writes(tool.name)  # again: a person may have thought for long
        number = await self._begin(tool, bound, approved_by, usage.write())
        self._acts.changed = True  # before it is: begun again, the turn might do it twice
        clock = asyncio.get_running_loop()
        began = clock.time()
        outcome: AuditOutcome = "unknown"
        try:
            result = await self._carried_out(tool, bound, context)
            outcome = "done"
            return result
        except _Unfinished:
            raise
        except ToolError:
            outcome = "failed"
            raise
        finally:
            await self._end(number, outcome, clock.time() - began)

    async def _carried_out(self, tool: Tool, bound: Bound, context: ToolContext) -> object:
        seconds = self._limits.seconds_for(tool.timeout, self._left())
        what = f"tool {tool.name!r}"
        context.begin(seconds)
        try:
            return await within(seconds, _guarded(what, bound, context), what, spared=context.waited)
        except TimeoutError:
            told = f"{tool.name} took longer than {seconds:g} seconds and was stopped."
            if tool.writes:
                told += " Nobody knows whether it was done: do not do it again unless you are asked to."
            raise _Unfinished(told) from None
        except (ForeignError, ChannelError) as error:
            raise ToolError(str(error)) from error
        except ToolError:
            raise
        except PixiError as error:
            raise ToolError(f"{tool.name} could not be carried out.") from error

    async def _begin(self, tool: Tool, bound: Bound, approved_by: str, spent: Sequence[Spent] = ()) -> int:
        acts = self._acts
        deed = Deed(
            acts.message.conversation,
            acts.venue.guild,
            self._run_config.turn,
            acts.persona.name,
            acts.message.author.id,
            tool.name,
            self._run_config.mask.hide(as_json(dict(bound.arguments))),
            approved_by,
        )
        beginning = asyncio.ensure_future(self._run_config.store.audit_begin(deed, spent=spent))
        try:
            return await asyncio.shield(beginning)
        except StoreError as error:
            raise ToolError(f"{tool.name} could not be put on record, so it was not carried out.") from error
        except asyncio.CancelledError:
            with suppress(StoreError):
                await self._end(await beginning, "failed", 0.0)  # it is on record and was never begun
            raise

    async def _end(self, number: int, outcome: AuditOutcome, seconds: float) -> None:
        try:
            await self._run_config.store.audit_end(number, outcome, seconds)
        except StoreError as error:  # then it stands there as one of which nobody knows
            _log.error("what came of deed %s could not be recorded: %s", number, error)

    async def _told(self, parts: Sequence[Part], context: ToolContext) -> tuple[str, tuple[Image, ...]]:
        """Show the cards; gives the text and the pictures for the model."""
        checked = await with_pictures_checked(parts, vision=self._run_config.vision)
        texts = [await self._shown(part, context) if isinstance(part, Card) else part for part in checked]
        images = tuple(part for part in texts if isinstance(part, Image))
        text = "\n".join(part for part in texts if isinstance(part, str))
        return text or ("(a picture)" if len(images) == 1 else f"({len(images)} pictures)"), images

    async def _shown(self, card: Card, context: ToolContext) -> str:
        try:
            await context.card(card)
        except ChannelError:
            return f"{_NOT_SHOWN}\n{card.plain}"
        except NotDone as error:
            raise ToolError("No more can be shown in this turn.") from error
        return f"{_SHOWN}\n{card.plain}"


async def _guarded(what: str, bound: Bound, context: ToolContext) -> object:
    with foreign(what):  # it makes a tool's own TimeoutError unlike the limit's
        return await bound.run(context)
