"""Reads any reply, however it is written: prose, commands in all their forms, reasoning, tool calls."""

import re
from collections.abc import Container, Iterator
from typing import Final

from pixi.core.argument import Argument
from pixi.core.bare import BareCommand
from pixi.core.control_words import BREAK, unbroken
from pixi.core.language import CommandEnded, CommandStarted, CommandText, Event, Prose, Thought, ToolCallEnded
from pixi.core.mending import Mender
from pixi.core.payload import Payload
from pixi.core.prose import ProseText
from pixi.core.tags import tag_at
from pixi.core.tape import Tape
from pixi.core.vocabulary import FILL, Opening, People, Vocabulary

# A bracket counts only before what may be a name: a run of brackets is passed over in one step.
_PROSE_STOP: Final = re.compile(rf"[\[【［](?={FILL}(?:[\w/]|\Z))|[<\n\\{BREAK}]")
_END_THINK: Final = re.compile(r"</think(?:ing)?\s{0,4}>", re.IGNORECASE)
_SHORT: Final = 64
"""What follows a command is looked up as a whole only where it is short."""
_STEPS_AT_ONCE: Final = 4
"""Commands, stretches between them, or parts of long ones that are read in a step: some milliseconds."""
_GENTLE: Final = 4
"""How many broken openings are each read again to the end; after them the rest is read gently at once."""


class Reader:
    """The whole of the command language, one reply.

    Attributes:
        parts: the pieces of the open argument so far.
        ended: the reply is over though its stream may go on.
        quiet: inside an argument with nothing in doubt: text without a meaning of its own may go past
            the reader, if it is added to `parts`.
        between: what follows the last command, handed back unread because a tidy command may begin so;
            whole commands may go past the reader, if `command_passed` is told. None: nothing is.

    Args:
        beginnings: how tidy commands begin.
    """

    def __init__(
        self, vocabulary: Vocabulary, people: People, beginnings: Container[str] = frozenset()
    ) -> None:
        self.parts: list[str] = []
        self.ended = False
        self.quiet = False
        self.between: str | None = None
        self._beginnings = beginnings
        self._vocabulary = vocabulary
        self._people = people
        self._tape = Tape()
        self._mender = Mender()
        self._prose = ProseText()
        self._read = self._read_prose
        self._line_start = True
        self._marks = ""  # emphasis that was opened round a command and is to be closed behind it
        self._argument: Argument | None = None
        self._started = False
        self._bare: BareCommand | None = None
        self._payload: Payload | None = None
        self._broken = 0
        self._tags_end = True  # whether a closing tag of a tool call may still come

    def read(self, text: str) -> list[Event]:
        """The next piece."""
        text = self._mender.mend(text)
        self.between = None
        if not text:
            self.quiet = self.quiet and not self._mender.waiting
            return []
        self._catch_up()
        self._tape.append(text)
        return self._run(final=False)

    def finish(self) -> Iterator[list[Event]]:
        """There is no next piece: read what was held back, in steps between which others may do something.

        What a reply left open is read again from where that began, which may be all of it. Breaking this off
        and beginning it anew gives the rest.
        """
        self._catch_up()
        self.quiet = False
        if rest := self._mender.close():
            self._tape.append(rest)
        steps = True
        while steps:
            events: list[Event] = []
            for _ in range(_STEPS_AT_ONCE):
                steps = self._read(events, True)
                if not steps:
                    break
            yield events

    def command_passed(self) -> None:
        """A whole command, and what stood before it, went past the reader."""
        self._prose.command_passed()
        self._line_start = False

    def enter(self, opening: Opening, parts: list[str]) -> None:
        """The opening of a command and the beginning of its argument went past the reader."""
        self.command_passed()
        self.parts = parts
        self._argument = Argument(opening, self._tape, self._vocabulary, gentle=False)
        self._argument.resume("".join(parts[-2:]))
        self._started = True
        self.quiet = True
        self._read = self._read_argument

    def _catch_up(self) -> None:
        if self.quiet and self._argument is not None:
            self._argument.resume("".join(self.parts[-2:]))

    def _run(self, *, final: bool) -> list[Event]:
        events: list[Event] = []
        while self._read(events, final or self.ended):
            pass
        self.quiet = self._argument is not None and self._argument.quiet and not self._mender.waiting
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
                fence = prose.closing_fence(text, at, final)
                if fence == "more":
                    return False
                self._line_start = fence > at
                if self._line_start:
                    tape.at = fence
                    continue
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
                case character if character == BREAK:  # behind a `<` that begins no tag
                    tape.at = index + 1
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
        if tag is None or (tag.kind == "tool" and not tag.tool):
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
        prose.tag_passed()
        self._line_start = True
        if tag.kind == "end_think":
            return None
        if tag.kind == "tool":
            closed = tag.text.endswith("/>")
            careful = self._broken < _GENTLE
            self._payload = Payload(tag.tool, tape, careful=careful, ends=self._tags_end, empty=closed)
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
        self.parts = []
        self._started = False
        if opening.bare:
            self._bare = BareCommand(opening, self._tape, self._vocabulary)
            self._read = self._read_bare
        else:
            gentle = self._broken >= _GENTLE
            self._argument = Argument(opening, self._tape, self._vocabulary, gentle=gentle)
            self._read = self._read_argument

    def _read_argument(self, events: list[Event], final: bool) -> bool:
        argument = self._argument
        assert argument is not None
        state = argument.read(final)
        if argument.over and not argument.began:
            return self._drop_argument()
        if not self._started and (argument.began or state == "ended"):
            self._started = True
            events.append(CommandStarted(argument.name, argument.target))
        if text := argument.take_fresh():
            self.parts.append(text)
            events.append(CommandText(text))
        if state == "pause":
            return True
        if state == "more":
            return False  # and with `final`: cut before its argument began
        text = "".join(self.parts).strip()
        events.append(CommandEnded(argument.name, text, argument.complete, argument.target))
        self._broken += argument.broken
        self.ended = self.ended or argument.over
        self._argument = None
        self._read = self._read_prose
        return final or self.ended or not self._hand_back()

    def _drop_argument(self) -> bool:
        """The reply ended before the argument began."""
        self.ended = True
        self._argument = None
        self._read = self._read_prose
        return True

    def _hand_back(self) -> bool:
        """Whether what follows a command may be the beginning of a tidy one, and is not read here."""
        tape = self._tape
        if len(tape.text) - tape.at > _SHORT or self._marks or self._prose.fenced or self._mender.waiting:
            return False
        rest = tape.text[tape.at :]
        if rest not in self._beginnings:
            return False
        tape.at = len(tape.text)
        self.between = rest
        return True

    def _read_bare(self, events: list[Event], final: bool) -> bool:
        assert self._bare is not None
        content = self._bare.read(final)
        if content is None:
            return False
        name, target, said = self._bare.name, self._bare.target, unbroken(content.text)
        argument = said.strip()
        events.append(CommandStarted(name, target))
        if argument:
            events.append(CommandText(said))
        events.append(CommandEnded(name, argument, content.complete, target))
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
            events.append(Thought(unbroken(text[at:until])))
        tape.at = end.end() if end else until
        if end is not None:
            self._read = self._read_prose
        return end is not None

    def _read_payload(self, events: list[Event], final: bool) -> bool:
        assert self._payload is not None
        text = self._payload.read(final)
        if text is None:
            return False
        events.append(ToolCallEnded(self._payload.tool, unbroken(text)))
        self._broken += self._payload.broken
        self._tags_end = self._payload.ends
        self._payload = None
        self._read = self._read_prose
        return True
