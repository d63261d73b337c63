"""The argument of one command: where it ends, and what of it is certain while it is still being written."""

import re
from typing import Final, Literal

from pixi.core.control_words import BREAK
from pixi.core.doubts import Doubt, Doubts
from pixi.core.tags import tag_at
from pixi.core.tape import Tape
from pixi.core.vocabulary import CLOSERS, Opening, Vocabulary

_STOP: Final = re.compile(rf"[\[\]【】［］\\`\n<{BREAK}]")
_TICKS: Final = re.compile(r"`+")
_BLANK: Final = re.compile(r"[^\S\n]*")
_AT_ONCE: Final = 64  # characters with a meaning of their own
# Commands that may open on a line behind `:]` before that bracket is taken for the closing one: what
# is read twice stays a small multiple of the reply.
_NESTED_ON_A_LINE: Final = 3

_SAME_BRACKETS: Final = re.compile(r"([\[【［])\1*(?=\1)")
_BRACKETS: Final = frozenset("[]【】［］")

State = Literal["more", "pause", "ended"]
"""`more`: needs more text. `ended`: the command is whole, and the tape stands behind it. `pause`: as much was
read as may be at once, and `read` goes on with the rest."""


class Argument:
    """Reads one argument from a tape.

    Once ended, `complete` tells whether a bracket or a line closed it, `over` whether the reply itself
    ends here, and `broken` is 1 where all behind it must be read a second time.
    """

    def __init__(self, opening: Opening, tape: Tape, vocabulary: Vocabulary, *, gentle: bool) -> None:
        self.name = opening.name
        self.target = opening.target
        self.complete = True
        self.over = False
        self.broken = 0
        self._tape = tape
        self._vocabulary = vocabulary
        self._doubts = Doubts(tape)
        self._bracket = opening.bracket
        self._closer = CLOSERS[opening.bracket]
        self._emphasis = opening.emphasis
        self._gentle = gentle
        self._before = True  # still before the first character that is not blank
        self._began = False
        self._depth = 1
        self._tail = ""  # the last two characters, for emoticons
        self._code = 0  # length of the run of backticks that we are inside of; 3 and more is a fence
        self._nested_on_line = 0  # commands that opened on this line since `:]`
        self._struck = False  # `<s>` stands open, so that `</s>` is its end and not the reply's

    @property
    def began(self) -> bool:
        """Whether anything but white space and tokens was written."""
        return self._began

    @property
    def quiet(self) -> bool:
        """Whether the next piece is certain, unless it holds a character that means something."""
        read_up = self._tape.at == len(self._tape.text)
        return self._began and read_up and not self._doubts

    def resume(self, tail: str) -> None:
        """Go on reading after pieces that were certain and went past us; `tail` is their end."""
        self._before = False
        self._began = True
        self._emphasis = ""
        self._tail = tail[-2:]

    def take_fresh(self) -> str:
        """What became certain since this was last asked."""
        text = "".join(self._doubts.fresh)
        self._doubts.fresh.clear()
        return text

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, final: bool) -> State:
        """Read as far as the tape goes."""
        if self._before and (state := self._begin(final)) != "next":
            return state
        for _ in range(_AT_ONCE):
            tape = self._tape
            text, at = tape.text, tape.at
            stop = _STOP.search(text, at)
            if stop is None:
                self._take(text[at:], len(text))
                return self._end_of_text() if final else "more"
            index = stop.start()
            if index > at:
                self._take(text[at:index], index)
            state = self._character(text[index], index, final)
            if state != "next":
                return state
        return "pause"

    def _begin(self, final: bool) -> State | Literal["next"]:
        """Skip to the first character of the argument."""
        tape = self._tape
        if self._emphasis:
            here = tape.text[tape.at : tape.at + len(self._emphasis)]
            if not final and here != self._emphasis and self._emphasis.startswith(here):
                return "more"
            if here == self._emphasis:
                tape.at += len(here)
            self._emphasis = ""
        while True:
            blank = _BLANK.match(tape.text, tape.at)
            tape.at = blank.end() if blank else tape.at
            if tape.at == len(tape.text):
                return "more"
            if tape.text[tape.at] != "\n":
                self._before = tape.text[tape.at] == self._closer
                return "next"
            opens = self._vocabulary.line_opens(tape.text, tape.at + 1, final)
            if opens:
                return "more" if opens == "more" else self._finish()
            tape.at += 1

    def _character(self, character: str, index: int, final: bool) -> State | Literal["next"]:
        text = self._tape.text
        if character == BREAK:
            self._tape.at = index + 1
            return "next"
        if character == "`":
            return self._backticks(text, index, final)
        if self._code:
            return self._in_code(character, index)
        match character:
            case "\n":
                return self._line_break(text, index, final)
            case "\\":
                if index + 1 == len(text) and not final:
                    return self._wait(index)
                literal = text[index + 1 : index + 2] in _BRACKETS
                self._take(text[index + 1] if literal else "\\", index + 1 + literal)
                return "next"
            case "<":
                return self._angle(text, index, final)
            case "[" | "【" | "［":
                return self._open(character, text, index, final)
            case _:
                return self._close(character, index)

    def _wait(self, index: int) -> State:
        self._tape.at = index
        return "more"

    def _take(self, piece: str, behind: int) -> None:
        """Add a piece of the argument and go on behind it."""
        self._tape.at = behind
        if not piece:
            return
        self._began = True
        self._tail = (self._tail + piece)[-2:]
        self._doubts.take(piece)

    def _back(self, doubt: Doubt) -> None:
        """Read again from a doubt."""
        self._doubts.back(doubt)
        self._depth = doubt.depth

    # --- code ------------------------------------------------------------------------------------------

    def _backticks(self, text: str, index: int, final: bool) -> State | Literal["next"]:
        run = _TICKS.match(text, index)
        end = run.end() if run else index + 1
        if end == len(text) and not final:
            # From three on it is a fence, however long: only three need to wait for what follows.
            if end - index > 3:
                self._take(text[index : end - 3], end - 3)
            return self._wait(max(index, end - 3))
        length = min(end - index, 3)
        if not self._code:
            self._code = length
        elif self._code == length:
            self._code = 0
            self._doubts.code = None
            self._doubts.settle()
        self._take(text[index:end], end)
        return "next"

    def _in_code(self, character: str, index: int) -> Literal["next"]:
        if character == "\n" and self._code < 3:
            # A span ends on its own line or was none.
            return self._no_code(index)
        if self._doubts.code is None and character != "\n":
            self._doubts.code = self._doubts.at(index, self._depth)
        self._take(character, index + 1)
        return "next"

    def _no_code(self, index: int) -> Literal["next"]:
        self._code = 0
        self._tape.at = index
        if self._doubts.code is not None:
            self._back(self._doubts.code)
        return "next"

    # --- brackets --------------------------------------------------------------------------------------

    def _open(self, character: str, text: str, index: int, final: bool) -> State | Literal["next"]:
        if character == "[" and (self._tail[-1:] in (":", "=") or self._tail == ":'"):
            if index + 1 == len(text) and not final:
                return self._wait(index)
            # `b=[1]` is none: a face does not stand in the middle of a word.
            inside_word = self._tail[:1].isalnum() and text[index + 1 : index + 2].isalnum()
            if not inside_word:
                self._take(character, index + 1)
                return "next"
        run = _SAME_BRACKETS.match(text, index)
        if run is not None:
            # None but the last of a run can open a command.
            if character == self._bracket:
                self._depth += run.end() - index
            self._take(text[index : run.end()], run.end())
            return "next"
        doubts = self._doubts
        if doubts.nested is None or doubts.emoticon is not None or self._gentle:
            state = self._open_nested(text, index, final)
            if state != "next":
                return state
        if character == self._bracket:
            self._depth += 1
        self._take(character, index + 1)
        return "next"

    def _open_nested(self, text: str, index: int, final: bool) -> State | Literal["next"]:
        """The first command that opens inside, or closing tag of this one, is a place to come back to."""
        doubts = self._doubts
        closing = self._vocabulary.closing(text, index, final)
        opening = None if closing else self._vocabulary.opening(text, index, final)
        if opening == "more" or closing == "more":
            return self._wait(index)
        if opening is not None:
            if self._gentle or opening == "cut":
                self._tape.at = index
                return self._finish()
            if doubts.emoticon is not None:
                self._nested_on_line += 1
                if self._nested_on_line > _NESTED_ON_A_LINE:
                    return self._close_at(doubts.emoticon)
        closes = closing is not None and closing[0] == self.name
        if doubts.nested is None and (opening is not None or closes):
            doubts.nested = doubts.at(index, self._depth)
        return "next"

    def _close(self, character: str, index: int) -> State | Literal["next"]:
        if character != self._closer:
            self._take(character, index + 1)
            return "next"
        if character == "]" and self._tail[-1:] in (":", "="):
            doubt = self._doubts.at(index, self._depth)
            if self._depth == 1:
                self._doubts.emoticon = doubt
                self._nested_on_line = 0
            else:
                self._doubts.inner_emoticon = doubt
            self._take(character, index + 1)
            return "next"
        self._depth -= 1
        self._tape.at = index + 1
        if self._depth == 0:
            return self._finish()
        self._tail = (self._tail + character)[-2:]
        self._doubts.take_inner_close(character)
        return "next"

    def _close_at(self, doubt: Doubt) -> State:
        """The bracket of an emoticon was the closing one after all."""
        self._back(doubt)
        self._tape.at += 1
        return self._finish()

    def _angle(self, text: str, index: int, final: bool) -> State | Literal["next"]:
        """Special tokens mean here what they mean anywhere; every other tag is only text."""
        tag = tag_at(text, index, final)
        if tag == "more":
            return self._wait(index)
        if tag is None or tag.kind not in ("end", "special") or tag.text == "<s>" or self._struck:
            self._struck = tag is not None and (tag.text == "<s>" or (self._struck and tag.text != "</s>"))
            self._take("<", index + 1)
            return "next"
        self._tape.at = index + len(tag.text)
        if tag.kind == "special":
            return "next"
        self.over = True
        self._tape.text = text[:index]
        self._tape.at = index
        return self._end_of_text()

    # --- lines and ends --------------------------------------------------------------------------------

    def _line_break(self, text: str, index: int, final: bool) -> State | Literal["next"]:
        doubt = self._doubts.emoticon or self._doubts.inner_emoticon
        if doubt is not None:
            return self._believe(doubt)
        opens = self._vocabulary.line_opens(text, index + 1, final)
        if opens == "more":
            return self._wait(index)
        if opens:
            if self._doubts.nested is not None:
                # Its bracket is missing, so the command that opened inside it was meant to be one.
                self.broken = 1
                return self._end_at_nested(self._doubts.nested)
            self._doubts.drop_inner_close()
            self._tape.at = index
            return self._finish()
        self._take("\n", index + 1)
        return "next"

    def _believe(self, doubt: Doubt) -> State | Literal["next"]:
        """Nothing else on the line closed, so the bracket of an emoticon does."""
        if doubt.depth == 1:
            return self._close_at(doubt)
        self._back(doubt)
        self._depth -= 1
        self._take("]", self._tape.at + 1)
        return "next"

    def _end_of_text(self) -> State:
        """The reply is over and the argument still open: the gentler reading."""
        if self._code and self._code < 3 and self._doubts.code:
            self._no_code(self._tape.at)
            return self.read(True)
        doubt = self._doubts.emoticon or self._doubts.inner_emoticon
        if doubt is not None:
            believed = self._believe(doubt)
            return self.read(True) if believed == "next" else believed
        if self._code and self._doubts.code:
            self._no_code(self._tape.at)
            return self.read(True)
        if self._doubts.nested is not None:
            self.broken = 1
            return self._end_at_nested(self._doubts.nested)
        self.complete = False
        return self._finish()

    def _end_at_nested(self, nested: Doubt) -> State:
        """End before the command that opens inside, or with the closing tag that stands there."""
        self._back(nested)
        closing = self._vocabulary.closing(self._tape.text, self._tape.at, final=True)
        if closing is not None and closing != "more":
            self._tape.at = closing[1]
        return self._finish()

    def _finish(self) -> State:
        self._doubts.clear()
        return "ended"
