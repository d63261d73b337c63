"""How a program that runs for long is doing, in one line of its log whenever it gets the signal USR1."""

import asyncio
import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pixi.app.health import vitals_of

if TYPE_CHECKING:
    from pixi.engine.engine import Engine

_log = logging.getLogger("pixi.vitals")


@contextmanager
def vitals_on_signal(engine: "Engine") -> Iterator[None]:
    """Answer `kill -USR1 PID` with a line in the log, until the block is left. Windows has no such signal."""
    if not hasattr(signal, "SIGUSR1"):
        yield
        return
    loop, began = asyncio.get_running_loop(), time.monotonic()

    def asked(_: int, __: object) -> None:
        # Not at once: the loop may be asleep, and what is counted belongs to it.
        loop.call_soon_threadsafe(_tell, engine, began)

    before = signal.signal(signal.SIGUSR1, asked)
    try:
        yield
    finally:
        # Ignored from now on where nobody minded it: by default it would end the program.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if before in (None, signal.SIG_DFL) else before)


def _tell(engine: "Engine", began: float) -> None:
    up = time.monotonic() - began
    fields = vitals_of(engine, up)
    told = [
        f"up {_duration(up)}",
        f"{fields['conversations']} conversations in memory, {fields['talking']} being answered",
        f"{fields['tasks']} tasks",
        f"{fields['threads']} threads",
        "" if fields["files"] is None else f"{fields['files']} open files",
        "" if fields["megabytes"] is None else f"{fields['megabytes']:,} MB",
    ]
    _log.info("%s", " · ".join(part for part in told if part), extra={"fields": fields})


def _duration(seconds: float) -> str:
    minutes = int(seconds) // 60
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours}:{minutes % 60:02}" if days else f"{hours}:{minutes % 60:02}"
