"""States of the reader of a reply, their transitions, and the theory of what it does in doubt.

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
