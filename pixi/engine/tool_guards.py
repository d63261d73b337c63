"""Context of a tool's call, and the checks before it is carried out.

A call acts through its `ToolContext`: in order behind what was said before, and for as long as it runs.
Before it begins, `ToolGuards` look at rights, condition, arguments and rate, and then ask a person, where it
is wanted.
"""

import asyncio
import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import replace

from pixi.core.channel import OpenQuestion, Question
from pixi.core.errors import ChannelError, ToolError
from pixi.core.events import Answered, Asked, Progressed, TurnEvent, Verdict
from pixi.core.llm import Prices, Usage
from pixi.core.message import Author, Card, Picture, Rights, Venue
from pixi.core.spending import Rate, RateKey
from pixi.core.untrusted import clipped, prompt_name, without_middle
from pixi.engine.turn_actions import NotDone, TurnActions
from pixi.toolbox.context import Context
from pixi.toolbox.foreign import ForeignError, foreign, within
from pixi.toolbox.tools import BoundCall, Tool, as_json, as_words, masked

_LOOK_SECONDS = 5.0  # for what only looks whether a tool may be used
_LONGEST_VALUE = 400  # characters of an argument that a person is shown
_LONGEST_ARGUMENTS = 1_500

Drained = Callable[[], Awaitable[None]]
Held = Callable[[], AbstractContextManager[None]]
"""Makes a context in which the turn's time stands still."""


class ToolContext:
    """The context of a call: a `pixi.toolbox.context.Context`.

    Args:
        acts: performs what the tool wants.
        drained: waits until the commands that came before are performed.
        show: takes the events, in order.
    """

    def __init__(self, acts: TurnActions, drained: Drained, show: Callable[[TurnEvent], None]) -> None:
        self.message, self.askers = acts.message, acts.askers
        self.persona, self.channel = acts.persona, acts.channel
        self._acts = acts
        self._drained = drained
        self._show = show
        self._mask = acts.turn.session.shared.toolbox.mask
        self._closed = False
        self._ends = math.inf  # on the loop's clock; see `begin`
        self._waited = 0.0
        self._waits_since: float | None = None

    @property
    def venue(self) -> Venue:
        """The place, which decides what may be said there."""
        return self._acts.venue

    async def send(self, text: str, *, to: int = 0) -> None:
        """See `Context.send`."""
        await self._its_turn()
        await self._acts.send(self._mask.hide(text), to=to)

    async def card(self, card: Card) -> None:
        """See `Context.card`."""
        await self._its_turn()
        await self._acts.card(masked(card, self._mask))

    async def picture(self, picture: Picture) -> None:
        """See `Context.picture`."""
        await self._its_turn()
        words, link = self._mask.hide(picture.words), self._mask.hide(picture.link)
        await self._acts.picture(replace(picture, words=words, link=link))

    async def sticker(self, name: str) -> None:
        """See `Context.sticker`."""
        await self._its_turn()
        await self._acts.sticker(name)

    async def react(self, emoji: str, *, to: int = 0) -> None:
        """See `Context.react`."""
        await self._its_turn()
        await self._acts.react(emoji, to=to)

    async def note(self, text: str) -> None:
        """See `Context.note`."""
        await self._its_turn()
        await self._acts.note(self._mask.hide(text))

    async def typing(self) -> None:
        """See `Context.typing`."""
        if not self._closed:
            await self._acts.typing()

    @property
    def seconds_left(self) -> float:
        """See `Context.seconds_left`."""
        return max(0.0, self._ends + self.waited() - asyncio.get_running_loop().time())

    def progress(self, text: str) -> None:
        """See `Context.progress`."""
        if not self._closed:
            self._show(Progressed(clipped(self._mask.hide(text), 200)))

    def begin(self, seconds: float) -> None:
        """Start the clock of the call, which may take so many seconds."""
        self._ends = asyncio.get_running_loop().time() + seconds

    def count(self, model: str, usage: Usage, prices: Prices | None = None) -> None:
        """See `Context.count`. What goes on after the call is counted, too."""
        self._acts.count(model, usage, prices)

    def close(self) -> None:
        """End the call: what is left of it can do nothing any more."""
        self._closed = True

    def waited(self) -> float:
        """Give the seconds that the call waited for commands before it: they are no time of the tool's."""
        since = self._waits_since
        return self._waited + (0.0 if since is None else asyncio.get_running_loop().time() - since)

    async def _its_turn(self) -> None:
        if self._closed:
            raise NotDone("The call is over.")
        clock = asyncio.get_running_loop()
        alone = self._waits_since is None  # a tool may do several things at once
        if alone:
            self._waits_since = clock.time()
        try:
            await self._drained()
        finally:
            if alone and self._waits_since is not None:
                self._waited += clock.time() - self._waits_since
                self._waits_since = None
        if self._closed:
            raise NotDone("The call is over.")


class ApprovalDenied(ToolError):
    """A person was asked and did not say yes."""


class ToolGuards:
    """Lets calls pass, or refuses them in words that the model can act on.

    Args:
        acts: knows who asks, and where, and asks people.
        drained: waits until the commands that came before are performed.
        held: stops the turn's time while a person thinks.
    """

    def __init__(self, acts: TurnActions, drained: Drained, held: Held) -> None:
        self._acts = acts
        self._drained = drained
        self._held = held
        self._shared = acts.turn.session.shared
        self._seconds_left = self._shared.settings.approval_seconds  # for all answers of the turn

    async def bound(self, tool: Tool, arguments: Mapping[str, Any], context: Context) -> BoundCall:
        """Bind the tool to its arguments, if those who ask may use it now; its use is counted.

        Raises:
            ToolError: it may not.
        """
        await self._check_standing(tool, context)
        bound = tool.bind(arguments)
        if tool.writes:
            await self._acts.usage.check_writes(tool.name)
        await self._check_rate(tool)
        return bound

    def asks(self, tool: Tool, bound: BoundCall, context: Context) -> bool:
        """Return True if a person must say yes to the call."""
        if isinstance(tool.approval, bool):
            return tool.approval
        try:
            with foreign(f"what tool {tool.name!r} asks for"):
                return tool.approval(context, bound.arguments)
        except ForeignError:
            return True

    async def approved(self, tool: Tool, bound: BoundCall, context: Context) -> str:
        """Ask the person who is answered; gives their id.

        Raises:
            ApprovalDenied: they did not say yes.
            ToolError: meanwhile it may not be used any more.
        """
        acts = self._acts
        name = _named(acts.message.author)
        await self._drained()  # the question comes behind what was said before it
        with self._held():
            verdict = await self._asked(tool, bound)
        if verdict == "no":
            raise ApprovalDenied(
                f"{name} was asked and said no to {tool.name}. Do not ask again; go on without it."
            )
        if verdict == "nobody":
            raise ApprovalDenied(
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
        """Return True if all who ask may use the tool."""
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

    async def _check_rate(self, tool: Tool) -> None:
        uses: dict[RateKey, Rate] = {}
        if tool.per_person is not None:
            platform = self._acts.message.conversation.partition(":")[0]
            for asker in self._acts.askers:
                uses[(tool.name, "person", platform, asker.id)] = tool.per_person
        if tool.per_guild is not None and self._acts.venue.guild:
            uses[(tool.name, "guild", self._acts.venue.guild)] = tool.per_guild
        wait = await self._shared.toolbox.rates.use(uses)
        if wait > 0:
            raise ToolError(
                f"{tool.name} was used too often. It can be used again in {as_words(wait)}; "
                "until then go on without it."
            )

    async def _asked(self, tool: Tool, bound: BoundCall) -> Verdict:
        seconds = self._seconds_left
        if seconds <= 0 or self._acts.message.author.is_bot:  # which presses no button
            return "nobody"
        question = Question(
            person=self._acts.message.author.id,
            tool=tool.name,
            does=self._shared.toolbox.mask.hide(tool.does),
            arguments=self._shared.toolbox.mask.hide(argument_lines(bound.arguments)),
            nonce=self._acts.next_nonce(),
        )
        channel, clock = self._acts.channel, asyncio.get_running_loop()
        began, expires = clock.time(), time.time() + seconds
        self._acts.show(Asked(question.nonce, tool.name, question.does, question.arguments, expires))
        verdict: Verdict = "nobody"
        conversation = self._acts.message.conversation
        self._shared.asked[question.nonce] = OpenQuestion(
            conversation, self._acts.persona.name, self._acts.message.author, question, expires
        )
        try:
            async with asyncio.timeout(seconds + _LOOK_SECONDS):
                verdict = await channel.approve(question, seconds=seconds)
        except (ChannelError, TimeoutError):
            pass  # nobody could be asked, or nobody answered
        finally:
            del self._shared.asked[question.nonce]
            self._seconds_left -= clock.time() - began
            self._acts.show(Answered(question.nonce, verdict))
        return verdict


def _named(person: Author) -> str:
    """Quote a person's name for a refusal: it is a stranger's word, and must say nothing else."""
    return f'"{prompt_name(person.name) or "somebody"}"'


def argument_lines(arguments: Mapping[str, Any]) -> str:
    """Write arguments as lines that a person can read, and in which nothing passes for another line."""
    lines = []
    for name, value in json.loads(as_json(dict(arguments))).items():
        text = json.dumps(value, ensure_ascii=False)
        shown = "".join(
            c if c.isprintable() else c.encode("ascii", "backslashreplace").decode() for c in text
        )
        lines.append(f"{name}: {_cut(shown, _LONGEST_VALUE)}")
    return _cut("\n".join(lines), _LONGEST_ARGUMENTS)


def _cut(text: str, longest: int) -> str:
    return without_middle(text, longest, " … ({} characters left out) … ")


async def _guarded(what: str, tool: Tool, context: Context) -> bool:
    assert tool.when is not None
    with foreign(what):
        verdict = tool.when(context)
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)
