"""The parser of the command language: prose, commands in all their forms, reasoning, tool calls.

`states` tells how it works, and `argument` reads what is hardest: where an argument ends.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pixi.core.language.argument import AT_ONCE, Argument
from pixi.core.language.events import (
    CommandEnded,
    CommandStarted,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.language.states import (
    ARGUMENT,
    BARE,
    BREAK,
    ENDED,
    GENTLE,
    NEED_MORE,
    OPENING,
    PROSE,
    THOUGHT,
    TOOL_CALL,
    UNCLEAN,
    NeedMore,
    RewindBuffer,
    State,
    unbroken,
)
from pixi.core.language.vocabulary import (
    END_THINK,
    END_TOOL,
    FILL,
    MEANING,
    Opening,
    end_of_thought_begun,
    end_of_tool_begun,
    json_end,
    people_named,
    tag_at,
    vocabulary,
)

_meaning = re.compile(f"[{MEANING}{UNCLEAN}]").search
"""Find what makes a piece of an argument more than plain text."""
_act = re.compile(f"[]:：】］<{UNCLEAN}]").search
"""Find what could open or end anything in a piece of prose."""
_EYES: Final = ":="
_IDLE: Final = 24
"""Characters of prose that may wait to be read until something in them could act."""

# A bracket counts only before what may be a name: a run of brackets is passed over in one step.
_PROSE_STOP: Final = re.compile(rf"[\[【［](?={FILL}(?:[\w/]|\Z))|[<\n\\{BREAK}]")
_ORNAMENT: Final = re.compile(r"[ \t]*(?:(?:[-*+>]|\d{1,2}[.)])[ \t]*)*[*_`~]*")
_ORNAMENT_BEGUN: Final = re.compile(_ORNAMENT.pattern + r"\d{0,2}")
_MARKS: Final = re.compile(r"[*_`~]*$")
_OPENING_FENCE: Final = re.compile(r"\s*```\w{0,16}[ \t]*\n\s*")
_CLOSING_FENCE: Final = re.compile(r"[ \t]{0,8}```[ \t]{0,8}(\n)?")
_CLOSING_FENCE_BEGUN: Final = re.compile(r"[ \t]{0,8}`{0,3}[ \t]{0,8}")
_ORNAMENTED: Final = 64
"""Characters of a line that may all be ornament of the command behind them."""
_LEAD: Final = 65_536
"""Characters of leading prose that wait to be told from reasoning which ends in a lone `</think>`."""
_BARE_STOP: Final = re.compile(r"[\[【［<]")
_BARE_LONGEST: Final = 4_096
"""Characters behind `[SEND]` in which its closing tag is looked for."""
_PAYLOAD_STOP: Final = re.compile(rf'["\\]|{END_TOOL.pattern}', re.IGNORECASE)
_AT_ONCE: Final = 1_024
"""Characters that `closing` reads in one step, and `feed` beyond those of its piece: some milliseconds."""


class CommandStream:
    """A sans-IO parser of one reply: `feed` it text in any pieces, then `close` it.

    Args:
        names: the registered commands: a mapping of name to aliases, or names alone (the aliases of
            built-in ones are known). None: the built-in commands.
        people: names of those the persona answers; a prose line that begins with one of them and a
            colon is the model playing the user, and ends the reply.
    """

    __slots__ = (
        "_argument",
        "_bare",
        "_beginnings",
        "_buffer",
        "_calm",
        "_expecting",
        "_fenced",
        "_in_string",
        "_leading",
        "_line_start",
        "_mark",
        "_marks",
        "_people",
        "_prose",
        "_prose_at_line_start",
        "_prose_size",
        "_state",
        "_tags_end",
        "_tool",
        "_usual",
        "_vocabulary",
        "_whole",
    )

    # Of a bare command or a tool call, behind which all is in doubt until it is closed:
    _bare: Opening
    _tool: str
    _mark: int
    _in_string: bool

    def __init__(
        self, names: Mapping[str, Iterable[str]] | Iterable[str] | None = None, *, people: Iterable[str] = ()
    ) -> None:
        self._vocabulary = vocabulary(names)
        self._usual = self._vocabulary.usual
        self._whole = self._vocabulary.whole
        self._beginnings = self._vocabulary.beginnings
        self._people = people_named(tuple(people))
        self._buffer = RewindBuffer()
        self._argument = Argument(self._buffer, self._vocabulary)
        self._state = PROSE
        # Parts of the open argument where a piece of plain text is only added to them; else None.
        self._calm: list[str] | None = None
        # Nothing is unread but what a usual opening may begin with, and nothing is held back.
        self._expecting = True
        # Prose: it is held back where it may be an ornament of the next command, or reasoning.
        self._prose: list[str] = []
        self._prose_size = 0
        self._prose_at_line_start = True  # what is held back begins a line
        self._line_start = True  # what is read next does
        self._leading = True  # nothing but prose came: it may be reasoning
        self._fenced = False  # a fence that was opened round the whole reply is not closed
        self._marks = ""  # emphasis that was opened round a command and is to be closed behind it
        self._tags_end = True  # a closing tag of a tool call may still come

    @property
    def ended(self) -> bool:
        """The reply is over though its stream may go on: what follows is not the reply's."""
        return self._buffer.ended

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the reply; gives what became certain by it."""
        parts = self._calm
        if parts and text:
            # Nearly every piece is plain text of an argument: this path is what a chunk costs.
            stop = _meaning(text)
            if stop is None:
                parts.append(text)
                return [CommandText(text)]
            at = stop.start()
            if text[at] == "]" and self._argument.plain:
                return self._close_usual(text, at)
        elif self._expecting:
            return self._open_usual(text)
        return self._read(text)

    def _open_usual(self, text: str) -> list[Event]:
        """Read the usual opening of a command and a plain beginning of its argument, or usual commands."""
        buffer = self._buffer
        unread = buffer.text + text
        if unread in self._beginnings:
            buffer.text = unread
            return []
        opening, colon, said = unread.partition(":")
        if not colon:
            opening, _, said = unread.partition("：")
        usual = self._usual.get(opening)
        if usual is None or (self._prose_at_line_start and unread[0] == " "):
            return self._read(text)
        said = said.lstrip(" ")
        if not said or said[0].isspace() or _meaning(said):
            whole = self._whole(unread)
            return self._read_usual(unread, whole) if whole else self._read(text)
        self._expecting = self._leading = self._line_start = self._prose_at_line_start = False
        buffer.text = self._marks = ""  # what follows the last command did not close the marks
        self._state = ARGUMENT
        self._calm = self._argument.open_plainly(usual.name, said)
        return [*usual.events, CommandText(said)]

    def _read_usual(self, unread: str, whole: re.Match[str] | None) -> list[Event]:
        """Read usual commands that are whole, the first of which was found, and what follows them."""
        events: list[Event] = []
        at = 0
        while whole:
            usual, said = self._usual[whole[1]], whole[2]
            events += (*usual.events, CommandText(said), CommandEnded(usual.name, said.rstrip()))
            at = whole.end()
            whole = self._whole(unread, at)
        self._leading = self._line_start = self._prose_at_line_start = False
        self._buffer.text = self._marks = ""
        return events + self._open_usual(unread[at:])

    def _close_usual(self, text: str, at: int) -> list[Event]:
        """Read plain text and the bracket at `text[at]`, which closes the command unless it ends a face."""
        argument = self._argument
        said, rest = text[:at], text[at + 1 :]
        if (said or argument.parts[-1])[-1] in _EYES:
            return self._read(text)
        self._state = PROSE
        self._calm = None
        self._expecting = True
        events: list[Event] = [CommandText(said)] if said else []
        events.append(argument.close_plainly(said))
        buffer = self._buffer
        buffer.at = 0
        if rest in self._beginnings:
            buffer.text = rest
            return events
        buffer.text = ""
        return events + self._open_usual(rest)

    def _read(self, text: str) -> list[Event]:
        """Read any text, however it is written."""
        events: list[Event] = []
        self._expecting = False
        if text and not self._buffer.final:
            self._buffer.append(text)
            self._run(events, len(text) + _AT_ONCE)
            argument = self._argument
            self._calm = argument.parts if argument.calm else None
        return events

    def _run(self, events: list[Event], characters: int) -> None:
        """Read on as far as the text goes, but no further than so many characters."""
        buffer = self._buffer
        while characters > 0 and self._state is not ENDED:
            before = buffer.start + buffer.at
            state = (
                self._argument.read(events) if self._state is ARGUMENT else _READ[self._state](self, events)
            )
            if state is NEED_MORE:
                if buffer.final:
                    self._state = ENDED
                return
            self._state = state
            characters -= max(0, buffer.start + buffer.at - before)

    def close(self) -> list[Event]:
        """End the reply; give what was still open or held back. Further calls give nothing."""
        return [event for events in self.closing() for event in events]

    def closing(self) -> Iterator[list[Event]]:
        """Do as `close`, in steps between which others may do something.

        What a reply left open is read again from where that began, which may be all of it. Breaking this off
        and beginning it anew gives the rest.
        """
        buffer = self._buffer
        buffer.end()
        self._calm = None
        if self._expecting and not buffer.text.strip():
            self._state = ENDED
            if buffer.text:
                yield [Prose(buffer.text)]
        self._expecting = False
        while self._state is not ENDED:
            events: list[Event] = []
            self._run(events, _AT_ONCE)
            yield events

    # --- prose -----------------------------------------------------------------------------------------

    def _read_prose(self, events: list[Event]) -> State | NeedMore:
        buffer = self._buffer
        if not buffer.final and len(buffer.text) - buffer.at < _IDLE:
            rest = buffer.text[buffer.at :]
            if self._leading and not _act(rest):
                return NEED_MORE
            if rest in self._beginnings and not (self._prose or self._marks or buffer.waiting):
                buffer.text, buffer.at = rest, 0
                self._expecting = True
                return NEED_MORE
        state = self._close_marks() or self._read_prose_on(events)
        if state is NEED_MORE:
            self._give_prose(events)
        return state

    def _close_marks(self) -> NeedMore | None:
        """Pass over the emphasis behind a command."""
        if marks := self._marks:
            buffer = self._buffer
            here = buffer.text[buffer.at : buffer.at + len(marks)]
            if here != marks and marks.startswith(here) and not buffer.final:
                return NEED_MORE
            if here == marks:
                buffer.at += len(marks)
            self._marks = ""
        return None

    def _read_prose_on(self, events: list[Event]) -> State | NeedMore:
        buffer = self._buffer
        for _ in AT_ONCE:
            if self._line_start and self._begin_line() is NEED_MORE:
                return NEED_MORE
            text, at = buffer.text, buffer.at
            stop = _PROSE_STOP.search(text, at)
            buffer.at = index = stop.start() if stop else len(text)
            if index > at:
                self._hold(text[at:index])
            if stop is None:
                return NEED_MORE
            state = self._prose_character(text[index], text, index, events)
            if state is not PROSE:
                return state
        return PROSE

    def _begin_line(self) -> NeedMore | None:
        """Look whether the line is somebody else's, or the end of a fence round the whole reply."""
        buffer = self._buffer
        while True:
            text, at, final = buffer.text, buffer.at, buffer.final
            speaks = self._people.speak(text, at, final)
            if speaks is NEED_MORE:
                return NEED_MORE
            if speaks:
                buffer.cut(at)
            elif self._fenced:
                fence = _CLOSING_FENCE.match(text, at)
                if fence and (fence[1] or (final and fence.end() == len(text))):
                    self._fenced = False
                    buffer.at = fence.end()
                    continue
                if not final and _CLOSING_FENCE_BEGUN.fullmatch(text, at):
                    return NEED_MORE
            self._line_start = False
            return None

    def _prose_character(
        self, character: str, text: str, index: int, events: list[Event]
    ) -> State | NeedMore:
        """Read a character that may mean something. `PROSE`: go on."""
        buffer = self._buffer
        match character:
            case "\n":
                self._line_start = True
            case "\\":
                # An escaped bracket opens nothing; a message may show it as it stands.
                if index + 1 == len(text) and not buffer.final:
                    return NEED_MORE
                if text[index + 1 : index + 2] in ("[", "]"):
                    character = text[index : index + 2]
            case "<":
                return self._read_tag(text, index, events)
            case character if character == BREAK:  # behind a `<` that begins no tag
                buffer.at += 1
                return PROSE
            case _:
                return self._read_bracket(text, index, events)
        self._hold(character)
        buffer.at += len(character)
        return PROSE

    def _read_bracket(self, text: str, index: int, events: list[Event]) -> State | NeedMore:
        buffer = self._buffer
        opening = self._vocabulary.opening(text, index, buffer.final)
        if opening is NEED_MORE:
            return NEED_MORE
        if opening is not None:
            if not opening.name:
                buffer.at = len(text)
                return PROSE
            self._end_prose(events)
            buffer.at = opening.start
            if opening.bare:
                self._bare = opening
                self._mark = buffer.mark(buffer.at)
                return BARE
            self._argument.open(opening)
            return OPENING
        closing = self._vocabulary.closing(text, index, buffer.final)
        if closing is NEED_MORE:
            return NEED_MORE
        if closing is None:
            self._hold(text[index])
        buffer.at = closing.end if closing else index + 1  # a closing tag that closes nothing is dropped
        return PROSE

    def _read_tag(self, text: str, index: int, events: list[Event]) -> State | NeedMore:
        buffer = self._buffer
        tag = tag_at(text, index, buffer.final)
        if tag is NEED_MORE:
            return NEED_MORE
        if tag is None or (tag.kind == "tool" and not tag.tool):
            self._hold("<")
            buffer.at += 1
            return PROSE
        if tag.kind == "end":
            buffer.cut(index)
            return PROSE
        buffer.at += len(tag.text)
        if tag.kind == "special":
            return PROSE
        prose = self._take_prose()
        # What leads a reply up to a lone `</think>` is reasoning whose opening the server kept.
        lone = self._leading and tag.kind == "end_think"
        if prose.strip() or (prose and not lone):
            events.append(Thought(prose) if lone else Prose(prose))
        self._leading = False
        self._line_start = self._prose_at_line_start = True
        if tag.kind == "think":
            return THOUGHT
        if tag.kind == "end_think":
            return PROSE
        if tag.text.endswith("/>"):
            events.append(ToolCallEnded(tag.tool, ""))
            return PROSE
        self._tool = tag.tool
        self._in_string = False
        self._mark = buffer.mark(buffer.at)
        return TOOL_CALL

    # --- what is held back of prose --------------------------------------------------------------------

    def _hold(self, text: str) -> None:
        """Hold prose back until it is certain what it is."""
        self._prose.append(text)
        self._prose_size += len(text)
        if self._prose_size > _LEAD:
            self._leading = False

    def _take_prose(self) -> str:
        """Return all that is held back, and hold nothing."""
        text = "".join(self._prose)
        self._prose.clear()
        self._prose_size = 0
        return text

    def _give_prose(self, events: list[Event]) -> None:
        """Give out what is certain by now; all of it at the end of the text."""
        if not self._prose or (self._leading and not self._buffer.final):
            return
        text = self._take_prose()
        if not self._buffer.final and (ornament := self._ornament(text, _ORNAMENT_BEGUN)):
            text = text.removesuffix(ornament)
            self._hold(ornament)
        if text:
            self._prose_at_line_start = text[-1] == "\n"
            events.append(Prose(text))

    def _end_prose(self, events: list[Event]) -> None:
        """Give out all but the ornament of the command that opens here; its marks close behind that."""
        text = self._take_prose()
        ornament = self._ornament(text, _ORNAMENT)
        text = text.removesuffix(ornament)
        if self._leading and _OPENING_FENCE.fullmatch(text):
            self._fenced, text = True, ""
        self._leading = self._prose_at_line_start = False
        marks = _MARKS.search(ornament)
        self._marks = marks[0][::-1] if marks else ""
        if text:
            events.append(Prose(text))

    def _ornament(self, text: str, pattern: re.Pattern[str]) -> str:
        """Return what at the end of the text may belong to a command behind it.

        Args:
            text: prose that is held back.
            pattern: of a line that is ornament as a whole.
        """
        window = text[-_ORNAMENTED - 1 :]  # with the line break before it
        line = window[window.rfind("\n") + 1 :]
        whole_line = "\n" in window or (self._prose_at_line_start and len(text) <= _ORNAMENTED)
        if whole_line and pattern.fullmatch(line):
            return line
        marks = _MARKS.search(line)
        return marks[0] if marks else ""

    # --- commands --------------------------------------------------------------------------------------

    def _read_opening(self, events: list[Event]) -> State | NeedMore:
        return self._argument.begin(events)

    def _read_bare(self, events: list[Event]) -> State | NeedMore:
        """Look for what ends the argument of a bare command.

        Up to a closing tag, everything is its argument. Without a tag, only what touches the bracket is:
        `[SEND]hello`, but not `[SEND]` and a sentence behind it. The reply ends at its token.
        """
        buffer = self._buffer
        while True:
            text, final = buffer.text, buffer.final
            stop = _BARE_STOP.search(text, buffer.at)
            buffer.at = at = stop.start() if stop else len(text)
            if buffer.start + at - self._mark > _BARE_LONGEST:
                return self._end_bare(events, "")
            if stop is None:
                return self._end_touching(events, complete=False) if final else NEED_MORE
            if text[at] == "<":
                tag = tag_at(text, at, final)
                if tag is NEED_MORE:
                    return NEED_MORE
                if tag is not None and tag.kind == "end":
                    return self._end_touching(events, complete=False)
            else:
                closing = self._vocabulary.closing(text, at, final)
                opening = None if closing else self._vocabulary.opening(text, at, final)
                if closing is NEED_MORE or opening is NEED_MORE:
                    return NEED_MORE
                if closing and closing.name == self._bare.name:
                    return self._end_bare(events, buffer.since(), behind=closing.end)
                if opening is not None:
                    return self._end_touching(events)
            buffer.at += 1

    def _end_touching(self, events: list[Event], *, complete: bool = True) -> State:
        """End a bare command that no tag closes."""
        said = self._buffer.since()
        if said[:1].isspace():
            return self._end_bare(events, "")
        return self._end_bare(events, said, behind=self._buffer.at, complete=complete or not said)

    def _end_bare(
        self, events: list[Event], said: str, *, behind: int | None = None, complete: bool = True
    ) -> State:
        """End a bare command; the reply goes on at a place, or right behind its bracket."""
        if behind is None:
            self._buffer.rewind(self._mark)
        else:
            self._buffer.at = behind
        self._buffer.forget()
        name, target, said = self._bare.name, self._bare.target, unbroken(said)
        argument = said.strip()
        events.append(CommandStarted(name, target))
        if argument:
            events.append(CommandText(said))
        events.append(CommandEnded(name, argument, complete, target))
        return PROSE

    # --- what is not the reply -------------------------------------------------------------------------

    def _read_thought(self, events: list[Event]) -> State | NeedMore:
        buffer = self._buffer
        text, at = buffer.text, buffer.at
        end = END_THINK.search(text, at)
        until = end.start() if end else len(text) if buffer.final else end_of_thought_begun(text, at)
        if until > at:
            events.append(Thought(unbroken(text[at:until])))
        buffer.at = end.end() if end else until
        return PROSE if end else NEED_MORE

    def _read_tool_call(self, events: list[Event]) -> State | NeedMore:
        """Look for the closing tag outside of JSON strings."""
        buffer = self._buffer
        if buffer.final and not self._tags_end:
            return self._end_broken_call(events)
        careful = self._argument.broken < GENTLE  # else the first closing tag is the end
        for _ in AT_ONCE:
            text, at = buffer.text, buffer.at
            stop = _PAYLOAD_STOP.search(text, at)
            if stop is None:
                if buffer.final:
                    return self._end_broken_call(events)
                buffer.at = end_of_tool_begun(text, at)
                return NEED_MORE
            buffer.at = stop.end()
            if stop[0] == "\\":
                if self._in_string and stop.end() == len(text) and not buffer.final:
                    buffer.at = stop.start()
                    return NEED_MORE
                buffer.at = min(stop.end() + self._in_string, len(text))
            elif stop[0] == '"':
                self._in_string = not self._in_string and careful
            elif not self._in_string:
                buffer.at = stop.start()
                return self._end_call(events, buffer.since(), stop.end())
        return TOOL_CALL

    def _end_broken_call(self, events: list[Event]) -> State:
        """End a tool call whose payload is broken: at the first closing tag, or where its JSON ends."""
        buffer = self._buffer
        buffer.rewind(self._mark)
        self._argument.broken += 1
        text, at = buffer.text, buffer.at
        end = END_TOOL.search(text, at) if self._tags_end else None
        self._tags_end = end is not None
        until, behind = end.span() if end else (json_end(text, at),) * 2
        return self._end_call(events, text[at:until], behind)

    def _end_call(self, events: list[Event], payload: str, behind: int) -> State:
        self._buffer.at = behind
        self._buffer.forget()
        events.append(ToolCallEnded(self._tool, unbroken(payload.strip())))
        return PROSE


_READ: Final = {
    PROSE: CommandStream._read_prose,
    OPENING: CommandStream._read_opening,
    BARE: CommandStream._read_bare,
    THOUGHT: CommandStream._read_thought,
    TOOL_CALL: CommandStream._read_tool_call,
}
