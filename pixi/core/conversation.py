"""The history's window: what of a conversation a model is shown, so that it fits and seldom changes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pixi.core.language import BUILT_IN, NOTE
from pixi.core.llm import (
    AssistantLine,
    Line,
    Span,
    UserLine,
    estimate,
    estimate_all,
    estimate_text,
    is_sources_note,
)
from pixi.core.reading import SILENCE, commands_in, written
from pixi.core.untrusted import prompt_name, quoted, without_middle

_WRITTEN = "[NOTE"  # as every note begins that the history holds


def notes_in(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the thoughts that were written down in lines of the history."""
    return tuple(note for note in all_notes(lines) if not is_sources_note(note))


def all_notes(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the notes in lines of the history, with those that tell where something is from."""
    return tuple(
        command.argument
        for line in lines
        if isinstance(line, AssistantLine)
        for command in commands_in(line.text, BUILT_IN)
        if command.name == NOTE and command.argument
    )


def without_notes(line: Line, names: Mapping[str, Iterable[str]]) -> Line:
    """Return the line without the notes in it; silence stands where there was nothing else.

    Args:
        line: of the history.
        names: the commands, with their aliases.
    """
    if not isinstance(line, AssistantLine) or _WRITTEN not in line.text:
        return line
    acts = commands_in(line.text, names)
    kept = [act for act in acts if act.name != NOTE]
    if len(kept) == len(acts):
        return line  # it stands inside of a message
    text = "\n".join(written(act.name, act.argument, names, act.target) for act in kept)
    return replace(line, text=text if text or line.calls else SILENCE)


_HEAD = "you remember of what was said here before:"
_LONGEST_PART = 4_000  # characters of one line: what somebody pasted is not what happened between people
_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


# Memory of turns that fell out of the window: what a helper is told of them, and its summary.
#
# All of it is strangers' text: of people, and of a model that read what they wrote. So every line of theirs
# is quoted, in what the helper is told and where its summary stands in the persona's prompt.


def summary_line(summary: str) -> UserLine:
    """Return the line that tells a persona what was said before its history."""
    text = f"{_HEAD}\n{quoted(summary)}"
    return UserLine(text, spans=(Span(len(text), "summary"),))


def told(lines: Iterable[Line], persona: str) -> str:
    """Write the lines of a turn for the helper. Calls of tools and their results are left out."""
    name = prompt_name(persona) or "the persona"
    blocks = []
    for line in lines:
        match line:
            case UserLine(text, images):
                pictures = f", with {len(images)} pictures" if images else ""
                head = f"to {name}{pictures}:"
            case AssistantLine(text):
                head = f"from {name}:"
            case _:
                continue
        if shown := quoted(without_middle(text.strip(), _LONGEST_PART)):
            blocks.append(f"{head}\n{shown}")
    return "\n".join(blocks)


def question(before: str, portion: str) -> str:
    """Write the question to the helper: what was remembered so far, and what was said since."""
    known = f"remembered until now:\n{quoted(before)}\n\n" if before else ""
    return f"{known}said since then, oldest first:\n\n{portion}"


def portions(turns: Sequence[str], tokens: int, most: int) -> list[str]:
    """Pack written turns into portions of `tokens`; of more than `most` portions return the latest."""
    packed: list[list[str]] = []
    room = 0
    for turn in reversed(turns):
        told = _beginning(turn, tokens - 1)
        size = estimate_text(told) + 1  # with what stands between it and the next
        if size > room:
            if len(packed) == most:
                break
            packed.append([])
            room = tokens
        packed[-1].append(told)
        room -= size
    return ["\n\n".join(reversed(portion)) for portion in reversed(packed)]


def as_summary(reply: str, tokens: int) -> str:
    """Return the helper's summary within `tokens`: whole lines, as far as they fit; "" for nothing."""
    kept: list[str] = []
    left = tokens
    for line in _REASONING.sub("", reply).strip().splitlines():
        size = estimate_text(line) + 1
        if size > left:
            if not kept:
                kept.append(_beginning(line, left))
            break
        kept.append(line.rstrip())
        left -= size
    return "\n".join(kept).strip()


def _beginning(text: str, tokens: int) -> str:
    """Return the beginning of a text that fits into `tokens`."""
    while text and (size := estimate_text(text)) > tokens:
        text = text[: len(text) * max(tokens, 0) // size]
    return text


_SPARE = 0.25  # of the model's context, kept free for the next user line, tools' results and the reply
_REPLY = 0.1  # of the model's context, kept free even of a long user line
_KEPT = 0.5  # of the room for history, when it is cut: the larger the step, the rarer the cut
_SOON = 0.8  # of the room for history: from there on what the next cut takes away may be summarized
_MOST_COUNTED = 8  # tokens for each that was estimated: a server that counts more is not believed
_NOTED = 8  # turns, the latest ones, whose notes stay at a cut


class PastTurn(Struct, frozen=True):
    """A turn that is over: its number in the store, and the lines that it left."""

    id: int
    lines: tuple[Line, ...]


class Bounds(Struct, frozen=True):
    """Position of the window, kept in the store: every reader of it gets the same window.

    Attributes:
        context_tokens: what the model can hold for which it stands there, prompt and reply together.
        first_turn: the number of the turn that it begins with.
        notes_from: the number of the first turn whose private notes are shown.
        factor: how many tokens the server counts for one that was estimated.
    """

    context_tokens: int
    first_turn: int = 0
    notes_from: int = 0
    factor: float = 1.0


class Conversation:
    """The turns of a conversation that fit a model's context.

    Turns are only ever appended, until they outgrow their room. Then the private notes of old turns go, and
    whole turns from the front, until half of the room is free: so the prefix which a server has cached
    stays the same for as long as can be. Between two cuts nothing is rendered differently.

    Args:
        bounds: where the window stood when it was recorded last.
        turns: what is known so far from there on, oldest first.
        prefix_tokens: the estimate of what stands before the history.
        summary: what is remembered of the turns before; "" for nothing.
        names: the commands, with their aliases.
    """

    __slots__ = ("_bounds", "_lines", "_names", "_prefix", "_recorded", "_summary", "_total", "_turns")

    def __init__(
        self,
        bounds: Bounds,
        turns: Iterable[PastTurn] = (),
        *,
        prefix_tokens: int = 0,
        summary: str = "",
        names: Mapping[str, Iterable[str]] = BUILT_IN,
    ) -> None:
        self._summary: tuple[Line, ...] = (summary_line(summary),) if summary else ()
        self._prefix = prefix_tokens + estimate_all(self._summary)
        self._names = names
        self._bounds = self._recorded = bounds
        self._turns: list[_Shown] = []
        self._total = 0
        self._lines: tuple[Line, ...] | None = None
        for turn in turns:
            self._add(turn)
        self._cut(self._room(_SPARE))

    @property
    def lines(self) -> tuple[Line, ...]:
        """The summary and the window, oldest first; it begins with a user line and holds whole turns."""
        if self._lines is None:
            self._lines = (*self._summary, *(line for turn in self._turns for line in turn.lines))
        return self._lines

    @property
    def bounds(self) -> Bounds:
        """Return where the window stands now."""
        return self._bounds

    @property
    def spare_tokens(self) -> int:
        """Estimate the tokens left for one turn: its user line, the results of its tools, its reply."""
        used = (self._prefix + self._total) * self._bounds.factor
        return max(0, int(self._bounds.context_tokens - used))

    def append(self, turn: PastTurn) -> None:
        """Add a turn that ended."""
        self._add(turn)
        self._cut(self._room(_SPARE))

    @property
    def longest(self) -> float:
        """Tokens, by estimate, that a new user line may have."""
        return max(self._room(_SPARE) / 2, 64) / self._bounds.factor

    def make_room(self, said: UserLine) -> None:
        """Drop old turns, if a new user line needs their place."""
        self._cut(max(0.0, self._room(_REPLY) - estimate(said) * self._bounds.factor))

    def guess(self, said: UserLine) -> int:
        """Estimate the tokens of a request with this line behind the window."""
        return self._prefix + self._total + estimate(said)

    def counted(self, guess: int, prompt_tokens: int) -> None:
        """Learn from the server's own count of a request's tokens; 0 where it did not say.

        Only upwards: to be told that there was more room than thought would move the window.
        """
        # In steps of an eighth, so that the noise of small prompts does not move the window.
        measured = -(-8 * prompt_tokens // max(guess, 1)) / 8
        if self._bounds.factor < measured <= _MOST_COUNTED and prompt_tokens > 200:
            self._bounds = replace(self._bounds, factor=measured)
            self._cut(self._room(_SPARE))

    def news(self) -> Bounds | None:
        """Return where it stands, to be recorded with the turn that ends; None where that is on record."""
        if self._bounds == self._recorded:
            return None
        self._recorded = self._bounds
        return self._bounds

    def to_fold(self) -> Bounds | None:
        """Return where the window is to begin once what lies before is folded into the summary.

        None: no cut is near, or none that takes away more than notes. Where nothing is remembered of what
        was cut already, that is folded now.
        """
        room = self._room(_SPARE)
        if self._total * self._bounds.factor > room * _SOON:
            gone, noted = self._next_cut(room)
            if gone:
                return self._moved(gone, noted)
        return self._bounds if self._bounds.first_turn and not self._summary else None

    def _add(self, turn: PastTurn) -> None:
        if turn.id < self._bounds.first_turn or not isinstance(next(iter(turn.lines), None), UserLine):
            return  # what does not begin with somebody's words cannot stand first
        shown = _Shown(turn.id, turn.lines)
        if turn.id < self._bounds.notes_from:
            shown = shown.without_notes(self._names)
        self._turns.append(shown)
        self._total += shown.tokens
        self._lines = None

    def _room(self, free: float) -> float:
        """Return tokens for the history where such a share of the context stays free."""
        return max(0.0, self._bounds.context_tokens * (1 - free) - self._prefix * self._bounds.factor)

    def _cut(self, room: float) -> None:
        """Drop old notes, then old turns, if not all fits; more than needed, so that it lasts."""
        if self._total * self._bounds.factor <= room:
            return
        gone, noted = self._next_cut(room)
        self._bounds = self._moved(gone, noted)
        bare = (turn.without_notes(self._names) for turn in self._turns[gone:noted])
        self._turns = [*bare, *self._turns[max(gone, noted) :]]
        self._total = sum(turn.tokens for turn in self._turns)
        self._lines = None

    def _next_cut(self, room: float) -> tuple[int, int]:
        """Return how many turns the next cut takes away, and from which turn on it leaves the notes."""
        room /= self._bounds.factor
        enough = room * _KEPT
        noted = max(0, len(self._turns) - _NOTED)
        sizes = [turn.without_notes(self._names).tokens for turn in islice(self._turns, noted)]
        sizes += [turn.tokens for turn in self._turns[noted:]]
        left, gone = sum(sizes), 0
        # What was just said goes only where there is no room for it.
        while gone < len(sizes) and left > (enough if gone < len(sizes) - 1 else room):
            left -= sizes[gone]
            gone += 1
        return gone, noted

    def _moved(self, gone: int, noted: int) -> Bounds:
        first = self._turns[gone].id if gone < len(self._turns) else self._turns[-1].id + 1
        before = self._bounds
        return replace(
            before,
            first_turn=max(first, before.first_turn) if gone else before.first_turn,
            notes_from=max(self._turns[noted].id, before.notes_from) if noted else before.notes_from,
        )


class _Shown:
    """A turn as it is shown, its size, and what it would be without notes once that was asked for."""

    __slots__ = ("_bare", "id", "lines", "tokens")

    def __init__(self, number: int, lines: Sequence[Line]) -> None:
        self.id = number
        self.lines = tuple(lines)
        self.tokens = estimate_all(self.lines)
        self._bare: _Shown | None = None

    def without_notes(self, names: Mapping[str, Iterable[str]]) -> "_Shown":
        """Return the turn without notes."""
        if self._bare is None:
            lines = [without_notes(line, names) for line in self.lines]
            self._bare = self if lines == list(self.lines) else _Shown(self.id, lines)
            self._bare._bare = self._bare
        return self._bare
