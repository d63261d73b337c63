"""Health of a program that runs for long, in figures, and a watch for stalls of its loop."""

import asyncio
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import TYPE_CHECKING

from msgspec import Struct

from pixi.core.errors import StoreError
from pixi.core.spending import UsageScope

if TYPE_CHECKING:
    from pixi.channels.discord.backend import BotStatus
    from pixi.engine.engine import Engine
    from pixi.engine.usage import UsageLedger
    from pixi.store.store import Store

_log = logging.getLogger("pixi.app")

_DAY = 86_400.0
_STORE_SECONDS = 2.0  # in which the store answers, or is taken for away
_FILES = Path("/dev/fd")  # a name for each open file, on Linux and on macOS
_MEMORY = Path("/proc/self/statm")


class Vitals(Struct):
    """The figures of the process; None where the system does not tell.

    Attributes:
        conversations: in memory.
        talking: in how many of them a reply is under way, or waits for its turn.
        waiting: in how many of these no turn was begun yet.
        draining: the program is about to end.
        files: and sockets that are open.
        megabytes: of memory in use.
        lag_ms: how long the loop took to get to what was to be done, a moment ago.
        longest_lag_ms: the longest since the start.
    """

    version: str
    up_seconds: float
    conversations: int
    talking: int
    waiting: int
    draining: bool
    tasks: int
    threads: int
    files: int | None
    megabytes: int | None
    lag_ms: float
    longest_lag_ms: float


def vitals_of(engine: "Engine", pulse: "LoopMonitor", *, version: str, up_seconds: float) -> Vitals:
    """Count now. To be called on the loop that the engine runs on."""
    return Vitals(
        version=version,
        up_seconds=round(up_seconds, 1),
        conversations=engine.kept,
        talking=engine.talking,
        waiting=engine.waiting_replies,
        draining=engine.draining,
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        files=_open_files(),
        megabytes=_megabytes(),
        lag_ms=round(pulse.lag * 1_000, 1),
        longest_lag_ms=round(pulse.longest * 1_000, 1),
    )


async def unready_store(store: "Store") -> str:
    """Say that the store does not answer; "" where it does."""
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await store.key_of("")
    except (StoreError, TimeoutError):
        return "The store does not answer."
    return ""


async def bot_status(
    books: "Engine | UsageLedger", store: "Store", payer: UsageScope, *, began: float, talking: int
) -> "BotStatus":
    """Return the state of the program, and what is left for whoever asks.

    Args:
        books: tell what was used.
        store: open.
        payer: who asks, and where.
        began: when the program did, on the monotonic clock.
        talking: conversations in which a reply is being written.
    """
    from pixi.channels.discord.backend import ALL_ADDRESSES, BotStatus

    bill = await books.bill()
    return BotStatus(
        version("pixi-persona"),
        up_seconds=time.monotonic() - began,
        talking=talking,
        today=await store.tally(ALL_ADDRESSES, time.time() - _DAY),
        month=bill.month,
        month_dollars=bill.month_dollars,
        shares=await books.shares(payer),
        searches=bill.searches,
    )


def _open_files() -> int | None:
    """Count the open files and sockets."""
    try:
        return len(os.listdir(_FILES)) - 1  # the one that is open for looking
    except OSError:
        return None


def _megabytes() -> int | None:
    """Return the memory that is in use."""
    try:
        pages = int(_MEMORY.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


STILL_SECONDS = 1.0
"""Seconds of standstill from which it is told of."""

_PAUSE = 0.5  # between two looks
_UNKNOWN = "; what held it up let nobody look, or the whole process was stopped"
_PYTHON = (sysconfig.get_path("stdlib"), "<frozen")
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


class LoopMonitor:
    """Measures how quickly the loop gets to what is to be done now.

    Attributes:
        lag: seconds that the last sign of life took, or takes so far.
        longest: the longest of them since the start.
    """

    def __init__(self) -> None:
        self.lag = 0.0
        self.longest = 0.0

    def beat(self, seconds: float) -> None:
        """Note how long a sign of life took, or takes so far."""
        self.lag = seconds
        self.longest = max(self.longest, seconds)


@contextmanager
def reporting_stalls() -> Iterator[LoopMonitor]:
    """Watch the loop that runs here, from a thread of its own, until the block is left. Gives its pulse.

    A function that blocks (`time.sleep`, a request without `await`) cannot be ended from outside; but
    whoever runs the bot is told in the log where it stands, while it still does.
    """
    pulse = LoopMonitor()
    watch = _Watch(asyncio.get_running_loop(), threading.get_ident(), pulse)
    thread = threading.Thread(target=watch.run, name="standstill", daemon=True)
    thread.start()
    try:
        yield pulse
    finally:
        watch.stop()
        thread.join()


class _Watch:
    """Asks the loop for a sign of life, again and again.

    Args:
        loop: who is asked.
        thread: where it runs.
        pulse: told how long each takes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, pulse: LoopMonitor) -> None:
        self._loop = loop
        self._thread = thread
        self._pulse = pulse
        self._stopped = threading.Event()
        self._answered = threading.Event()

    def stop(self) -> None:
        """End it, whatever it waits for."""
        self._stopped.set()
        self._answered.set()

    def run(self) -> None:
        """The thread."""
        began = time.monotonic()
        while not self._stopped.wait(_PAUSE):
            self._answered.clear()
            if self._stopped.is_set():
                return
            asked = time.monotonic()
            self._loop.call_soon_threadsafe(self._answered.set)
            self._answered.wait(STILL_SECONDS)
            self._pulse.beat(time.monotonic() - asked)
            where = "" if self._answered.is_set() else self._tell()
            self._answered.wait()
            ended = time.monotonic()
            self._pulse.beat(ended - asked)
            if where or ended - began > _PAUSE + STILL_SECONDS:
                _log.warning("for %.1f s nothing went on%s", ended - began, where or _UNKNOWN)
            began = ended

    def _tell(self) -> str:
        """Tell where it stands; gives the words for when it is over."""
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return _UNKNOWN
        where = _place(_culprit([each for each, _ in walk_stack(frame)][::-1]))
        _log.warning(
            "nothing goes on: %s holds everybody up; what blocks belongs into `await asyncio.to_thread(...)`",
            where,
        )
        return f", held up by {where}"


def _culprit(frames: list[FrameType]) -> FrameType:
    """Return the frame to blame, of all from the outermost on.

    It is what we called, if that is neither ours nor Python's; else what is ours.
    """
    last_own = max((number for number, frame in enumerate(frames) if _is_own(frame)), default=-1)
    called = [frame for frame in frames[last_own + 1 :] if not _is_pythons(frame)]
    if called and last_own >= 0:
        return called[0]
    return frames[last_own] if last_own >= 0 else (called or frames)[-1]


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "pixi"


def _is_pythons(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_PYTHON) and not file.startswith(_PACKAGES)


def _place(frame: FrameType) -> str:
    return f"`{frame.f_code.co_name}` ({frame.f_code.co_filename}:{frame.f_lineno})"
