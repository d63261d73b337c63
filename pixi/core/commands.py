"""The inline command language: a reply's text in, in any pieces, events out."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pixi.core.argument import Argument
from pixi.core.language import (
    BUILT_IN,
    CommandEnded,
    CommandStarted,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.mending import Mender
from pixi.core.payload import Payload
from pixi.core.prose import ProseText
from pixi.core.tags import tag_at
from pixi.core.tape import Mark, Tape
from pixi.core.vocabulary import Opening, people_named, vocabulary

__all__ = [
    "BUILT_IN",
    "CommandEnded",
    "CommandStarted",
    "CommandStream",
    "CommandText",
    "Event",
    "Prose",
    "Thought",
    "ToolCallEnded",
]

# Characters that end, nest, hide or need mending: a piece without them is text, and needs no closer look.
_MEANING: Final = frozenset("[]【】［］\\`\n\r<\xa0\u200b\u2060\ufeff") | {
    chr(code) for code in range(0xD800, 0xE000)
}
_means_nothing = _MEANING.isdisjoint
_PROSE_STOP: Final = re.compile(r"[\[【［<\n\\]")
_BRACKET: Final = re.compile(r"[\[【［]")
_END_THINK: Final = re.compile(r"</think(?:ing)?\s{0,4}>", re.IGNORECASE)
_BARE: Final = 4_096
"""Characters behind a bare `[SEND]` in which `[/SEND]` is looked for."""
_GENTLE: Final = 16
"""How many broken openings are each read again to the end; after them the rest is read gently at once."""

_new = object.__new__
_set_text = CommandText.__dict__["text"].__set__  # the slot itself: half the cost of a frozen __init__


class CommandStream:
    """A sans-IO parser of one reply: `feed` it text in any pieces, then `close` it.

    Args:
        names: the registered commands: a mapping of name to aliases, or names alone (the aliases of
            built-in ones are known). None: the built-in commands.
        people: names of those the persona answers; a prose line that begins with one of them and a
            colon is the model playing the user, and ends the reply.

    Attributes:
        ended: the reply is over though its stream may go on: what follows is not the reply's.
    """

    __slots__ = (
        "_argument",
        "_bare",
        "_broken",
        "_closed",
        "_line_start",
        "_marks",
        "_mender",
        "_parts",
        "_payload",
        "_people",
        "_prose",
        "_quiet",
        "_read",
        "_started",
        "_tape",
        "_vocabulary",
        "ended",
    )

    def __init__(
        self,
        names: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
        *,
        people: Iterable[str] = (),
    ) -> None:
        if names is None:
            names = BUILT_IN
        if not isinstance(names, Mapping):
            names = {name: BUILT_IN.get(name.lower(), ()) for name in names}
        self.ended = False
        self._vocabulary = vocabulary(tuple((name, tuple(aliases)) for name, aliases in names.items()))
        self._people = people_named(tuple(people))
        self._tape = Tape()
        self._mender = Mender()
        self._prose = ProseText()
        self._read = self._read_prose
        self._line_start = True
        self._marks = ""  # emphasis that was opened round a command and is to be closed behind it
        self._argument: Argument | None = None
        self._parts: list[str] = []  # the pieces of the open argument
        self._started = False
        self._quiet = False  # inside an argument with nothing in doubt
        self._bare: tuple[str, Mark] | None = None
        self._payload: Payload | None = None
        self._broken = 0
        self._closed = False

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the reply; gives what became certain by it."""
        # Nearly every piece is plain text of an argument: this path is what a chunk costs.
        if self._quiet and text and _means_nothing(text):
            self._parts.append(text)
            event: CommandText = _new(CommandText)
            _set_text(event, text)
            return [event]
        if self.ended or self._closed:
            return []
        text = self._mender.mend(text)
        if not text:
            return []
        if self._quiet and self._argument is not None:
            self._argument.resume("".join(self._parts[-2:]))
        self._tape.append(text)
        return self._run(final=False)

    def close(self) -> list[Event]:
        """The reply is over; gives what was still open or held back. Further calls give nothing."""
        if self.ended or self._closed:
            return []
        if self._quiet and self._argument is not None:
            self._argument.resume("".join(self._parts[-2:]))
        if rest := self._mender.close():
            self._tape.append(rest)
        return self._run(final=True)

    def _run(self, *, final: bool) -> list[Event]:
        events: list[Event] = []
        while self._read(events, final or self.ended):
            pass
        if final or self.ended:
            self._closed = True
            self._argument = None
        self._quiet = self._argument is not None and self._argument.quiet
        return events

    # --- prose -----------------------------------------------------------------------------------------

    def _read_prose(self, events: list[Event], final: bool) -> bool:
        """Read prose up to a command, a tag, or the end. True: read on, with `self._read` as it is now."""
        if self._close_marks(final):
            return False
        switched = self._read_prose_on(events, final)
        if not switched and (text := self._prose.take(final)):
            events.append(Prose(text))
        return switched

    def _close_marks(self, final: bool) -> bool:
        """Pass over the emphasis behind a command. True: the text ends inside what may be it."""
        if not self._marks:
            return False
        tape, marks = self._tape, self._marks
        here = tape.text[tape.at : tape.at + len(marks)]
        if here != marks and marks.startswith(here) and not final:
            return True
        if here == marks:
            tape.at += len(marks)
        self._marks = ""
        return False

    def _read_prose_on(self, events: list[Event], final: bool) -> bool:
        tape, prose = self._tape, self._prose
        while True:
            text, at = tape.text, tape.at
            if self._line_start:
                theirs = self._people.speak(text, at, final)
                if theirs == "more":
                    return False
                if theirs:
                    return self._end_reply()
                self._line_start = False
            stop = _PROSE_STOP.search(text, at)
            index = stop.start() if stop else len(text)
            if index > at:
                prose.add(text[at:index])
                tape.at = index
            if stop is None:
                return False
            match text[index]:
                case "\n":
                    prose.add("\n")
                    tape.at = index + 1
                    self._line_start = True
                case "\\":
                    # An escaped bracket opens nothing; a message may show it as it stands.
                    if index + 1 == len(text) and not final:
                        return False
                    tape.at = min(index + 2, len(text)) if text[index + 1 : index + 2] in "[]" else index + 1
                    prose.add(text[index : tape.at])
                case "<":
                    done = self._read_tag(events, final)
                    if done is not None:
                        return done
                case _:
                    done = self._read_bracket(events, final)
                    if done is not None:
                        return done

    def _read_bracket(self, events: list[Event], final: bool) -> bool | None:
        """A bracket in prose. None: go on with the prose."""
        tape = self._tape
        opening = self._vocabulary.opening(tape.text, tape.at, final)
        if isinstance(opening, Opening) and opening.bare:
            behind = tape.text[opening.start : opening.start + 1]
            if not behind and not final:
                return False
            if behind == "(":
                opening = None  # the text of a link
        if isinstance(opening, Opening):
            text, self._marks = self._prose.before_command()
            if text:
                events.append(Prose(text))
            tape.at = opening.start
            self._open(opening)
            return True
        if opening == "more":
            return False
        if opening == "cut":
            tape.at = len(tape.text)
            return False
        closing = self._vocabulary.closing(tape.text, tape.at, final)
        if closing == "more":
            return False
        if closing is None:
            self._prose.add(tape.text[tape.at])
            tape.at += 1
        else:
            tape.at = closing[1]
        return None

    def _read_tag(self, events: list[Event], final: bool) -> bool | None:
        """A `<` in prose. None: go on with the prose."""
        tape, prose = self._tape, self._prose
        tag = tag_at(tape.text, tape.at, final)
        if tag == "more":
            return False
        if tag is None:
            prose.add("<")
            tape.at += 1
            return None
        tape.at += len(tag.text)
        if tag.kind == "end":
            return self._end_reply()
        if tag.kind == "special":
            return None
        text = prose.take(final=True)
        lone = tag.kind == "end_think" and prose.leading
        if text.strip() or (text and not lone):
            # What leads a reply up to a lone `</think>` is reasoning whose opening the server kept.
            events.append(Thought(text) if lone else Prose(text))
        prose.leading = False
        self._line_start = True
        if tag.kind == "end_think":
            return None
        if tag.kind == "tool":
            self._payload = Payload(tag.tool, tape, careful=self._broken < _GENTLE)
            self._read = self._read_payload
        else:
            self._read = self._read_thought
        return True

    def _end_reply(self) -> bool:
        """What follows is not the reply's."""
        self.ended = True
        self._tape.text = self._tape.text[: self._tape.at]
        self._read = self._read_prose
        # Once more with nothing left, so that the prose held back comes out.
        self._line_start = False
        return True

    # --- commands --------------------------------------------------------------------------------------

    def _open(self, opening: Opening) -> None:
        self._parts = []
        self._started = False
        if opening.bare:
            self._bare = (opening.name, self._tape.mark(self._tape.at))
            self._read = self._read_bare
        else:
            gentle = self._broken >= _GENTLE
            self._argument = Argument(opening, self._tape, self._vocabulary, gentle=gentle)
            self._read = self._read_argument

    def _read_argument(self, events: list[Event], final: bool) -> bool:
        argument = self._argument
        assert argument is not None
        state = argument.read(final)
        if not self._started and (argument.began or state == "ended"):
            self._started = True
            events.append(CommandStarted(argument.name))
        if argument.fresh:
            text = "".join(argument.fresh)
            argument.fresh.clear()
            self._parts.append(text)
            events.append(CommandText(text))
        if state == "more":
            return False  # and with `final`: cut before its argument began
        events.append(CommandEnded(argument.name, "".join(self._parts).strip(), argument.complete))
        self._broken += argument.broken
        self.ended = self.ended or argument.over
        self._argument = None
        self._read = self._read_prose
        return True

    def _read_bare(self, events: list[Event], final: bool) -> bool:
        """Behind `[SEND]`: `hello[/SEND]` makes that its argument, anything else leaves it without one."""
        assert self._bare is not None
        tape = self._tape
        name, start = self._bare
        while True:
            bracket = _BRACKET.search(tape.text, tape.at)
            tape.at = bracket.start() if bracket else len(tape.text)
            if bracket is None:
                if final or tape.read_since(start) > _BARE:
                    return self._end_bare(events, name, start, None)
                return False
            closing = self._vocabulary.closing(tape.text, tape.at, final)
            opening = None if closing else self._vocabulary.opening(tape.text, tape.at, final)
            if closing == "more" or opening == "more":
                return False
            if closing is not None and closing[0] == name:
                return self._end_bare(events, name, start, closing[1])
            if opening is not None:
                return self._end_bare(events, name, start, None)
            tape.at += 1

    def _end_bare(self, events: list[Event], name: str, start: Mark, end: int | None) -> bool:
        """End it: with what stands before the closing tag that ends at `end`, or without an argument."""
        tape = self._tape
        behind_bracket = len(tape.text) - tape.at
        behind_tag = len(tape.text) - end if end is not None else 0
        tape.rewind(start)
        text = "" if end is None else tape.text[tape.at : len(tape.text) - behind_bracket]
        if end is not None:
            tape.at = len(tape.text) - behind_tag
        tape.forget()
        events.append(CommandStarted(name))
        if text.strip():
            events.append(CommandText(text))
        events.append(CommandEnded(name, text.strip(), True))
        self._bare = None
        self._read = self._read_prose
        return True

    # --- what is not the reply -------------------------------------------------------------------------

    def _read_thought(self, events: list[Event], final: bool) -> bool:
        tape = self._tape
        text, at = tape.text, tape.at
        end = _END_THINK.search(text, at)
        until = end.start() if end else len(text)
        if end is None and not final:
            tag = text.rfind("<", max(at, len(text) - 16))
            if tag >= 0 and tag_at(text, tag, final) == "more":
                until = tag
        if until > at:
            events.append(Thought(text[at:until]))
        tape.at = end.end() if end else until
        if end is not None:
            self._read = self._read_prose
        return end is not None

    def _read_payload(self, events: list[Event], final: bool) -> bool:
        assert self._payload is not None
        text = self._payload.read(final)
        if text is None:
            return False
        events.append(ToolCallEnded(self._payload.tool, text))
        self._broken += self._payload.broken
        self._payload = None
        self._read = self._read_prose
        return True
