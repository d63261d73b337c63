"""Whether a call may be carried out: rights, condition, arguments, rate, and then a person's word."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from pixi.channels.channel import Question, Verdict
from pixi.channels.shortening import shortened
from pixi.core.errors import ChannelError, ToolError
from pixi.core.message import Author
from pixi.core.strangers import one_line
from pixi.core.venue import Rights
from pixi.engine.acts import Acts
from pixi.engine.bench import ToolRunConfig
from pixi.engine.bounded import within
from pixi.toolbox.context import Context
from pixi.toolbox.foreign import ForeignError, foreign
from pixi.toolbox.rates import Key, Rate, as_words
from pixi.toolbox.results import as_json
from pixi.toolbox.tools import Bound, Tool

_LOOK_SECONDS = 5.0  # for what only looks whether a tool may be used
_LONGEST_VALUE = 400  # characters of an argument that a person is shown
_LONGEST_ARGUMENTS = 1_500

Held = Callable[[], AbstractContextManager[None]]
"""While it is entered, the turn's time stands still."""


class Denied(ToolError):
    """A person was asked and did not say yes."""


class Guards:
    """Lets calls pass, or refuses them in words that the model can act on.

    Args:
        run_config: the turn's.
        acts: who asks, where, and what is asked of people.
        held: stops the turn's time while a person thinks.
    """

    __slots__ = ("_acts", "_held", "_run_config", "_seconds_left")

    def __init__(self, run_config: ToolRunConfig, acts: Acts, held: Held) -> None:
        self._run_config = run_config
        self._acts = acts
        self._held = held
        self._seconds_left = run_config.approval_seconds

    async def bound(self, tool: Tool, arguments: Mapping[str, Any], context: Context) -> Bound:
        """The tool with its arguments, if it may be used now by those who ask; its use is counted.

        Raises:
            ToolError: it may not.
        """
        await self._check_standing(tool, context)
        bound = tool.bind(arguments)
        if tool.writes:
            await self._acts.usage.check_writes(tool.name)
        self._check_rate(tool)
        return bound

    def asks(self, tool: Tool, bound: Bound, context: Context) -> bool:
        """Whether a person must say yes to it."""
        if isinstance(tool.approval, bool):
            return tool.approval
        try:
            with foreign(f"what tool {tool.name!r} asks for"):
                return tool.approval(context, bound.arguments)
        except ForeignError:
            return True

    async def approved(self, tool: Tool, bound: Bound, context: Context) -> str:
        """Ask the person who is answered; gives their id.

        Raises:
            Denied: they did not say yes.
            ToolError: meanwhile it may not be used any more.
        """
        acts = self._acts
        name = _named(acts.message.author)
        with self._held():
            verdict = await self._asked(tool, bound)
        if verdict == "no":
            raise Denied(f"{name} was asked and said no to {tool.name}. Do not ask again; go on without it.")
        if verdict == "nobody":
            raise Denied(
                f"{tool.name} needs {name}'s yes, and no answer came, so it was not done. Tell them so; "
                "they can ask for it again."
            )
        await self._check_standing(tool, context)  # they may have thought for long
        return acts.message.author.id

    async def _check_standing(self, tool: Tool, context: Context) -> None:
        if tool.allow != "everyone" and not await self._are_allowed(tool):
            askers = ", ".join(dict.fromkeys(map(_named, self._acts.askers)))
            who = "operators of the bot" if tool.allow == "operators" else "managers of this place"
            raise ToolError(f"Only {who} may use {tool.name}, and {askers} may not. Tell them so.")
        if tool.when is not None and not await self._holds(tool, context):
            raise ToolError(f"{tool.name} cannot be used here just now. Go on without it.")

    async def _are_allowed(self, tool: Tool) -> bool:
        """Whether all who ask may use it."""
        rights = await asyncio.gather(*(self._rights(asker.id) for asker in self._acts.askers))
        if tool.allow == "operators":
            return all(each.operator for each in rights)
        return all(each.manager or each.operator for each in rights)

    async def _rights(self, person: str) -> Rights:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._acts.channel.rights(person)
        except (ChannelError, TimeoutError):
            return Rights()  # of whom nothing is known, nothing is believed

    async def _holds(self, tool: Tool, context: Context) -> bool:
        what = f"the condition of tool {tool.name!r}"
        try:
            return await within(_LOOK_SECONDS, _guarded(what, tool, context), what)
        except (ForeignError, TimeoutError):
            return False

    def _check_rate(self, tool: Tool) -> None:
        uses: dict[Key, Rate] = {}
        if tool.per_person is not None:
            platform = self._acts.message.conversation.partition(":")[0]
            for asker in self._acts.askers:
                uses[(tool.name, "person", platform, asker.id)] = tool.per_person
        if tool.per_guild is not None and self._acts.venue.guild:
            uses[(tool.name, "guild", self._acts.venue.guild)] = tool.per_guild
        wait = self._run_config.rates.use(uses)
        if wait > 0:
            raise ToolError(
                f"{tool.name} was used too often. It can be used again in {as_words(wait)}; "
                "until then go on without it."
            )

    async def _asked(self, tool: Tool, bound: Bound) -> Verdict:
        seconds = self._seconds_left
        if seconds <= 0 or self._acts.message.author.is_bot:  # which presses no button
            return "nobody"
        question = Question(
            person=self._acts.message.author.id,
            tool=tool.name,
            does=self._run_config.mask.hide(tool.does),
            arguments=self._run_config.mask.hide(readable(bound.arguments)),
            nonce=self._acts.next_nonce(),
        )
        clock = asyncio.get_running_loop()
        began = clock.time()
        try:
            async with asyncio.timeout(seconds + _LOOK_SECONDS):
                return await self._acts.channel.approve(question, seconds=seconds)
        except (ChannelError, TimeoutError):
            return "nobody"
        finally:
            self._seconds_left -= clock.time() - began


def _named(person: Author) -> str:
    """A person's name in a refusal: a stranger's word, in quotation marks so that it says nothing else."""
    return f'"{one_line(person.name) or "somebody"}"'


def readable(arguments: Mapping[str, Any]) -> str:
    """Arguments as lines that a person can read, and in which nothing passes for another line."""
    lines = []
    for name, value in json.loads(as_json(dict(arguments))).items():
        text = json.dumps(value, ensure_ascii=False)
        shown = "".join(
            c if c.isprintable() else c.encode("ascii", "backslashreplace").decode() for c in text
        )
        lines.append(f"{name}: {_cut(shown, _LONGEST_VALUE)}")
    return _cut("\n".join(lines), _LONGEST_ARGUMENTS)


def _cut(text: str, longest: int) -> str:
    return shortened(text, longest, " … ({} characters left out) … ")[0]


async def _guarded(what: str, tool: Tool, context: Context) -> bool:
    assert tool.when is not None
    with foreign(what):
        verdict = tool.when(context)
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)
