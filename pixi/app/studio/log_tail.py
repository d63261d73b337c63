"""The end of the log, held in memory with secrets masked, as long as somebody serves it."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from pixi.app.log_forms import harmless_value, message_of, time_of, trace_of
from pixi.core.masking import Mask

KEPT = 1_000
"""Lines."""

_LONGEST = 20_000  # characters of a traceback or a message

Level = Literal["debug", "info", "warning", "error", "critical"]
Form = dict[str, Any]


@dataclass(slots=True)
class _Line:
    """A line as it was logged; secrets in it are hidden where it is read, once."""

    number: int
    created: float
    level: str
    logger: str
    message: str
    traceback: str
    _form: Form | None = None

    def form(self, mask: Mask) -> Form:
        """Return it as plain data."""
        if self._form is None:
            self._form = {
                "time": time_of(self.created),
                "level": self.level,
                "logger": harmless_value(self.logger, mask),
                "message": str(harmless_value(self.message, mask))[:_LONGEST],
                "traceback": str(harmless_value(self.traceback, mask))[-_LONGEST:],
                "number": self.number,
            }
            self.message = self.traceback = ""
        return self._form


class LogTail(logging.Handler):
    """Keeps the last lines. Takes them from any thread.

    Args:
        mask: hides secrets in them.
        told: given each line as it comes, while `followed` says that somebody wants it.
    """

    def __init__(self, mask: Mask, told: Callable[[Form], None], followed: Callable[[], bool]) -> None:
        super().__init__()
        self._mask = mask
        self._told = told
        self._followed = followed
        self._lines: deque[_Line] = deque(maxlen=KEPT)
        self._numbers = count(1)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, and tell of it."""
        level, message, trace = record.levelname.lower(), message_of(record), trace_of(record)
        line = _Line(next(self._numbers), record.created, level, record.name, message, trace)
        self._lines.append(line)
        if self._followed():
            self._told(line.form(self._mask))

    def lines(self, level: Level, name: str, words: str, limit: int) -> list[Form]:
        """Give the last lines of at least a level, oldest first.

        Args:
            level: the least one.
            name: what the name of the logger begins with.
            words: what the line holds, in small or capital letters.
            limit: how many at most.
        """
        least, wanted = logging.getLevelNamesMapping()[level.upper()], words.casefold()
        found = [
            form
            for line in list(self._lines)
            if logging.getLevelNamesMapping().get(line.level.upper(), 0) >= least
            and line.logger.startswith(name)
            and (form := line.form(self._mask))
            and wanted in f"{form['message']}\n{form['traceback']}".casefold()
        ]
        return found[-limit:]


@contextmanager
def tailing(mask: Mask, told: Callable[[Form], None], followed: Callable[[], bool]) -> Iterator[LogTail]:
    """Keep the end of the log until the block is left; see `LogTail`."""
    tail = LogTail(mask, told, followed)
    root = logging.getLogger()
    root.addHandler(tail)
    try:
        yield tail
    finally:
        root.removeHandler(tail)
        tail.close()
