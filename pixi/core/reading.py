"""One reply while it is read: its commands as they come, its prose, its calls, and its limits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from pixi.core.language import (
    SEND,
    CommandEnded,
    CommandStarted,
    CommandStream,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.spending import Limits
from pixi.core.written import separator_of

CommandEvent = CommandStarted | CommandText | CommandEnded
"""What is to be shown and performed, of all that a reply holds."""

ProsePolicy = Literal["auto", "send", "drop"]
"""What becomes of text outside commands: `auto` sends it as one message if the turn had no command at
all, `send` sends each stretch of it as a message, `drop` none."""


@dataclass(slots=True)
class Act:
    """A command that ended, and the separator that stood before it.

    `target` is the number of the earlier message that it is about; 0: none was named.
    """

    name: str
    argument: str
    separator: str
    delivered: bool = False
    target: int = 0


class ReplyReading:
    """Reads one reply: `feed` it text, then `close` it.

    Args:
        names: the commands, with their aliases.
        people: names whose part the model may not write.
        limits: how long an argument and the reply may be.
        commands_left: how many commands the turn may still hold.
        prose: what becomes of text outside commands; of `auto` the turn decides.
    """

    __slots__ = (
        "_argument",
        "_argument_left",
        "_between",
        "_commands_left",
        "_left",
        "_limits",
        "_name",
        "_names",
        "_parser",
        "_policy",
        "_separator",
        "_target",
        "acts",
        "calls",
        "closed",
        "limit",
        "over",
        "prose",
    )

    acts: list[Act]
    """The commands that ended, in order."""
    calls: list[ToolCallEnded]
    """The calls in their text form."""
    prose: list[str]
    """The text outside commands, by stretches, stripped; those that were sent are not among them."""
    closed: bool
    """The reply is over, though its stream may go on."""
    over: bool
    """It was over a limit."""
    limit: str
    """The name of that limit; "": it lies outside of the reply's text, or there was none."""

    def __init__(
        self,
        names: Mapping[str, Iterable[str]],
        *,
        people: Iterable[str],
        limits: Limits,
        commands_left: int,
        prose: ProsePolicy,
    ) -> None:
        self._names = names
        self._limits = limits
        self._commands_left = commands_left
        self._policy = prose
        self._parser = CommandStream(names, people=people)
        self._left = limits.reply_characters
        self._between: list[str] = []  # prose since the last command
        self._separator = ""
        self._name = ""  # of the open command
        self._target = 0
        self._argument: list[str] = []
        self._argument_left = limits.argument_characters
        self.acts = []
        self.calls = []
        self.prose = []
        self.closed = self.over = False
        self.limit = ""

    @property
    def length(self) -> int:
        """Characters that came."""
        return self._limits.reply_characters - self._left

    def feed(self, text: str) -> list[CommandEvent]:
        """Take a piece of it; gives the command events that became certain."""
        if self.closed:
            return []
        self._left -= len(text)
        if self._left < 0:
            return self._feed_last(text)
        parser = self._parser
        events = parser.feed(text)
        # Nearly every piece is the next words of one message: this path is what a chunk costs.
        if len(events) == 1 and type(event := events[0]) is CommandText:
            self._argument.append(event.text)
            self._argument_left -= len(event.text)
            return [event] if self._argument_left >= 0 else self._cut_argument(event)
        if events:
            sifted = self._sift(events)
            if parser.ended:
                self.closed = True
            return sifted
        self.closed = parser.ended
        return []

    def _feed_last(self, text: str) -> list[CommandEvent]:
        """The piece in which the reply grows too long: what fits of it."""
        events = self._sift(self._parser.feed(text[: self._left]))
        self.closed = True
        return events

    def close(self) -> list[CommandEvent]:
        """The reply is over; gives what the parser still held, unless a limit was reached before."""
        if self.over:
            return []
        events = [event for step in self.closing() for event in step]
        events += self._take_prose()
        if self._left < 0:
            self.exceed("reply_characters")
        return events

    def closing(self) -> Iterator[list[CommandEvent]]:
        """Nearly all of what `close` gives, in steps between which others may do something; then `close`."""
        self.closed = True
        for events in () if self.over else self._parser.closing():
            yield self._sift(events)
            if self.over:
                return

    def exceed(self, limit: str = "") -> None:
        """A limit was reached: nothing more is read."""
        self.closed = self.over = True
        self.limit = self.limit or limit

    def message(self, text: str, *, complete: bool = True) -> list[CommandEvent]:
        """A message that no command held: prose, or words said in the model's place."""
        if SEND not in self._names or not self._commands_left:
            return []
        self._commands_left -= 1
        limit = self._limits.argument_characters
        if len(text) > limit:
            text, complete = text[:limit].strip(), False
            self.exceed("argument_characters")
        self.acts.append(Act(SEND, text, "\n"))
        return [CommandStarted(SEND), CommandText(text), CommandEnded(SEND, text, complete)]

    def _sift(self, events: list[Event]) -> list[CommandEvent]:
        """The command events among them; prose, calls and limits are taken note of."""
        sifted: list[CommandEvent] = []
        for event in events:
            if self.over:
                break
            match event:
                case CommandText(text):
                    self._argument.append(text)
                    self._argument_left -= len(text)
                    sifted += [event] if self._argument_left >= 0 else self._cut_argument(event)
                case CommandStarted():
                    sifted += self._start(event)
                case CommandEnded(name, argument, _, target):
                    self.acts.append(Act(name, argument, self._separator, target=target))
                    sifted.append(event)
                case Prose(text):
                    self._between.append(text)
                case ToolCallEnded():
                    self.calls.append(event)
                case Thought():
                    pass  # reasoning is nobody's business
                case _:
                    assert_never(event)
        return sifted

    def _start(self, event: CommandStarted) -> list[CommandEvent]:
        self._separator = separator_of("".join(self._between))
        sent = self._take_prose()
        if not self._commands_left:
            self.exceed("commands")
        if self.over:
            return sent
        self._commands_left -= 1
        self._name = event.name
        self._target = event.target
        self._argument.clear()
        self._argument_left = self._limits.argument_characters
        return [*sent, event]

    def _cut_argument(self, event: CommandText) -> list[CommandEvent]:
        """The open command ends in this piece, where it grows too long, and with it the reply."""
        argument = "".join(self._argument)[: self._limits.argument_characters].strip()
        self.acts.append(Act(self._name, argument, self._separator, target=self._target))
        self.exceed("argument_characters")
        ended = CommandEnded(self._name, argument, False, self._target)
        return [CommandText(event.text[: self._argument_left]), ended]

    def _take_prose(self) -> list[CommandEvent]:
        """Note the stretch of prose that ends here; gives it as a message where all prose is sent."""
        text = "".join(self._between).strip()
        self._between.clear()
        if not text:
            return []
        if self._policy == "send":
            return self.message(text)
        self.prose.append(text)
        return []
