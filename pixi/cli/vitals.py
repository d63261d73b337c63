"""How a program that runs for long is doing, in one line of its log whenever it gets the signal USR1."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixi.engine.engine import Engine

_log = logging.getLogger("pixi.vitals")

_FILES = Path("/dev/fd")  # a name for each open file, on Linux and on macOS
_MEMORY = Path("/proc/self/statm")


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
    fields: dict[str, int | float | None] = {
        "up_seconds": round(time.monotonic() - began, 1),
        "conversations": engine.kept,
        "talking": engine.talking,
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": _open_files(),
        "megabytes": _megabytes(),
    }
    told = [
        f"up {_duration(time.monotonic() - began)}",
        f"{engine.kept} conversations in memory, {engine.talking} being answered",
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


def _open_files() -> int | None:
    """How many files and sockets are open; None where the system does not tell."""
    try:
        return len(os.listdir(_FILES)) - 1  # the one that is open for looking
    except OSError:
        return None


def _megabytes() -> int | None:
    """The memory that is in use; None where the system does not tell."""
    try:
        pages = int(_MEMORY.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
