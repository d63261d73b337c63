"""The argument of one command: where it ends, and what of it is certain while it is still being written.

These are the doubts about an argument (see `states`):

| doubt | likelier reading | dropped when | taken back when |
| --- | --- | --- | --- |
| face | `:]` does not close the command | another bracket does | its line ends |
| inner face | `:]` does not close an inner bracket | the command ends | its line ends |
| nested | a command that opens inside, or a closing tag, is text | the bracket comes | none comes |
| code | brackets behind backticks are text | the same backticks come | none come (in a span: on its line) |

A doubt of code begins at the first character that would mean something else outside: up to there both
readings are the same.
"""

import re
from typing import Final, Literal

from msgspec import Struct

from pixi.core.language.events import CommandEnded, CommandStarted, CommandText, Event
from pixi.core.language.states import (
    ARGUMENT,
    BREAK,
    ENDED,
    GENTLE,
    NEED_MORE,
    PROSE,
    NeedMore,
    RewindBuffer,
    State,
)
from pixi.core.language.vocabulary import CLOSERS, MEANING, Closing, Opening, Vocabulary, tag_at

_search: Final = re.compile(f"[{MEANING}]").search
_search_code: Final = re.compile(f"[`\n{BREAK}]").search
_TICKS: Final = re.compile(r"`+")
_BLANK: Final = re.compile(r"[^\S\n]*")
_SAME_BRACKETS: Final = re.compile(r"([\[【［])\1{0,1023}(?=\1)")
_BRACKETS: Final = frozenset("[]【】［］")
_FENCE: Final = 3  # backticks: fewer open a span
AT_ONCE: Final = range(64)
"""Characters with a meaning of their own that are read in one step."""
# Commands that may open on a line behind `:]` before that bracket is taken for the closing one: what is read
# twice stays a small multiple of the reply.
_NESTED_ON_A_LINE: Final = 3


Kind = Literal["face", "inner face", "nested", "code"]


class Doubt(Struct, frozen=True, gc=False):
    """A place to read again from, should the first reading turn out wrong.

    `depth` is the depth of brackets there, `pieces` how many pieces of the argument stood before it.
    """

    mark: int
    depth: int
    pieces: int


class Argument:
    """Reads the arguments of a reply's commands, one after the other: `open`, `begin`, then `read`.

    Attributes:
        calm: in an argument with nothing in doubt, and all read: a piece without a meaning of its own may be
            added to `parts` and given out, and nothing else changes.
        plain: as `calm`, and a `]` closes the command.
        parts: the pieces of the open argument so far.
        broken: how many commands of the reply had no end, so that all behind their beginning was read again.
    """

    __slots__ = (
        "_buffer",
        "_closer",
        "_code",
        "_complete",
        "_depth",
        "_doubts",
        "_emphasis",
        "_given",
        "_inner_close",
        "_name",
        "_nested_on_line",
        "_started",
        "_struck",
        "_target",
        "_vocabulary",
        "broken",
        "calm",
        "parts",
        "plain",
    )

    def __init__(self, buffer: RewindBuffer, vocabulary: Vocabulary) -> None:
        self._buffer = buffer
        self._vocabulary = vocabulary
        self.broken = 0
        self.calm = self.plain = False
        # Between two commands there is no code and no doubt, and the depth is 1.
        self._depth = 1  # of brackets
        self._code = 0  # backticks of the span or fence that is open; 0: none is
        self._doubts: dict[Kind, Doubt] = {}
        self._inner_close = 0  # the part that is a `]` of an inner pair, with only blanks behind; 0: none is
        self._nested_on_line = 0  # commands that opened on this line since a face

    # These belong to one command, and are set where it opens:
    parts: list[str]
    _name: str
    _target: int
    _closer: str
    _emphasis: str  # marks that opened in the opening, and may close behind its colon
    _struck: bool  # `<s>` stands open, so that `</s>` is its end and not the reply's
    _started: bool  # its start was given out
    _given: int  # how many of the parts were
    _complete: bool  # a bracket or a line closed it

    def open(self, opening: Opening) -> None:
        """Take the opening of a command."""
        self._name = opening.name
        self._target = opening.target
        self._closer = CLOSERS[opening.bracket]
        self._emphasis = opening.emphasis
        self._struck = self._started = False
        self._given = 0
        self.parts = []

    def open_plainly(self, name: str, text: str) -> list[str]:
        """Take the usual opening of a command, and plain text behind it that is given out elsewhere.

        Returns:
            The parts of the argument.
        """
        self._name = name
        self._target = 0
        self._closer = "]"
        self._struck = False
        self._started = self.calm = self.plain = True
        self.parts = parts = [text]
        return parts

    def close_plainly(self, text: str) -> CommandEnded:
        """Take the last plain text of a command, which is given out elsewhere, and end the command."""
        self.calm = self.plain = False
        self.parts.append(text)
        return CommandEnded(self._name, "".join(self.parts).strip(), True, self._target)

    def begin(self, events: list[Event]) -> State | NeedMore:
        """Skip to the first character of the argument."""
        buffer = self._buffer
        if emphasis := self._emphasis:
            here = buffer.text[buffer.at : buffer.at + len(emphasis)]
            if not buffer.final and here != emphasis and emphasis.startswith(here):
                return NEED_MORE
            if here == emphasis:
                buffer.at += len(here)
            self._emphasis = ""
        while True:
            blank = _BLANK.match(buffer.text, buffer.at)
            buffer.at = at = blank.end() if blank else buffer.at
            if at == len(buffer.text):
                return NEED_MORE
            if buffer.text[at] != "\n":
                return ARGUMENT
            opens = self._vocabulary.line_opens(buffer.text, at + 1, buffer.final)
            if opens is NEED_MORE:
                return NEED_MORE
            if opens:
                return self._give(events, self._end(at))
            buffer.at += 1

    def read(self, events: list[Event]) -> State | NeedMore:
        """Read on, and give out what became certain. `ARGUMENT`: as much was read as may be at once."""
        buffer, parts = self._buffer, self.parts
        if self.calm:
            self.calm = self.plain = False
            self._given = len(parts)
        state: State | NeedMore = ARGUMENT
        for _ in AT_ONCE:
            text, at = buffer.text, buffer.at
            stop = (_search_code if "code" in self._doubts else _search)(text, at)
            index = stop.start() if stop else len(text)
            if index > at:
                piece = text[at:index]
                if self._inner_close and not piece.isspace():
                    self._inner_close = 0
                parts.append(piece)
                buffer.at = index
            if not stop:
                state = self._end_of_text() if buffer.final else NEED_MORE
            elif self._code and text[index] != "`":
                state = self._in_code(text[index], index)
            else:
                state = _MEANS[text[index]](self, text, index)
            if state is not ARGUMENT:
                break
        return self._give(events, state)

    def _give(self, events: list[Event], state: State | NeedMore) -> State | NeedMore:
        """Give out the start of the command, the parts before the first doubt, and the end."""
        parts, given, ended = self.parts, self._given, state is PROSE
        certain = len(parts)
        if self._doubts or self._inner_close:
            for doubt in self._doubts.values():
                certain = min(certain, doubt.pieces)
            certain = min(certain, self._inner_close or certain)
        elif certain and state is NEED_MORE:
            buffer = self._buffer
            self.calm = buffer.at == len(buffer.text) and not buffer.waiting
            self.plain = self._depth == 1 and not self._code and self._closer == "]"
        if not self._started and (certain or ended):
            self._started = True
            events.append(CommandStarted(self._name, self._target))
        if certain > given:
            events.append(
                CommandText(parts[given] if certain == given + 1 else "".join(parts[given:certain]))
            )
            self._given = certain
        if ended:
            events.append(CommandEnded(self._name, "".join(parts).strip(), self._complete, self._target))
        return state

    # --- characters ------------------------------------------------------------------------------------

    def _break(self, text: str, index: int) -> State:
        self._buffer.at = index + 1
        return ARGUMENT

    def _in_code(self, character: str, index: int) -> State:
        """Read a character that would mean something outside of code."""
        if character == "\n" and self._code < _FENCE:
            return self._no_code(index)  # a span ends on its own line or was none
        if character == BREAK:
            return self._break("", index)
        if character != "\n" and "code" not in self._doubts:
            self._doubts["code"] = self._doubt(index)
        return self._take(character, index + 1)

    def _backslash(self, text: str, index: int) -> State | NeedMore:
        if index + 1 == len(text) and not self._buffer.final:
            return self._wait(index)
        literal = text[index + 1 : index + 2] in _BRACKETS
        return self._take(text[index + 1] if literal else "\\", index + 1 + literal)

    def _take(self, piece: str, behind: int) -> State:
        """Add a piece to the argument and go on behind it."""
        if self._inner_close and not piece.isspace():
            self._inner_close = 0
        self.parts.append(piece)
        self._buffer.at = behind
        return ARGUMENT

    def _wait(self, index: int) -> NeedMore:
        """Look at this place again when there is more."""
        self._buffer.at = index
        return NEED_MORE

    def _backticks(self, text: str, index: int) -> State | NeedMore:
        end, length = index + 1, 1
        if text[end : end + 1] == "`" and (run := _TICKS.match(text, index)):
            end = run.end()
            length = min(end - index, _FENCE)
        if end == len(text) and not self._buffer.final:
            # From three on it is a fence, however long: only three need to wait for what follows.
            if end - index > _FENCE:
                self._take(text[index : end - _FENCE], end - _FENCE)
            return self._wait(end - length)
        if not self._code:
            self._code = length
        elif self._code == length:
            self._code = 0
            if self._doubts.pop("code", None) and not self._doubts:
                self._buffer.forget()
        return self._take(text[index:end], end)

    def _no_code(self, index: int) -> State:
        """Read on at a place, as if the open backticks were text."""
        self._code = 0
        self._buffer.at = index
        if doubt := self._doubts.get("code"):
            self._take_back(doubt)
        return ARGUMENT

    def _open_bracket(self, text: str, index: int) -> State | NeedMore:
        bracket = text[index]
        tail = "".join(self.parts[-2:])[-2:]
        if bracket == "[" and (tail[-1:] in (":", "=") or tail == ":'"):
            if index + 1 == len(text) and not self._buffer.final:
                return self._wait(index)
            # `b=[1]` is none: a face does not stand in the middle of a word.
            if not (tail[0].isalnum() and text[index + 1 : index + 2].isalnum()):
                return self._take(bracket, index + 1)
        if run := _SAME_BRACKETS.match(text, index):
            # None but the last of a run can open a command.
            if CLOSERS[bracket] == self._closer:
                self._depth += run.end() - index
            return self._take(run[0], run.end())
        if "nested" not in self._doubts or "face" in self._doubts or self.broken >= GENTLE:
            state = self._open_nested(text, index)
            if state is not ARGUMENT:
                return state
        if CLOSERS[bracket] == self._closer:
            self._depth += 1
        return self._take(bracket, index + 1)

    def _open_nested(self, text: str, index: int) -> State | NeedMore:
        """Look for a command that opens here, or a closing tag of this one. `ARGUMENT`: go on."""
        final, doubts = self._buffer.final, self._doubts
        closing = self._vocabulary.closing(text, index, final)
        if closing is NEED_MORE:
            return self._wait(index)
        opening = None if closing else self._vocabulary.opening(text, index, final)
        if opening is NEED_MORE:
            return self._wait(index)
        if opening is not None:
            if self.broken >= GENTLE or not opening.name:
                return self._end(index)
            if "face" in doubts:
                self._nested_on_line += 1
                if self._nested_on_line > _NESTED_ON_A_LINE:
                    return self._believe()
        if "nested" not in doubts and (opening or (closing and closing.name == self._name)):
            doubts["nested"] = self._doubt(index)
        return ARGUMENT

    def _close_bracket(self, text: str, index: int) -> State:
        bracket = text[index]
        if bracket != self._closer:
            return self._take(bracket, index + 1)
        if bracket == "]" and self.parts and self.parts[-1][-1] in ":=":
            kind: Kind = "inner face" if self._depth > 1 else "face"
            self._doubts[kind] = self._doubt(index)
            if kind == "face":
                self._nested_on_line = 0
            return self._take(bracket, index + 1)
        self._depth -= 1
        if not self._depth:
            return self._end(index + 1)
        self._inner_close = len(self.parts)  # of two in a row, only the last can be the command's
        self.parts.append(bracket)
        self._buffer.at = index + 1
        return ARGUMENT

    def _angle(self, text: str, index: int) -> State | NeedMore:
        """Read a `<`: special tokens mean here what they mean anywhere, every other tag is only text."""
        tag = tag_at(text, index, self._buffer.final)
        if tag is NEED_MORE:
            return self._wait(index)
        if tag is None or tag.kind not in ("end", "special") or tag.text == "<s>" or self._struck:
            self._struck = tag is not None and (tag.text == "<s>" or (self._struck and tag.text != "</s>"))
            return self._take("<", index + 1)
        self._buffer.at = index
        if tag.kind == "end":
            self._buffer.cut(index)
        else:
            self._buffer.at += len(tag.text)
        return ARGUMENT

    # --- lines and ends --------------------------------------------------------------------------------

    def _line_break(self, text: str, index: int) -> State | NeedMore:
        if "face" in self._doubts or "inner face" in self._doubts:
            return self._believe()
        opens = self._vocabulary.line_opens(text, index + 1, self._buffer.final)
        if opens is NEED_MORE:
            return self._wait(index)
        if not opens:
            return self._take("\n", index + 1)
        if "nested" in self._doubts:
            # Its bracket is missing, so the command that opened inside it was meant to be one.
            return self._end_at_nested()
        if self._inner_close:
            del self.parts[self._inner_close]  # it was the command's
        return self._end(index)

    def _end_of_text(self) -> State:
        """End the argument in the gentler reading: the reply is over, and no bracket closed it."""
        doubts = self._doubts
        if "code" in doubts and self._code < _FENCE:
            return self._no_code(self._buffer.at)
        if "face" in doubts or "inner face" in doubts:
            return self._believe()
        if "code" in doubts:
            return self._no_code(self._buffer.at)
        if "nested" in doubts:
            return self._end_at_nested()
        if not self.parts:
            return ENDED
        return self._end(self._buffer.at, complete=False)

    def _believe(self) -> State:
        """Take the bracket of a face for the closing one: nothing else on its line closed."""
        face = self._doubts.get("face")
        self._take_back(face or self._doubts["inner face"])
        if face:
            return self._end(self._buffer.at + 1)
        self._depth -= 1
        return self._take("]", self._buffer.at + 1)

    def _end_at_nested(self) -> State:
        """End before the command that opens inside, or with the closing tag that stands there."""
        self.broken += 1
        buffer = self._buffer
        self._take_back(self._doubts["nested"])
        closing = self._vocabulary.closing(buffer.text, buffer.at, final=True)
        return self._end(closing.end if isinstance(closing, Closing) else buffer.at)

    def _end(self, behind: int, *, complete: bool = True) -> State:
        """End the command; the reply goes on at a place. All that was read is certain."""
        self._complete = complete
        self._buffer.at = behind
        self._buffer.forget()
        self._doubts.clear()
        self._inner_close = 0
        self._depth = 1
        self._code = 0
        return PROSE

    # --- doubts ----------------------------------------------------------------------------------------

    def _doubt(self, index: int) -> Doubt:
        return Doubt(self._buffer.mark(index), self._depth, len(self.parts))

    def _take_back(self, doubt: Doubt) -> None:
        """Read again from a doubt: this one and later ones are void."""
        self._buffer.rewind(doubt.mark)
        self._depth = doubt.depth
        self._code = 0
        del self.parts[doubt.pieces :]
        for kind, other in tuple(self._doubts.items()):
            if other.pieces >= doubt.pieces:
                del self._doubts[kind]
        if self._inner_close >= doubt.pieces:
            self._inner_close = 0
        if not self._doubts:
            self._buffer.forget()


_MEANS: Final = {
    BREAK: Argument._break,
    "`": Argument._backticks,
    "\\": Argument._backslash,
    "<": Argument._angle,
    "\n": Argument._line_break,
    **dict.fromkeys("[【［", Argument._open_bracket),
    **dict.fromkeys("]】］", Argument._close_bracket),
}
"""Readers of the characters that have a meaning outside of code."""
