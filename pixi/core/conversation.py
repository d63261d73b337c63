"""The history's window: what of a conversation a model is shown, so that it fits and seldom changes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pixi.core.deltas import ToolSchema
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolLine, UserLine

_ASCII_CHARACTERS_PER_TOKEN = 3.5  # English prose has some 4.3, commands and code fewer
_OTHER_TOKENS_PER_CHARACTER = 0.8  # Chinese has some 0.7, Cyrillic 0.4, emoji up to 3
_TOKENS_PER_LINE = 6  # what a chat template puts round a line
_TOKENS_PER_IMAGE = 1_000
_SPARE = 0.25  # of the model's context, kept free for the next user line, tools' results and the reply
_REPLY = 0.1  # of the model's context, kept free even of a long user line
_KEPT = 0.5  # of the room for history, when it is cut: the larger the step, the rarer the cut
_LEFT_OUT = "\n[… {} characters left out …]\n"


class Conversation:
    """The lines of a conversation that fit a model's context.

    Lines are only ever appended, until they outgrow their room; then whole turns are cut from the front,
    half of them at once, so that the prefix which a server has cached stays the same for as long as can
    be. Where it is cut follows from the lines alone: a conversation read back from the store has the same
    window, unless the server's own count has shown that tokens were underestimated.

    Args:
        lines: what is known so far.
        context_tokens: what the model can hold, prompt and reply together.
        prefix_tokens: the estimate of what stands before the history.
    """

    __slots__ = ("_budget", "_context", "_factor", "_lines", "_prefix", "_sizes", "_total", "_turns")

    def __init__(self, lines: Iterable[Line] = (), *, context_tokens: int, prefix_tokens: int = 0) -> None:
        self._context = context_tokens
        self._prefix = prefix_tokens
        self._factor = 1.0
        self._turns: list[tuple[Line, ...]] = []
        self._sizes: list[int] = []
        self._total = 0
        self._lines: tuple[Line, ...] = ()
        self.append(lines)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The window, oldest first; it begins with a user line and holds whole turns."""
        if not self._lines and self._turns:
            self._lines = tuple(line for turn in self._turns for line in turn)
        return self._lines

    @property
    def spare_tokens(self) -> int:
        """What is left, by estimate, for one turn: its user line, the results of its tools, its reply."""
        used = (self._prefix + self._total) * self._factor
        return max(0, int(self._context - used))

    def append(self, lines: Iterable[Line]) -> None:
        """Add what a turn left, or many turns."""
        for turn in turns_of(lines):
            self._make_room(estimate(turn[0]))
            self._add(turn)
            self._cut(self._room(_SPARE))

    def fit(self, said: UserLine) -> UserLine:
        """The line as it can be shown: the middle of one that is too long for the model is left out.

        Old turns make room for it first.
        """
        limit = max(self._room(_SPARE) / 2, 64)
        if estimate(said) * self._factor > limit:
            said = _shortened(said, limit / self._factor)
        self._make_room(estimate(said))
        return said

    def guess(self, said: UserLine) -> int:
        """Tokens of a request with this line behind the window, estimated."""
        return self._prefix + self._total + estimate(said)

    def counted(self, guess: int, prompt_tokens: int) -> None:
        """Learn from the server's own count of a request's tokens; 0 where it did not say.

        Only upwards: to be told that there was more room than thought would move the window.
        """
        # In steps of an eighth, so that the noise of small prompts does not move the window.
        measured = -(-8 * prompt_tokens // max(guess, 1)) / 8
        if measured > self._factor and prompt_tokens > 200:
            self._factor = measured
            self._cut(self._room(_SPARE))

    def _add(self, turn: tuple[Line, ...]) -> None:
        size = estimate_all(turn)
        self._turns.append(turn)
        self._sizes.append(size)
        self._total += size
        self._lines = ()

    def _room(self, free: float) -> float:
        """Tokens for the history where such a share of the context stays free."""
        return max(0.0, self._context * (1 - free) - self._prefix * self._factor)

    def _make_room(self, tokens: int) -> None:
        self._cut(max(0.0, self._room(_REPLY) - tokens * self._factor))

    def _cut(self, room: float) -> None:
        """Drop the oldest turns if all of them do not fit, and then more, so that it lasts."""
        if self._total * self._factor > room:
            while self._turns and self._total * self._factor > room * _KEPT:
                self._drop_first()

    def _drop_first(self) -> None:
        del self._turns[0]
        self._total -= self._sizes.pop(0)
        self._lines = ()


def turns_of(lines: Iterable[Line]) -> list[tuple[Line, ...]]:
    """The lines in turns: each begins with a user line, so that calls stay with their results."""
    turns: list[list[Line]] = []
    for line in lines:
        if isinstance(line, UserLine) or not turns:
            turns.append([])
        turns[-1].append(line)
    return [tuple(turn) for turn in turns if isinstance(turn[0], UserLine)]


def estimate(line: Line) -> int:
    """Tokens of a line, estimated from its characters."""
    tokens = _TOKENS_PER_LINE + _text_tokens(line.text)
    match line:
        case UserLine(images=images) | ToolLine(images=images):
            tokens += _TOKENS_PER_IMAGE * len(images)
        case AssistantLine(calls=calls):
            tokens += sum(_TOKENS_PER_LINE + _text_tokens(call.name + call.arguments) for call in calls)
        case SystemLine():
            pass
    return tokens


def estimate_all(lines: Iterable[Line]) -> int:
    """Tokens of lines, estimated."""
    return sum(map(estimate, lines))


def estimate_tools(tools: Sequence[ToolSchema]) -> int:
    """Tokens of the tools' descriptions, estimated."""
    return sum(_text_tokens(f"{t.name}{t.description}{t.parameters}") for t in tools)


def _text_tokens(text: str) -> int:
    if text.isascii():
        return int(len(text) / _ASCII_CHARACTERS_PER_TOKEN) + 1
    ascii_characters = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_characters
    return int(ascii_characters / _ASCII_CHARACTERS_PER_TOKEN + others * _OTHER_TOKENS_PER_CHARACTER) + 1


def _shortened(said: UserLine, tokens: float) -> UserLine:
    """Its beginning and its end, which hold who speaks and what is asked, within so many tokens."""
    images = said.images[: max(0, int(tokens) // (2 * _TOKENS_PER_IMAGE))]
    rest = tokens - _TOKENS_PER_LINE - _TOKENS_PER_IMAGE * len(images) - 16  # 16: the words in the gap
    share = min(1.0, max(rest, 0) / _text_tokens(said.text))
    while True:
        half = int(len(said.text) * share / 2)
        gap = _LEFT_OUT.format(len(said.text) - 2 * half)
        text = said.text[:half] + gap + (said.text[-half:] if half else "")
        shorter = replace(said, text=text, images=images)
        if estimate(shorter) <= tokens or half == 0:
            return shorter
        share *= 0.9
