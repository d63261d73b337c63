"""Which talk does a request of a chat program go on? The program sends its whole history and no name.

Two histories are compared: what the program has (`told`) and what we have of each talk. Ours is never
replaced by theirs. There are four answers:

- `Append`: theirs is ours, or the end of ours (a program leaves out what is too long). The turn is added.
- `Branch`: theirs is the begin of ours: somebody asked for another answer, or edited what they said. Ours is
  cut off there, and the turn is added.
- `Begin`: theirs is empty. A new talk.
- `Transient`: theirs is nobody's here, e.g. it was begun with another model. A talk made of their lines,
  marked as told by a program.

Histories are compared as lines of two roles, white space folded. Neighbours of one role are one line: our
several messages are one text there. What a persona answered without a visible word is the `silence` that the
program was given. A program that was stopped has only the begin of an answer, which counts as the answer. A
greeting that the program put above the first words of a person counts for nothing.

What is not nice: two talks that were the same so far cannot be told apart, and the latest is taken; and the
end of a talk may be the begin of another, and then it is a branch. A named talk has neither trouble.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pixi.channels.carried import words_of

Role = Literal["user", "assistant"]
_SHORTEST_END = 2
"""Lines that must be the end of a talk to be taken for it: a person's and an answer."""


@dataclass(frozen=True, slots=True)
class ClientLine:
    """A line of a history."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A turn on record: what was asked, and what was visible of the answer ("" for nothing)."""

    turn: int
    asked: str
    answered: str


@dataclass(frozen=True, slots=True)
class KeptTalk:
    """A talk on record, oldest turn first. `whole` is false where earlier turns were left out."""

    name: str
    turns: tuple[KeptTurn, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Append:
    """Go on with the talk of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Go on with the talk of this name, after its turns from `turn` on were cut off."""

    name: str
    turn: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a new talk."""


@dataclass(frozen=True, slots=True)
class Transient:
    """Begin a talk that the program told these lines of."""

    lines: tuple[ClientLine, ...]


Found = Append | Branch | Begin | Transient


def reconcile(told: Sequence[ClientLine], talks: Sequence[KeptTalk], *, silence: str = "…") -> Found:
    """Find the talk that a program's history goes on with.

    Args:
        told: the program's lines before the one to be answered.
        talks: those of the person with the persona, latest first.
        silence: what a program was given where nothing was said.
    """
    theirs = _folded(told, silence)
    if not theirs:
        return Begin()
    ours = [(talk, _lines(talk, silence)) for talk in talks]
    for talk, lines in ours:
        if talk.whole and _goes_on(theirs, lines):
            return Append(talk.name)
    for talk, lines in ours:
        if talk.whole and (cut := _branch(theirs, talk, lines)):
            return cut
    for talk, lines in ours:
        if len(theirs) >= _SHORTEST_END and _is_end(theirs, lines):
            return Append(talk.name)
    return Transient(tuple(told))


def reconcile_named(
    told: Sequence[ClientLine], talk: KeptTalk, *, complete: bool, silence: str = "…"
) -> Append | Branch:
    """Find where a request goes on in the talk that it names. It never leads to another.

    Args:
        told: the program's lines before the one to be answered.
        talk: the named one.
        complete: whether `told` is known to be all that the program has of it; else a program that sends
            nothing but what is new is one that goes on.
        silence: what a program was given where nothing was said.
    """
    theirs = _folded(told, silence)
    lines = _lines(talk, silence)
    if not theirs:
        return Branch(talk.name, talk.turns[0].turn) if complete and talk.turns else Append(talk.name)
    if not _goes_on(theirs, lines) and talk.whole and (cut := _branch(theirs, talk, lines)):
        return cut
    return Append(talk.name)


def visible_text(content: Any) -> str:
    """The words of a message's `content`: a text, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _fold(text: str) -> str:
    return " ".join(text.split())


def _folded(lines: Sequence[ClientLine], silence: str) -> list[ClientLine]:
    """Lines as they are compared: from the first of a person on, neighbours of one role joined."""
    folded: list[ClientLine] = []
    for line in lines:
        text = _fold(words_of(line.text))
        if line.role == "assistant":
            if not folded:
                continue
            text = text or _fold(silence)
        if folded and folded[-1].role == line.role:
            folded[-1] = ClientLine(line.role, _fold(f"{folded[-1].text} {text}"))
        else:
            folded.append(ClientLine(line.role, text))
    return folded


def _lines(talk: KeptTalk, silence: str) -> list[ClientLine]:
    """Two lines a turn, never joined, so that a place among them is a turn."""
    lines: list[ClientLine] = []
    for turn in talk.turns:
        lines += [
            ClientLine("user", _fold(turn.asked)),
            ClientLine("assistant", _fold(turn.answered) or _fold(silence)),
        ]
    return lines


def _same(theirs: ClientLine, ours: ClientLine) -> bool:
    if theirs.role != ours.role:
        return False
    if theirs.text == ours.text:
        return True
    return theirs.role == "assistant" and bool(theirs.text) and ours.text.startswith(theirs.text)


def _all_same(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) <= len(ours) and all(_same(a, b) for a, b in zip(theirs, ours, strict=False))


def _goes_on(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    """Whether they have all of our turns; perhaps not the last answer, which they did not wait for."""
    return _turns(theirs) == len(ours) // 2 and _all_same(theirs, ours)


def _branch(theirs: Sequence[ClientLine], talk: KeptTalk, ours: Sequence[ClientLine]) -> Branch | None:
    if not _all_same(theirs, ours) or _turns(theirs) >= len(talk.turns):
        return None
    return Branch(talk.name, talk.turns[_turns(theirs)].turn)


def _turns(theirs: Sequence[ClientLine]) -> int:
    """How many turns they have; one that lacks its answer is one."""
    return (len(theirs) + 1) // 2


def _is_end(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) < len(ours) and _all_same(theirs, ours[len(ours) - len(theirs) :])
