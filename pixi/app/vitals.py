"""How a program that runs for long is doing, in figures."""

import asyncio
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pixi.engine.engine import Engine

_FILES = Path("/dev/fd")  # a name for each open file, on Linux and on macOS
_MEMORY = Path("/proc/self/statm")


class Vitals(TypedDict):
    """The figures; None where the system does not tell.

    Attributes:
        conversations: in memory.
        talking: in how many of them a reply is under way.
        files: and sockets that are open.
    """

    up_seconds: float
    conversations: int
    talking: int
    tasks: int
    threads: int
    files: int | None
    megabytes: int | None


def vitals_of(engine: "Engine", up_seconds: float) -> Vitals:
    """Count now. To be called on the loop that the engine runs on."""
    return Vitals(
        up_seconds=round(up_seconds, 1),
        conversations=engine.kept,
        talking=engine.talking,
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        files=_open_files(),
        megabytes=_megabytes(),
    )


def _open_files() -> int | None:
    """How many files and sockets are open."""
    try:
        return len(os.listdir(_FILES)) - 1  # the one that is open for looking
    except OSError:
        return None


def _megabytes() -> int | None:
    """The memory that is in use."""
    try:
        pages = int(_MEMORY.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
