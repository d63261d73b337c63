"""The end of the log, held in memory with secrets masked, as long as somebody serves it."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Literal

from pixi.app.log_forms import form_of
from pixi.core.masking import Mask

KEPT = 1_000
"""Lines."""

_LONGEST = 20_000  # characters of a traceback or a message

Level = Literal["debug", "info", "warning", "error", "critical"]
Form = dict[str, Any]


class LogTail(logging.Handler):
    """Keeps the last lines. Takes them from any thread.

    Args:
        mask: hides secrets in them.
        told: given each line as it comes.
    """

    def __init__(self, mask: Mask, told: Callable[[Form], None]) -> None:
        super().__init__()
        self._mask = mask
        self._told = told
        self._lines: deque[Form] = deque(maxlen=KEPT)
        self._numbers = count(1)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, and tell of it."""
        form = form_of(record, self._mask)
        line = {key: form[key] for key in ("time", "level", "logger", "message")}
        line["message"] = line["message"][:_LONGEST]
        line["traceback"] = str(form.get("traceback", ""))[-_LONGEST:]
        line["number"] = next(self._numbers)
        self._lines.append(line)
        self._told(line)

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
            line
            for line in list(self._lines)
            if logging.getLevelNamesMapping().get(line["level"].upper(), 0) >= least
            and line["logger"].startswith(name)
            and wanted in f"{line['message']}\n{line['traceback']}".casefold()
        ]
        return found[-limit:]


@contextmanager
def tailing(mask: Mask, told: Callable[[Form], None]) -> Iterator[LogTail]:
    """Keep the end of the log until the block is left."""
    tail = LogTail(mask, told)
    root = logging.getLogger()
    root.addHandler(tail)
    try:
        yield tail
    finally:
        root.removeHandler(tail)
        tail.close()
