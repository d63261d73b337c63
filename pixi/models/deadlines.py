"""Deadlines on the content of a stream, on the loop's monotonic clock, for the price of one timer.

Before its first word a server reads the prompt, and on a slow machine that takes minutes. So the wait for
the first content (`FirstWait`) goes by *progress* where a server tells of it: each sign that it read on
begins the wait anew. A sign must tell of more tokens than all before it: a server that only says that it is
there, or tells the same number again, is one that does not answer. Where nothing is told, a server near by is
given long (`NEAR_SECONDS`), and longer for a long prompt once it was seen to be slow (`ReadingSpeed`). An
hour after it was made (`LONGEST_READING`) a request without a word is given up, whatever its server shows.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from pixi.core.llm import PromptProgress

FAR_SECONDS = 30.0
"""Longest silence of a public server before its first word."""
NEAR_SECONDS = 300.0
"""The same for a server on this machine or in a private network, which may compute on a slow processor."""
LONGEST_READING = 3_600.0
"""Seconds in which a prompt has to be read, whatever progress its server tells of."""

# After the reason of its end only the usage and the end mark can come; neither is worth a long wait.
_LAST_WORDS_SECONDS = 1.0
# A timer that goes off so late tells that nothing went on here: what the server sent was not read either.
_STOOD_STILL_SECONDS = 0.25
# Allowance for slow reading: something else may want the processor, too.
_MARGIN = 2.0
# A first answer that took longer tells how fast a silent server reads. A faster one tells nothing: it may
# have had nearly all of its prompt in its cache.
_LATE_SECONDS = 10.0
# Tokens: a shorter prompt that is answered late tells of a model that was loaded first, not of how it reads.
_SHORT_PROMPT = 500


class Deadlines(Struct, frozen=True):
    """Deadlines on content, in seconds. Keep-alive comments and empty pieces are no content.

    Attributes:
        first: from asking, or from the last sign of progress, to the first content; attempts and pauses
            between them included. None: what suits the server, see the head of this file.
        gap: between two pieces of content.
        turn: from the first content to the end of the reply.
    """

    first: float | None = None
    gap: float = 20.0
    turn: float = 180.0


class ReadingSpeed:
    """Speed at which a model at a server reads prompts, as far as was seen."""

    def __init__(self) -> None:
        self._seconds_per_token = 0.0  # 0: nothing was measured yet
        self._in_vain = False  # the last wait for a silent server was in vain

    def seconds(self, tokens: int) -> float | None:
        """Return how many seconds a number of tokens takes; None: nothing was measured yet."""
        return tokens * self._seconds_per_token if self._seconds_per_token else None

    def measured(self, tokens: int, seconds: float) -> None:
        """Note how long the server took for a number of tokens, by its own signs of progress."""
        if tokens > 0 and seconds > 0:
            self._seconds_per_token = seconds / tokens

    def answered(self) -> None:
        """Note that the server answers."""
        self._in_vain = False

    def waited_in_vain(self, tokens: int, seconds: float) -> None:
        """Note that a silent server was given up after so long: it may be slow.

        The second time in a row tells nothing: one that hangs is not waited for longer and longer.
        """
        if not self._in_vain:
            self.at_least(tokens, seconds)
        self._in_vain = True

    def at_least(self, tokens: int, seconds: float) -> None:
        """Note that a silent server took so long for a prompt, of which it may have had a part already."""
        if tokens > 0:
            self._seconds_per_token = max(self._seconds_per_token, seconds / max(tokens, _SHORT_PROMPT))


class FirstWait:
    """The wait of one request for its first content, over all its attempts.

    Args:
        deadlines: `first` holds as it is, where it is set.
        speed: of the server; it is taught by what happens.
        near: the server is on this machine or in a private network.
        tokens: of the prompt, estimated.

    Attributes:
        asked_at: the loop's time at which the request was made first.
        seconds: the longest silence of the server now.
    """

    def __init__(self, deadlines: Deadlines, speed: ReadingSpeed, *, near: bool, tokens: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._speed = speed
        self._tokens = tokens
        self._grows = near and deadlines.first is None
        self.asked_at = self._since = self._loop.time()
        self._done = -1  # tokens that are known to be read; -1: nothing was told
        self._begun: tuple[float, int] | None = None  # the first sign of this attempt: when, and tokens
        self._left_at = -1  # tokens read when an attempt was broken off
        self.seconds = deadlines.first or (NEAR_SECONDS if near else FAR_SECONDS)
        self._grow(tokens)

    @property
    def ends_at(self) -> float:
        """Return the loop's time at which the wait ends, unless there is progress before."""
        return min(self._since + self.seconds, self.asked_at + LONGEST_READING)

    @property
    def is_too_long(self) -> bool:
        """Return whether the prompt was read for so long that no progress counts any more."""
        return self._loop.time() >= self.asked_at + LONGEST_READING

    @property
    def left(self) -> float:
        """Return the seconds until the wait ends."""
        return self.ends_at - self._loop.time()

    def overdue(self) -> "DeadlineExceeded":
        """Return the deadline of a wait that ended in vain."""
        return DeadlineExceeded("first", LONGEST_READING if self.is_too_long else self.seconds)

    def begin(self) -> None:
        """Make another attempt."""
        self._begun = None

    def restart(self) -> None:
        """Wait anew: nothing went on here, so what the server sent was not read."""
        self._since = self._loop.time()

    def read_on(self, done: int, total: int) -> PromptProgress | None:
        """Take a sign of progress: the wait begins anew. None: it is no more than was known, and no sign."""
        done = min(done, total)
        if done <= self._done:
            return None
        self._done, self._tokens = done, total
        now = self._since = self._loop.time()
        if self._begun is None:
            self._begun = (now, done)
        else:
            begun_at, had = self._begun
            self._speed.measured(done - had, now - begun_at)
        self._grow(total - done)
        return PromptProgress(done, total, self._speed.seconds(total - done))

    def answered(self) -> None:
        """Take note of the first content; learn the speed where it came late, and nothing was told before."""
        self._speed.answered()
        waited = self._loop.time() - self._since
        if self._done < 0 and waited > _LATE_SECONDS:
            self._speed.at_least(self._tokens, waited)

    def goes_on(self) -> bool:
        """Return True if a request that was broken off at the end of this wait is to be made again at once.

        So it is where the server was seen to read on since the last time: it goes on where it was broken off.
        """
        now = self._loop.time()
        if self._done < 0:
            self._speed.waited_in_vain(self._tokens, now - self._since)
        if self._done <= self._left_at or self.is_too_long:
            return False
        self._left_at, self._since = self._done, now
        return True

    def _grow(self, tokens: int) -> None:
        """Wait as long as a number of tokens may take, where that is longer."""
        if self._grows:
            self.seconds = max(NEAR_SECONDS, _MARGIN * (self._speed.seconds(tokens) or 0.0))


class DeadlineExceeded(Struct, frozen=True):
    """A deadline that passed: which one, and its length in seconds."""

    which: Literal["first", "gap", "turn", "listing"]
    seconds: float


class Watchdog:
    """Watches one stream. Content only notes the time; the timer looks at it when it goes off.

    Args:
        deadlines: what to watch for.
        wait: for the first content.
        turn_ends: the loop's time at which the reply ends at the latest, whenever its first content comes.
        on_timeout: called once, with the deadline that passed.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        wait: FirstWait,
        on_timeout: Callable[[DeadlineExceeded], None],
        turn_ends: float = math.inf,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines = deadlines
        self._wait: FirstWait | None = wait  # None: the first content came
        self._turn_ends = turn_ends
        self._on_timeout = on_timeout
        self._patience = deadlines.gap
        self._since = math.inf  # the last content
        self._timer = self._loop.call_at(self._due(), self._look)

    def content(self) -> None:
        """Take note that content came."""
        self._since = self._loop.time()
        if self._wait is not None:
            self._wait = None
            self._turn_ends = min(self._turn_ends, self._since + self._deadlines.turn)
            self._expect_within(self._deadlines.gap)

    def last_words(self) -> None:
        """Expect the end soon: the server said why its reply ended."""
        if self._patience > _LAST_WORDS_SECONDS:
            self.content()
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
        due = self._wait.ends_at if self._wait is not None else self._since + self._patience
        return min(due, self._turn_ends)

    def _look(self) -> None:
        now = self._loop.time()
        due = self._due()
        if now < due:
            self._timer = self._loop.call_at(due, self._look)
        elif now >= self._turn_ends:
            self._on_timeout(DeadlineExceeded("turn", self._deadlines.turn))
        elif now - due > _STOOD_STILL_SECONDS and not (self._wait and self._wait.is_too_long):
            self._since = now
            if self._wait is not None:
                self._wait.restart()
            self._timer = self._loop.call_at(self._due(), self._look)
        elif self._wait is not None:
            self._on_timeout(self._wait.overdue())
        else:
            self._on_timeout(DeadlineExceeded("gap", self._patience))
