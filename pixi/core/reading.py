"""A reply while it is read: its commands as they come, its prose, its calls, and its limits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, assert_never

from msgspec import Struct

from pixi.core.control_words import broken
from pixi.core.language import (
    NOTE,
    REACT,
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
from pixi.core.llm import AssistantLine, Line
from pixi.core.spending import Limits

SILENCE = "[SEND]"
"""Line of a turn in which nothing was said: chat templates want one, and the language has this one."""

_HARMLESS = re.compile(r"[^\[\]【】［］`\\<]*")  # nothing in it that the command language could stumble over
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_BRACKET = re.compile(r"[\[\]【】［］]")
_TICK = "ˋ"  # looks like a backtick
_CODE_BLOCK = "```\ncode\n```"


def written(name: str, argument: str, names: Mapping[str, Iterable[str]], target: int = 0) -> str:
    """Return a command as a model should have written it: `[SEND: hi]`, or `[SEND #3: hi]` with a target.

    Brackets that do not balance are escaped and control words broken, so that the reading of
    `[NAME: argument]` gives `argument`.
    """
    capitals = name.upper() if name.upper().lower() == name else name
    opening = f"[{capitals} #{target}:" if target else f"[{capitals}:"
    if not argument:
        return f"{opening}]" if target else f"[{capitals}]"
    plain = f"{opening} {argument}]"
    if _HARMLESS.fullmatch(argument):
        return plain
    argument_as_read, argument = argument, broken(argument)
    # The worst that may follow in its line: a fence, which one that was never closed would pair with.
    tail, end = f"\n[{capitals}: {_CODE_BLOCK}]", CommandEnded(name, _CODE_BLOCK)
    forms = (argument, _escaped_outside_code(argument), _escaped(argument))
    for form, room in product(forms, ("", " ", "\n")):  # room: `\\]` at the end would be a literal bracket
        text = f"{opening} {form}{room}]"
        alone = [CommandEnded(name, argument_as_read, target=target)]
        if commands_in(text, names) == alone and commands_in(text + tail, names) == [*alone, end]:
            return text
    closed = f"{opening} {_escaped_outside_code(argument)}\n```\n]"
    if len(commands_in(closed, names)) == 1 and commands_in(closed + tail, names)[1:] == [end]:
        return closed
    return f"{opening} {_escaped(argument.replace('`', _TICK))} ]"


def commands_in(text: str, names: Mapping[str, Iterable[str]]) -> list[CommandEnded]:
    """Return the whole commands in a text; a broken one counts as none."""
    stream = CommandStream(names)
    events = [*stream.feed(text), *stream.close()]
    return [event for event in events if isinstance(event, CommandEnded) and event.complete]


def joined(commands: Sequence[tuple[str, str]]) -> str:
    """Join clean commands, each given with the separator that stood before it."""
    return "".join(
        text if number == 0 else separator + text for number, (separator, text) in enumerate(commands)
    )


def separator_of(between: str) -> str:
    """Return what joins two commands: the reply's own white space where it is short, else a line break."""
    return between if len(between) <= 2 and (not between or between.isspace()) else "\n"


def _escaped(text: str) -> str:
    return _BRACKET.sub(lambda bracket: "\\" + bracket[0], text)


def _escaped_outside_code(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))


CommandEvent = CommandStarted | CommandText | CommandEnded
"""Events of a reply that are shown and performed."""

ProsePolicy = Literal["auto", "send", "drop"]
"""Treatment of text outside commands: `auto` sends it as one message if the turn had no command at
all, `send` sends each stretch of it as a message, `drop` none."""


class Act(Struct):
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

    Attributes:
        acts: the commands that ended, in order.
        calls: those in their text form.
        prose: the text outside commands, by stretches, stripped; those that were sent are not among them.
        closed: the reply is over, though its stream may go on.
        over: it was over a limit.
        limit: the name of that limit; "": it lies outside of the reply's text, or there was none.
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
        self.acts: list[Act] = []
        self.calls: list[ToolCallEnded] = []
        self.prose: list[str] = []
        self.closed = self.over = False
        self.limit = ""

    @property
    def length(self) -> int:
        """Characters that came."""
        return self._limits.reply_characters - self._left

    def feed(self, text: str) -> list[CommandEvent]:
        """Take a piece of the reply; return the command events that became certain."""
        if self.closed:
            return []
        self._left -= len(text)
        if self._left < 0:
            last = self._sift(self._parser.feed(text[: self._left]))
            self.closed = True
            return last
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

    def close(self) -> list[CommandEvent]:
        """End the reply; return what the parser still held, unless a limit was reached before."""
        if self.over:
            return []
        events = [event for step in self.closing() for event in step]
        events += self._take_prose()
        if self._left < 0:
            self.exceed("reply_characters")
        return events

    def closing(self) -> Iterator[list[CommandEvent]]:
        """Yield most of what `close` gives, in steps between which others may run; then call `close`."""
        self.closed = True
        for events in () if self.over else self._parser.closing():
            yield self._sift(events)
            if self.over:
                return

    def exceed(self, limit: str = "") -> None:
        """Stop reading: the limit of this name was reached."""
        self.closed = self.over = True
        self.limit = self.limit or limit

    def message(self, text: str, *, complete: bool = True) -> list[CommandEvent]:
        """Add a message that stood in no command, prose or words said for the model; return its events."""
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
        """Return the command events among the parser's; note prose, calls and limits."""
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
        """End the open command in this piece, where it grows too long, and with it the reply."""
        argument = "".join(self._argument)[: self._limits.argument_characters].strip()
        self.acts.append(Act(self._name, argument, self._separator, target=self._target))
        self.exceed("argument_characters")
        ended = CommandEnded(self._name, argument, False, self._target)
        return [CommandText(event.text[: self._argument_left]), ended]

    def _take_prose(self) -> list[CommandEvent]:
        """Note the stretch of prose that ends here; return it as a message where all prose is sent."""
        text = "".join(self._between).strip()
        self._between.clear()
        if not text:
            return []
        if self._policy == "send":
            return self.message(text)
        self.prose.append(text)
        return []


_LAST = 5  # messages that are not to be said again
_WORDS = 4  # a message of no more may be: "good night!"
_UNSPACED_PER_WORD = 2  # characters, in scripts that write no spaces between words

_APOSTROPHES = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}]")
_WORD = re.compile(r"[^\W_]+")
# Thai, Lao, Burmese, Khmer, kana, and the characters of Chinese.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")

# How people ask for the same again, in the languages of the slash commands. Who complains does not ask.
_ASKING = re.compile(
    r"""
    # English
    (?<!n't\ )(?<!n’t\ )(?<!not\ )(?<!never\ )
    (
        \brepeat\b(?!\ yourself)
        | \b(say|tell|write|send|show|sing|spell|type|read|explain)\b.{0,40}
          \bagain\b(?<!\band\ again)(?!\ and)
    )
    | \bonce\ more\b | \bone\ more\ time\b | \b(come|once)\ again\b | ^again\b
    | \bwhat\ (did|do)\ you\ (just\ )?say\b | \bpardon\b
    # German
    | \bnoch\ ?(ein)?mal\b | \bwiederhol(e|en|t)?\b | \bwie\ bitte\b | \bwas\ hast\ du\ (gerade\ )?gesagt\b
    # Spanish, Portuguese
    | \botra\ vez\b | \bde\ nuevo\b | \brep[ií]t[ae]s?(lo|la|me|melo)?\b | \bqu[eé]\ (has\ dicho|dijiste)\b
    | \bde\ novo\b | \boutra\ vez\b | \bmais\ uma\ vez\b | \brepet(e|ir|irlo|irmelo)\b
    # French
    | \bencore\ une\ fois\b | \brép[éè]te[rsz]?\b | \bredis\b | \bredites\b
    # Japanese, Chinese
    | もう一度 | もう一回 | もっかい | 繰り返 | くりかえ | リピート
    | 再[说說讲講念写寫发發来來]一[遍次回] | 重[复複]
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)

_HELD = frozenset({NOTE, REACT})  # what may be held back together with the message that follows


# Messages that were said already: small models say the same again, word for word, whatever they are told.
#
# `RepeatFilter` stands between what a reply is read into and what is performed of it. A message is shown
# while it is written, so whether it is a repeat must be known before: it is held back as long as its
# beginning is that of one of the last messages, and so is what stands before it (a note, a reaction).
# Nearly every message has words of its own within the first few, and flows from there on. Of a reply that
# turns out to begin with a repeat nothing was seen, and the model can be asked anew.
#
# Only the first message of a reply is looked at. What follows comes when something was seen already; and
# the refrain of a song that is sung in several messages is none of our business.


class RepeatFilter:
    """Holds the beginning of a reply back until its first message is surely no repeat: `sift` each piece.

    If `found`, nothing of the reply was let through; either drop the filter and ask the model anew, or let
    the repeat stand. `release` gives what is still held; it must be called at the end of the reply.

    Args:
        said: the messages that were said before, oldest first.

    Attributes:
        found: the reply begins with a repeat.
    """

    __slots__ = ("_held", "_in_message", "_said", "_text", "_watching", "found")

    def __init__(self, said: Sequence[str]) -> None:
        last = (bare_words(text) for text in said[-_LAST:])
        self._said = [words for words in last if _is_long(words)]
        self._held: list[CommandEvent] = []
        self._text = ""  # of the message, as far as it was read
        self._in_message = False
        self._watching = bool(self._said)
        self.found = False

    def sift(self, events: list[CommandEvent]) -> list[CommandEvent]:
        """Take events as they were read; return those that may be shown and performed, in order."""
        if not self._watching:
            return events
        self._held += events
        for event in () if self.found else events:
            if not self._may_begin_a_repeat(event):
                return self.release()
            if self.found:
                break
        return []

    def release(self) -> list[CommandEvent]:
        """Hold nothing back any more; return what was held."""
        self._watching = False
        held, self._held = self._held, []
        return held

    def _may_begin_a_repeat(self, event: CommandEvent) -> bool:
        match event:
            case CommandStarted(name):
                self._in_message = name == SEND
                return self._in_message or name in _HELD
            case CommandText(text):
                if self._in_message:
                    self._text += text
                words = bare_words(self._text)
                return any(earlier.startswith(words) for earlier in self._said)
            case CommandEnded(argument=argument):
                self.found = self._in_message and bare_words(argument) in self._said
                return self.found or not self._in_message


def bare_words(text: str) -> str:
    """Return the words of a message alone: no case, no punctuation, no emoji."""
    return " ".join(_WORD.findall(_APOSTROPHES.sub("", text.casefold())))


def last_messages(history: Sequence[Line], names: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the last messages that the persona said, oldest first.

    Args:
        history: of the conversation.
        names: the commands, with their aliases.
    """
    said: list[str] = []
    for line in reversed(history):
        if len(said) >= _LAST:
            break
        if isinstance(line, AssistantLine):
            said[:0] = [act.argument for act in commands_in(line.text, names) if act.name == SEND]
    return said[-_LAST:]


def wants_repeat(asked: str, said: Sequence[str]) -> bool:
    """Return True if somebody asks for the same again, or writes one of these messages out."""
    words = bare_words(asked)
    written_out = (f" {bare_words(text)} " in f" {words} " for text in said if _is_long(bare_words(text)))
    return _ASKING.search(asked) is not None or any(written_out)


def _is_long(words: str) -> bool:
    return words.count(" ") >= _WORDS or len(_UNSPACED.findall(words)) > _WORDS * _UNSPACED_PER_WORD
