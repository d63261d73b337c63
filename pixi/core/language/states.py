"""The theory of the reader of a reply, its states, and the text that it rewinds where it was wrong.

A reply is read once, from left to right, as it arrives. The reader is in one state. Each state looks for
the few characters that can mean something in it and passes over the rest at the speed of a pattern.

**More text.** A piece may end anywhere, also inside `[SE` or `</thi`. Where the text ends too early to
tell, the reader stops before the place in question and says `NEED_MORE`, as the vocabulary and the tags do.
The next piece is put behind what is unread, and the same place is looked at again. Nothing is decided by
how much has arrived, so cutting a reply elsewhere changes nothing. What is looked at again is never longer
than an opening, a tag, or the beginning of a line, so waiting is cheap.

**Doubt.** Some characters mean one thing or the other by what comes long after them. The bracket of `:]`
closes the command, unless something else on its line does. A backtick opens a code span, unless the line
ends first. `[NOTE: hm [SEND: hi]` is a note that speaks of a message, unless the note never ends. The
reader then takes the likelier reading, goes on, and keeps a doubt: a mark in the text, and the number of
pieces of the argument before it. Pieces before the oldest doubt are certain and are given out. Those behind
it are held back.

Reading on decides. Either the likelier reading was right: the doubt is dropped, and what it held back is
given out. Or it was wrong, and is taken back: the pieces behind the mark are thrown away, later doubts with
them, the text is rewound to the mark, and the place is read the other way. `[SEND]` and `<tool-call …>` are
simpler: all behind them is held back until the closing tag comes, or cannot come any more.

**Why it stays linear.** To read a stretch twice costs twice. It must not be read again for each doubt in
it. Code and faces are taken back where their line ends, and are no doubt when they are read the other way;
so a line is read once more for each kind. Behind a face only a few commands may open on its line. An
argument whose bracket is missing ends before the command inside it, and from there the text is read again;
this happens `GENTLE` times in a reply, then it is read gently: a command that opens inside another ends it
at once, without a doubt. Reading all again may still take long where a doubt was long. So `feed` reads its
own piece and a little more, and `closing` a little at a time: what is taken back is caught up with over the
next pieces. Text is kept in pieces while there is a doubt, so keeping and rewinding cost what they keep and
give back.

**What is not nice.** A bracket that closes an inner pair is held back while only blanks follow, since a
command on the next line may claim it. That is one more doubt, which drops a bracket and reads nothing
again. The usual form of a command is also known to the front of `feed`, which reads it in a few steps: what
it knows of the language is written twice. It changes the same state, and whatever it does not know at sight
it leaves alone.
"""

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class NeedMore(Enum):
    """The type of `NEED_MORE`."""

    NEED_MORE = auto()


NEED_MORE: Final = NeedMore.NEED_MORE
"""The text ends too early to tell."""

GENTLE: Final = 4
"""Number of broken commands that are each read again from inside; then reading is gentle at once."""


class State(Enum):
    """State of the reader."""

    __hash__ = object.__hash__  # that of an enumeration takes as long as a step of the reader

    PROSE = auto()
    """Outside of everything."""
    OPENING = auto()
    """Behind the colon of a command, before the first character of its argument."""
    ARGUMENT = auto()
    """In the argument of a command."""
    BARE = auto()
    """Behind a command whose bracket closed at once: its argument may follow, with a closing tag."""
    THOUGHT = auto()
    """In reasoning."""
    TOOL_CALL = auto()
    """In the payload of a tool call."""
    ENDED = auto()
    """The reply is over: nothing that comes is read."""


# Looking a member up in its class takes as long as a step of the reader.
PROSE, OPENING, ARGUMENT, BARE, THOUGHT, TOOL_CALL, ENDED = State

FOLLOWS: Final[Mapping[State, Mapping[State, str]]] = {
    PROSE: {
        OPENING: "a command opens: `[SEND:`",
        BARE: "a command opens and closes: `[SEND]`",
        THOUGHT: "`<think>`",
        TOOL_CALL: "`<tool-call tool=…>`",
        ENDED: "a token that ends the reply, a line of somebody else's, the end of the text",
    },
    OPENING: {
        ARGUMENT: "the first character that is not blank",
        PROSE: "a command on a new line",
        ENDED: "the end of the text: nothing is performed",
    },
    ARGUMENT: {
        PROSE: "the closing bracket, a command on a new line, the end of the text",
        ENDED: "the end of the text, where nothing but tokens came",
    },
    BARE: {PROSE: "the closing tag, another command, the end of the text"},
    THOUGHT: {PROSE: "`</think>`", ENDED: "the end of the text"},
    TOOL_CALL: {PROSE: "`</tool-call>`, the end of the text"},
    ENDED: {},
}
"""Transitions: the states that may follow each state, and the text that leads there."""


# The text of a reply as it arrives: normalized, read once from left to right, and rewound to a mark.

BREAK: Final = "\u2060"
"""WORD JOINER. It breaks a control word in a prompt (see `pixi.core.control_words`), is of no width, and is
dropped from what a model writes."""

UNCLEAN: Final = "\r\xa0\u200b\u2060\ufeff\ud800-\udfff"
"""The characters that have to be normalized, as in a set of a pattern."""
_unclean = re.compile(f"[{UNCLEAN}]").search
# Zero-width joiners stay: they shape emoji and Persian words.
_INVISIBLE: Final = str.maketrans({"\u200b": "", "\ufeff": "", "\xa0": " "})
# Behind `<` it stays for the reader: a control word that the model copied out of its prompt is text, no tag.
_BREAK: Final = re.compile(f"(?<!<){BREAK}")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE: Final = re.compile("[\ud800-\udfff]")


def unbroken(text: str) -> str:
    """Return the text without `BREAK`: for what a model copied out of its prompt."""
    return text.replace(BREAK, "")


def _join(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


class RewindBuffer:
    """Holds what of a reply is not read yet, and from the oldest mark on what was read.

    A mark is a place, told from the beginning of the reply. While there is one, each piece that was read is
    kept in a list, so that a long doubt costs nothing per piece.

    Attributes:
        text: what can be looked at.
        at: the place in `text` of the next character to read.
        start: the place in the reply where `text` begins.
        waiting: the end of the last piece, if what it means depends on the next one: CR, whose line break was
            given out, or the first half of a surrogate pair; else "".
        final: no more text comes: the stream has ended, or the reply in it.
        ended: the reply has ended, though its stream may go on.
    """

    __slots__ = ("_oldest", "_past", "at", "ended", "final", "start", "text", "waiting")

    def __init__(self) -> None:
        self.text = ""
        self.at = self.start = 0
        self.waiting = ""
        self.final = self.ended = False
        # Rewinding.
        self._oldest: int | None = None  # the oldest mark
        self._past: list[str] = []  # what was read between the oldest mark and `text`

    def append(self, piece: str) -> None:
        """Take the next piece of the reply. Only what is not read yet stays in `text`."""
        if self.waiting or _unclean(piece):
            piece = self._normalized(piece)
        at = self.at
        if self._oldest is not None:
            self._past.append(self.text[max(self._oldest - self.start, 0) : at])
        self.text = piece if at == len(self.text) else self.text[at:] + piece
        self.start += at
        self.at = 0

    def end(self) -> None:
        """Take note that no piece comes any more."""
        if self.waiting > "\r":
            self.text += "\ufffd"
        self.waiting = ""
        self.final = True

    def cut(self, at: int) -> None:
        """End the reply at a place in `text`: what follows is not the reply's."""
        self.text = self.text[:at]
        self.final = self.ended = True

    # --- marks -----------------------------------------------------------------------------------------

    def mark(self, at: int) -> int:
        """Return a mark for a place in `text` that is not behind `at`, and keep everything from there on."""
        mark = self.start + at
        if self._oldest is None:
            self._oldest = mark
        return mark

    def rewind(self, mark: int) -> None:
        """Read again from a mark. Later marks are void, earlier ones stay good."""
        kept = [self.text]
        while self.start > mark:
            kept.append(self._past.pop())
            self.start -= len(kept[-1])
        if len(kept) > 1:
            self.text = "".join(reversed(kept))
        self.at = mark - self.start

    def since(self) -> str:
        """Return what was read since the oldest mark, which there must be."""
        assert self._oldest is not None
        return "".join([*self._past, self.text[max(self._oldest - self.start, 0) : self.at]])

    def forget(self) -> None:
        """Drop all marks."""
        self._oldest = None
        self._past.clear()

    # --- normalizing -----------------------------------------------------------------------------------

    def _normalized(self, piece: str) -> str:
        """Return the piece with `\\n` line ends, whole characters, and nothing invisible that means nothing.

        Cutting a text elsewhere gives the same.
        """
        piece = piece.removeprefix("\n") if self.waiting == "\r" else self.waiting + piece
        end = piece[-1:]
        self.waiting = end if end == "\r" or "\ud800" <= end <= "\udbff" else ""
        if self.waiting > "\r":
            piece = piece[:-1]
        # Joined first: halves between which something invisible is dropped below are no pair.
        piece = _LONE.sub("\ufffd", _PAIR.sub(_join, piece))
        piece = piece.replace("\r\n", "\n").replace("\r", "\n").translate(_INVISIBLE)
        return _BREAK.sub("", f"<{piece}")[1:] if self.text[-1:] == "<" else _BREAK.sub("", piece)
