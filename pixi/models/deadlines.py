"""Deadlines on the content of a stream, on the loop's monotonic clock, for the price of one timer."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# After the reason of its end only the usage and the end mark can come; neither is worth a long wait.
_LAST_WORDS_SECONDS = 1.0
# A timer that goes off so late tells that nothing went on here: what the server sent was not read either.
_STOOD_STILL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long to wait for content, in seconds. Keep-alive comments and empty pieces are no content.

    Attributes:
        first: from asking to the first content, attempts and pauses between them included.
        gap: between two pieces of content.
        turn: from asking to the end of the reply.
    """

    first: float = 30.0
    gap: float = 20.0
    turn: float = 180.0


class Overdue(Exception):
    """A deadline passed. `which` says the one; `seconds` is its length."""

    def __init__(self, which: Literal["first", "gap", "turn"], seconds: float) -> None:
        super().__init__(which)
        self.which: Literal["first", "gap", "turn"] = which
        self.seconds = seconds


class Watchdog:
    """Watches one stream. Content only notes the time; the timer looks at it when it goes off.

    The time that the reader's consumer takes is not counted as the server's: `pause` when content is
    handed on, `resume` when the next is asked for.

    Args:
        deadlines: what to watch for.
        asked_at: the loop's time when the model was asked.
        bark: called once, with the deadline that passed.
    """

    def __init__(self, deadlines: Deadlines, asked_at: float, bark: Callable[[Overdue], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines = deadlines
        self._turn_ends = asked_at + deadlines.turn
        self._bark = bark
        self._which: Literal["first", "gap"] = "first"
        self._patience = deadlines.first
        self._since = asked_at
        self._timer = self._loop.call_at(self._due(), self._look)

    def content(self) -> None:
        """Content came."""
        self._since = self._loop.time()
        if self._which == "first":
            self._which = "gap"
            self._expect_within(self._deadlines.gap)

    def pause(self) -> None:
        """Content came and is handed on."""
        if self._which == "first":
            self.content()
        self._since = math.inf

    def resume(self) -> None:
        """The next content is asked for."""
        if self._since == math.inf:
            self._since = self._loop.time()

    def last_words(self) -> None:
        """The server said why its reply ended."""
        self._since = self._loop.time()
        if self._patience > _LAST_WORDS_SECONDS:
            self._expect_within(_LAST_WORDS_SECONDS)

    def close(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _expect_within(self, seconds: float) -> None:
        # The only moments when the due time moves nearer, and so the only ones that set the timer anew.
        self._patience = seconds
        self._timer.cancel()
        self._timer = self._loop.call_at(self._due(), self._look)

    def _due(self) -> float:
        return min(self._since + self._patience, self._turn_ends)

    def _look(self) -> None:
        now = self._loop.time()
        due = self._due()
        if now < due:
            self._timer = self._loop.call_at(due, self._look)
        elif now >= self._turn_ends:
            self._bark(Overdue("turn", self._deadlines.turn))
        elif now - due > _STOOD_STILL_SECONDS:
            self._since = now
            self._timer = self._loop.call_at(self._due(), self._look)
        else:
            self._bark(Overdue(self._which, self._patience))
