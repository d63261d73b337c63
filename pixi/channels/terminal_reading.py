"""What a terminal tells while a model reads its prompt: how much is left, and for how long."""

import math
import time

from pixi.core.deltas import PromptProgress
from pixi.core.events import TurnEvent

_SHORT_SECONDS = 1.0  # what does not take longer is not worth a word


class ReadingIndicator:
    """Knows what is read now. Tell it what happens, and ask for its words whenever they are shown."""

    def __init__(self) -> None:
        self._reading: PromptProgress | None = None
        self._told_at = 0.0
        self._since = 0.0

    def happened(self, event: TurnEvent) -> None:
        """Take in what happened: whatever is no reading ends it."""
        now = time.monotonic()
        if not isinstance(event, PromptProgress):
            self._reading = None
            return
        if self._reading is None:
            self._since = now
        self._reading, self._told_at = event, now

    @property
    def reads(self) -> bool:
        """Whether something is left to be read."""
        return self._reading is not None and self._reading.done < self._reading.total

    @property
    def words(self) -> str:
        """How much is left, such as `reading 1,669 tokens · 40 s to go`; "" where it takes no time."""
        now = time.monotonic()
        if self._reading is None or not self.reads or now - self._since < _SHORT_SECONDS:
            return ""
        left = self._reading.total - self._reading.done
        words = f"reading {left:,} token{'s' if left > 1 else ''}"
        to_go = math.ceil((self._reading.seconds or 0.0) - (now - self._told_at))
        return f"{words} · {_told(to_go)} to go" if to_go > 0 else words


def _told(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"
