"""Where the reader of a reply stands, what leads it on, and the theory of what it does in doubt.

A reply is read once, from left to right, as it arrives. The reader is in one state; each state looks for the
few characters that can mean something in it, and passes over the rest at the speed of a pattern. `FOLLOWS` is
the whole of it: for each state those that may follow, and what in the text leads there.

**More text.** A piece may end anywhere, also inside `[SE` or `</thi`. Where the text ends too early to tell,
reading stops before the place in question and says `NEED_MORE`, here as in the vocabulary and the tags; the
next piece is put behind what is unread, and the same place is looked at again. Since nothing is decided by
what has arrived so far, only by the text itself, cutting a reply elsewhere changes nothing. All that is
looked at twice is shorter than a bound (an opening, a tag, the beginning of a line), so waiting is cheap. In
prose, the reader even waits by itself while nothing in a few characters could act.

**Doubt.** Some characters mean one thing or another by what comes long after them. The bracket of `:]` closes
the command, unless something else on its line does. A backtick opens a code span, unless its line ends first.
`[NOTE: hm [SEND: hi]` is a note with a message in it, unless the reply ends before the note does. The reader
then takes the likelier reading and goes on, but it remembers the place: a mark in the text and the number of
pieces of the argument before it. That is a doubt. Text behind the oldest doubt is certain to nobody, so it is
kept and not given out; everything before it is.

A doubt is resolved by reading on. Either the reading proves right (the span closes on its line, another
bracket closes the command): the doubt is dropped, and the text behind it is given out. Or it is taken back:
the text is rewound to the mark, later doubts are void, and the place is read the other way. There are four,
in `argument`, and each says there what drops it and what takes it back. What stands behind `[SEND]` or
`<tool-call …>` is in doubt as a whole until its closing tag comes; if none does, it is read again as what it
then is.

**Why it stays linear.** A piece that is read twice costs twice; what may not happen is that it is read again
for each doubt about it. A span, a face: taken back at the end of their line at the latest, and read the other
way they are no doubt any more, so a line is read once for each kind of doubt. Commands that open behind a face
on its line are few (`_NESTED_ON_A_LINE`), or the face is believed at once. A fence: there is one kind, so one
that never closes is taken back once. A command that opens inside another: it is taken back where a bracket is
missing, and then all to the end of the reply may be read again; after `GENTLE` times the rest is read gently,
which has no such doubt. A payload whose closing tag never came tells all later ones so. Rewinding itself costs
what it gives back, since what was read is kept in pieces.

**What is not nice.** A closing bracket of an inner pair is held back while only white space follows, because
a command on the next line may claim it; that is a fifth, smaller doubt, which drops one bracket and reads
nothing again. And `[SEND]` waits for its closing tag up to 4,096 characters before it is believed to be empty.
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
"""How many broken openings are each read again to the end; after them the rest is read gently at once."""


class State(Enum):
    """Where the reader stands."""

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
"""For each state, those that may follow, and what in the text leads there."""
