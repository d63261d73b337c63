"""The inline command language: a reply's text in, in any pieces, events out.

A well-formed command in capitals, as nearly all of them are, is read here in a few steps; everything
else is read by `Reader`, which knows the whole language and gives the same events.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pixi.core.language import (
    BUILT_IN,
    CommandEnded,
    CommandStarted,
    CommandText,
    Event,
    Planned,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.reader import Reader
from pixi.core.shortcuts import shortcuts
from pixi.core.vocabulary import Opening, people_named, vocabulary

__all__ = [
    "BUILT_IN",
    "CommandEnded",
    "CommandStarted",
    "CommandStream",
    "CommandText",
    "Event",
    "Planned",
    "Prose",
    "Thought",
    "ToolCallEnded",
]

# Characters that end, nest, hide or need mending: a piece without them is text, and needs no closer look.
_MEANING: Final = frozenset("[]【】［］\\`\n\r<\xa0\u200b\u2060\ufeff") | {
    chr(code) for code in range(0xD800, 0xE000)
}
_means_nothing = _MEANING.isdisjoint
_is_plain = (_MEANING | {":", "："}).isdisjoint  # a colon may make the line somebody else's

_SHORT: Final = 256
"""Longer pieces go to the reader at once: here, what is left of a piece is copied for each command in it."""
_BUILT_IN_WORDS: Final = tuple(BUILT_IN.items())

# Filling a slot directly costs half of what the __init__ of a frozen dataclass does.
_new = object.__new__
_set_text = CommandText.__dict__["text"].__set__
_set_name = CommandEnded.__dict__["name"].__set__
_set_argument = CommandEnded.__dict__["argument"].__set__
_set_complete = CommandEnded.__dict__["complete"].__set__
_set_target = CommandEnded.__dict__["target"].__set__


class CommandStream:
    """A sans-IO parser of one reply: `feed` it text in any pieces, then `close` it.

    Args:
        names: the registered commands: a mapping of name to aliases, or names alone (the aliases of
            built-in ones are known). None: the built-in commands.
        people: names of those the persona answers; a prose line that begins with one of them and a
            colon is the model playing the user, and ends the reply.
    """

    __slots__ = (
        "_between",
        "_closed",
        "_name",
        "_parts",
        "_passed",
        "_people",
        "_quiet",
        "_reader",
        "_shortcuts",
        "_words",
    )

    def __init__(
        self,
        names: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
        *,
        people: Iterable[str] = (),
    ) -> None:
        self._words = words_of(names)
        self._people = tuple(people)
        self._shortcuts = shortcuts(self._words)
        self._reader: Reader | None = None  # made when it is first needed; most replies never need it
        self._closed = False
        self._quiet = False  # inside an argument with nothing in doubt
        self._parts: list[str] = []  # the pieces of the open argument
        self._name = ""  # of the open command, while the reader knows nothing of it
        self._between: str | None = ""  # what follows the last command, while the reader knows nothing of it
        self._passed = False  # whether there was a last command

    @property
    def ended(self) -> bool:
        """The reply is over though its stream may go on: what follows is not the reply's."""
        return self._reader is not None and self._reader.ended

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the reply; gives what became certain by it."""
        if self._quiet:
            # Nearly every piece is plain text of an argument: this path is what a chunk costs.
            if text and _means_nothing(text):
                self._parts.append(text)
                event: CommandText = _new(CommandText)
                _set_text(event, text)
                return [event]
            if self._name and len(text) <= _SHORT:
                head, bracket, rest = text.partition("]")
                last = head or self._parts[-1]
                if bracket and last[-1] not in ":=" and _means_nothing(head):
                    return self._end(head, rest)
        elif self._between is not None and len(text) <= _SHORT:
            joined = self._between + text
            if joined in self._shortcuts.beginnings and (self._passed or joined[:1] != " "):
                self._between = joined
                return []
            if (events := self._begin(joined)) is not None:
                return events
            if self._reader is None and not self._passed and _is_plain(text) and len(joined) <= _SHORT:
                # Prose that leads a reply is kept back in any case: let it gather, to be looked at once.
                self._between = joined
                return []
        return self._read(text)

    def close(self) -> list[Event]:
        """The reply is over; gives what was still open or held back. Further calls give nothing."""
        return [event for events in self.closing() for event in events]

    def closing(self) -> Iterator[list[Event]]:
        """As `close`, in steps: of a long reply that left much open, all of it takes a while to read."""
        if self._closed or self.ended:
            return
        between = self._between
        if between is not None and self._passed and (not between or between.isspace()):
            if between:
                yield [Prose(between)]
        else:
            reader, text = self._hand_over("")
            events = reader.read(text)
            for step in reader.finish():
                yield events + step
                events = []
        self._closed = True
        self._quiet = False
        self._between = None

    def _begin(self, text: str) -> list[Event] | None:
        """The opening of a command and the beginning of its argument. None: the reader must look at it."""
        colon = text.find(":") + 1
        opening = self._shortcuts.openings.get(text[:colon])
        if opening is None or (opening.before == " " and not self._passed):
            return None
        argument = text[colon:].lstrip(" ")
        if not argument or argument[0].isspace():
            return None
        rest = None
        if not _means_nothing(argument):
            argument, bracket, rest = argument.partition("]")
            if not bracket or not argument or argument[-1] in ":=" or not _means_nothing(argument):
                return None
        self._between = None
        self._passed = True
        self._quiet = True
        self._name = opening.name
        self._parts = []
        if rest is not None:
            return [*opening.events, *self._end(argument, rest)]
        self._parts.append(argument)
        event: CommandText = _new(CommandText)
        _set_text(event, argument)
        return [*opening.events, event]

    def _end(self, head: str, rest: str) -> list[Event]:
        """The bracket that closes a command which the reader knows nothing of."""
        ended: CommandEnded = _new(CommandEnded)
        self._parts.append(head)
        _set_name(ended, self._name)
        _set_argument(ended, "".join(self._parts).strip())
        _set_complete(ended, True)
        _set_target(ended, 0)  # tidy openings name none
        self._name = ""
        self._quiet = False
        events: list[Event] = [ended]
        if head:
            event: CommandText = _new(CommandText)
            _set_text(event, head)
            events = [event, ended]
        if rest in self._shortcuts.beginnings:
            self._between = rest
            return events
        self._between = ""
        return events + self.feed(rest)

    def _read(self, text: str) -> list[Event]:
        """Let the reader look at it."""
        if not text or self._closed or self.ended:
            return []
        reader, text = self._hand_over(text)
        events = reader.read(text)
        self._quiet = reader.quiet
        self._parts = reader.parts
        self._between = reader.between
        self._passed = self._passed or self._between is not None
        return events

    def _hand_over(self, text: str) -> tuple[Reader, str]:
        """The reader, told what went past it; and the text that it must look at."""
        reader = self._reader
        if reader is None:
            reader = self._reader = Reader(
                vocabulary(self._words), people_named(self._people), self._shortcuts.beginnings
            )
        if self._name:
            reader.enter(Opening(self._name, "[", 0), self._parts)
            self._name = ""
        elif self._between is not None:
            text = self._between + text
            self._between = None
            if self._passed:
                reader.command_passed()
        return reader, text


def words_of(
    names: Mapping[str, Iterable[str]] | Iterable[str] | None,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each command's name and aliases, of any form in which a `CommandStream` takes them."""
    if names is None:
        return _BUILT_IN_WORDS
    if isinstance(names, Mapping):
        return tuple((name, tuple(aliases)) for name, aliases in names.items())
    return tuple((name, BUILT_IN.get(name.lower(), ())) for name in names)
