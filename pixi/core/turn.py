"""A turn, sans-IO: what to ask the model, what its reply means, and what of it joins the history."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, assert_never

from msgspec.structs import replace

from pixi.core.language import NOTE, Thought, unbroken
from pixi.core.llm import (
    MOST_SOURCES,
    AssistantLine,
    Cited,
    Delta,
    Finished,
    Line,
    PromptProgress,
    Repeats,
    Request,
    Text,
    ToolCall,
    ToolLine,
    ToolSchema,
    Usage,
    UserLine,
    is_sources_note,
    presentable,
    sources_note,
)
from pixi.core.message import Image
from pixi.core.reading import SILENCE, CommandEvent, ProsePolicy, ReplyReading, joined, written
from pixi.core.spending import Limits, counted

UNANSWERED = "This was stopped before it was done."
"""The answer to a call whose tool was not waited for: a call never stands without one."""

_ESCAPED_BREAK = re.compile(r"(?<!\\)((?:\\\\)*)\\u2060")


class Round:
    """A request to the model and all that came of it.

    Args:
        reading: of the reply.

    Attributes:
        broken: its stream broke off unseen, and it was asked again: nothing of it joins the history.
        calls: those that the model asked for; `answers` to them, None while there is none.
        cited: pages of the web that were not cited before.
        refused: calls came though no more may be made.
    """

    __slots__ = ("answers", "broken", "calls", "cited", "reading", "refused")

    def __init__(self, reading: ReplyReading) -> None:
        self.reading = reading
        self.broken = False
        self.calls: list[ToolCall] = []
        self.answers: list[tuple[str, tuple[Image, ...]] | None] = []
        self.cited: list[Cited] = []
        self.refused = False

    def take_call(self, call: ToolCall) -> None:
        """Add a call that the model asked for. Control words that its prompt held broken are made whole."""
        arguments = _ESCAPED_BREAK.sub(r"\1", unbroken(call.arguments))
        self.calls.append(call if arguments == call.arguments else replace(call, arguments=arguments))
        self.answers.append(None)

    def lines(self, names: Mapping[str, Iterable[str]]) -> list[Line]:
        """Return what was done, as delivered: clean commands, where they are from, calls with their answers.

        `names`: the commands, with their aliases.
        """
        clean = [
            (act.separator, written(act.name, act.argument, names, act.target))
            for act in self.reading.acts
            # Where something is from, the model may not say.
            if act.delivered and not (act.name == NOTE and is_sources_note(act.argument))
        ]
        if clean and self.cited and NOTE in names:
            clean.append(("\n", written(NOTE, sources_note(self.cited), names)))
        text = joined(clean)
        if all(answer is None for answer in self.answers):  # calls that nobody began are not history
            return [AssistantLine(text)] if text else []
        answers = [(UNANSWERED, ()) if answer is None else answer for answer in self.answers]
        return [
            AssistantLine(text, tuple(self.calls)),
            *(
                ToolLine(call.id, call.name, text, images)
                for call, (text, images) in zip(self.calls, answers, strict=True)
            ),
        ]


# Tool calls accepted per round. Calls above `Limits.tool_calls` get an error as their result; calls above
# this number are ignored, unless the limit itself is higher.
_MOST_CALLS = 64


class Turn:
    """Ask while `wants_model`: `request`, `feed` each delta, `end_round`, then `answer` the `calls`.

    Args:
        prefix: the static lines before the history.
        history: the conversation so far, frozen.
        said: what people wrote, the line that this turn answers.
        names: the commands, with their aliases.
        people: names of those it answers, so that a model which writes their part is stopped.
        tools: what the model may call.
        search: its provider may search the web, as long as the model may call something.
        limits: how much it may do; over one the turn is `closed`.
        prose: what becomes of text outside commands.
        grammar: what the reply is held to, at a model that is not offered the tools.
        repeats: what the first reply may say again of what was said before; later ones tell of results.
        key: makes the ids of calls in the text form unlike those of other turns.

    Attributes:
        finish: how the last reply ended.
        steps: requests made so far.
        usage: tokens of all requests so far.
        ends: what came of each reply that was heard out: it tells who wrote.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_grammar",
        "_key",
        "_limits",
        "_names",
        "_people",
        "_policy",
        "_reading",
        "_repeats",
        "_rounds",
        "_said",
        "_search",
        "_sources",
        "_state",
        "_tools",
        "_tools_are_over",
        "ends",
        "finish",
        "steps",
        "usage",
    )

    _reading: ReplyReading  # of the last round, from the first request on

    def __init__(
        self,
        *,
        prefix: Sequence[Line],
        history: Sequence[Line],
        said: UserLine,
        names: Mapping[str, Iterable[str]],
        people: Iterable[str] = (),
        tools: Sequence[ToolSchema] = (),
        search: bool = False,
        limits: Limits | None = None,
        prose: ProsePolicy = "auto",
        grammar: str | None = None,
        repeats: Repeats = "free",
        key: str = "",
    ) -> None:
        self._before = (*prefix, *history)
        self._said = said
        self._names = names
        self._people = tuple(people)
        self._tools = tuple(tools)
        self._search = search
        self._sources: dict[str, Cited] = {}  # by their addresses
        self._limits = limits or Limits()
        self._policy = prose
        self._grammar = grammar
        self._repeats = repeats
        self._key = key
        self.finish: Literal["stop", "length", "limit"] = "stop"
        self.steps = 0
        self.usage = Usage()
        self.ends: list[Finished] = []
        self._state: Literal["ask", "read", "calls", "done"] = "ask"
        self._rounds: list[Round] = []
        self._counted = Finished()  # of the last request, by the server
        self._tools_are_over = False

    @property
    def wants_model(self) -> bool:
        """Return whether there is something to ask the model."""
        return self._state == "ask"

    @property
    def closed(self) -> bool:
        """True if the reply is over, though its stream may go on: at a limit, or where it plays a person."""
        return bool(self._rounds) and self._reading.closed

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the round that just ended and still want an answer."""
        if self._state != "calls":
            return ()
        last = self._rounds[-1]
        return tuple(c for c, answer in zip(last.calls, last.answers, strict=True) if answer is None)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return what joins the history: what people wrote, and what was done, as delivered and no more.

        The last line is always the persona's; where it said nothing, that is written there.
        """
        lines = self._lines()
        if not isinstance(lines[-1], AssistantLine):
            lines.append(AssistantLine(SILENCE))
        return tuple(lines)

    @property
    def limits(self) -> set[str]:
        """The names of the limits that it reached, as far as they lie in what the model wrote."""
        reached = {each.reading.limit for each in self._rounds} - {""}
        if self._tools and self.steps > self._limits.tool_steps:
            reached.add("tool_steps")
        if self.finish == "length":
            reached.add("max_tokens")
        return reached

    @property
    def sources(self) -> tuple[Cited, ...]:
        """The pages of the web that the model's provider cited, as they may be shown."""
        return tuple(self._sources.values())

    def request(self) -> Request:
        """Return the next request: the one before and a tail. The last one has no tools, and no search."""
        lines = (*self._before, *self._lines())
        self._state = "read"
        self.steps += 1
        self._counted = Finished()
        self._begin_round()
        tools = self._tools if self._takes_calls else ()
        repeats = self._repeats if len(self._whole) == 1 else "free"
        search = self._search and self._takes_calls
        return Request(lines, tools, self._grammar, search=search, repeats=repeats)

    def feed(self, delta: Delta) -> list[CommandEvent]:
        """Take what the model yielded; return the command events to show and to perform, in order."""
        if type(delta) is Text:  # the one that comes hundreds of times
            return self._reading.feed(delta.text)
        match delta:
            case ToolCall():
                self._take_call(delta)
            case Finished(reason, usage):
                self._counted = delta
                self.usage += usage
                self.ends.append(delta)
                if not self._reading.over:
                    self.finish = reason
            case Cited():
                page = presentable(delta)
                if page and page.url not in self._sources and len(self._sources) < MOST_SOURCES:
                    self._sources[page.url] = page
                    self._rounds[-1].cited.append(page)
            case Text() | Thought() | PromptProgress():
                pass  # reasoning is nobody's business, and what was read of the prompt is no part of a reply
            case _:
                assert_never(delta)
        return []

    def closing(self) -> Iterator[list[CommandEvent]]:
        """Yield what the ended stream left open, in steps; `end_round` returns what is left after them."""
        return self._reading.closing()

    def end_round(self) -> list[CommandEvent]:
        """End the stream; return what was still open, and prose if it is to be sent."""
        events = self._close_reply()
        last = self._rounds[-1]
        if last.calls and not self._reading.over:
            self._state = "calls"
            return events
        self._state = "done"
        no_command = not any(r.reading.acts for r in self._whole)
        prose = [stretch for r in self._whole for stretch in r.reading.prose]
        if prose and no_command and self._policy == "auto":
            events += self._reading.message("\n\n".join(prose), complete=self.finish == "stop")
            self._note_limit()
        return events

    def ask_anew(self, request: Request) -> None:
        """Throw a reply away that was a repeat, and of which nothing was performed: the same is asked again.

        Its stream may have been left before the server counted: then what it used is estimated.
        """
        if self._counted.usage == Usage():
            self.usage += self.used(request, failed=False).usage
        self._rounds.pop()
        self._repeats = "none"
        self._state = "ask"
        self.finish = "stop"

    def ask_again(self) -> None:
        """Throw away a reply whose stream broke off while nothing of it was seen: the same is asked again.

        Its commands keep their numbers, and nothing of them joins the history.
        """
        self._rounds[-1].broken = True
        self._state = "ask"
        self.finish = "stop"

    def break_off(self) -> list[CommandEvent]:
        """End the turn, since its stream failed; return the open command, as far as it got."""
        events = self._close_reply() if self._state == "read" else []
        self._state = "done"
        return events

    def exceed(self) -> None:
        """Close the reply, and let no round follow: a limit outside of the reply's text was reached."""
        if self._rounds:
            self._reading.exceed()
        self._state = "done"
        self.finish = "limit"

    def used(self, request: Request, *, failed: bool) -> Finished:
        """Return how the last request ended, with its use; see `pixi.core.spending.counted`."""
        return counted(self._counted, request, self._reading.length, failed=failed)

    def refuse(self) -> None:
        """Do not ask the model at all; `say` then gives what is said in its place."""
        self._begin_round()
        self._state = "done"
        self.finish = "limit"

    def end_tools(self) -> None:
        """Make the next round the last one, without tools."""
        self._tools_are_over = True

    def say(self, text: str) -> list[CommandEvent]:
        """Say something in the model's place; return the events of that command."""
        return self._reading.message(text) if self._rounds else []

    def answer(self, call: ToolCall, text: str, images: tuple[Image, ...] = ()) -> None:
        """Give a call its result. When all are answered, the turn wants the model again."""
        last = self._rounds[-1]
        last.answers[last.calls.index(call)] = (text, images)  # no two have one id
        if self._state == "calls" and None not in last.answers:
            self._state = "ask"

    def delivered(self, number: int) -> None:
        """Note that a command was performed; `number` counts the commands that ended in the turn, from 0."""
        for reply in self._rounds:
            acts = reply.reading.acts
            if number < len(acts):
                acts[number].delivered = True
                return
            number -= len(acts)

    @property
    def _whole(self) -> list[Round]:
        """The rounds whose streams did not break off, or were seen in part."""
        return [each for each in self._rounds if not each.broken]

    @property
    def _takes_calls(self) -> bool:
        return self.steps <= self._limits.tool_steps and not self._tools_are_over

    def _begin_round(self) -> None:
        used = sum(len(reply.reading.acts) for reply in self._rounds)
        self._reading = ReplyReading(
            self._names,
            people=self._people,
            limits=self._limits,
            commands_left=self._limits.commands - used,
            prose=self._policy,
        )
        self._rounds.append(Round(self._reading))

    def _close_reply(self) -> list[CommandEvent]:
        """End the reading, and take the calls that it found in their text form."""
        reading = self._reading
        events = reading.close()
        for call in reading.calls:
            self._take_call(ToolCall("", call.name, call.payload))
        self._note_limit()
        return events

    def _note_limit(self) -> None:
        if self._reading.over or self._rounds[-1].refused:
            self.finish = "limit"

    def _take_call(self, call: ToolCall) -> None:
        last = self._rounds[-1]
        if not self._takes_calls:  # the round without tools: whatever is called now, an answer must come
            last.refused = True
            return
        if len(last.calls) >= max(_MOST_CALLS, self._limits.tool_calls):
            return
        taken = {other.id for other in last.calls}
        number = len(last.calls)
        while not call.id or call.id in taken:  # a model may copy an id that was made here
            call = replace(call, id=f"call_{self._key}_{self.steps}_{number}")
            number += 1
        last.take_call(call)

    def _lines(self) -> list[Line]:
        lines: list[Line] = [self._said]
        for reply in self._whole:
            lines += reply.lines(self._names)
        return lines
