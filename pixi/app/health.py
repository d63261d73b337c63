"""Health of a program that runs for long: its figures, and a watch for stalls of its loop."""

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

STILL_SECONDS = 1.0
"""Seconds for which the loop must stand still before the log tells of it."""

_DAY = 86_400.0
_STORE_SECONDS = 2.0  # in which the store answers, or is taken for away
_FILES = Path("/dev/fd")  # a name for each open file, on Linux and on macOS
_MEMORY = Path("/proc/self/statm")
_PAUSE = 0.5  # seconds between two probes of the loop
_UNKNOWN = "; what held it up let nobody look, or the whole process was stopped"
_PYTHON = (sysconfig.get_path("stdlib"), "<frozen")
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


class Vitals(Struct):
    """Figures of the process; None where the system does not tell.

    Attributes:
        conversations: in memory.
        talking: in how many of them a reply is under way, or waits for its turn.
        waiting: in how many of these no turn was begun yet.
        draining: the program is about to end.
        files: files and sockets that are open.
        megabytes: memory in use.
        lag_ms: how late the event loop was, a moment ago.
        longest_lag_ms: how late it ever was.
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


def vitals_of(engine: "Engine", monitor: "LoopMonitor", *, version: str, up_seconds: float) -> Vitals:
    """Return the figures of the process as they are now. To be called on the loop that the engine runs on."""
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
        lag_ms=round(monitor.lag * 1_000, 1),
        longest_lag_ms=round(monitor.longest * 1_000, 1),
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
    ledger: "Engine | UsageLedger", store: "Store", payer: UsageScope, *, began: float, talking: int
) -> "BotStatus":
    """Return the state of the program, and the budget that is left for the person who asks.

    Args:
        ledger: tells what was used.
        store: open.
        payer: who asks, and where.
        began: when the program began, by `time.monotonic()`.
        talking: conversations in which a reply is being written.
    """
    from pixi.channels.discord.backend import ALL_ADDRESSES, BotStatus

    bill = await ledger.bill()
    return BotStatus(
        version("pixi-persona"),
        up_seconds=time.monotonic() - began,
        talking=talking,
        today=await store.tally(ALL_ADDRESSES, time.time() - _DAY),
        month=bill.month,
        month_dollars=bill.month_dollars,
        shares=await ledger.shares(payer),
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


class LoopMonitor:
    """Keeps how late the event loop was. Made anew by whoever has it watched, see `reporting_stalls`.

    Attributes:
        lag: seconds that the loop took, or takes so far, to run the last probe.
        longest: the longest `lag` since the start.
    """

    def __init__(self) -> None:
        self.lag = 0.0
        self.longest = 0.0

    def beat(self, seconds: float) -> None:
        """Note how long a probe took, or takes so far."""
        self.lag = seconds
        self.longest = max(self.longest, seconds)


@contextmanager
def reporting_stalls() -> Iterator[LoopMonitor]:
    """Watch the running loop, from a thread, until the block is left. Gives what keeps how late it was.

    A function that blocks (`time.sleep`, a request without `await`) cannot be ended from outside; but
    whoever runs the bot is told in the log where it stands, while it still does.
    """
    monitor = LoopMonitor()
    watch = _StallWatch(asyncio.get_running_loop(), threading.get_ident(), monitor)
    thread = threading.Thread(target=watch.run, name="stall-watch", daemon=True)
    thread.start()
    try:
        yield monitor
    finally:
        watch.stop()
        thread.join()


class _StallWatch:
    """Probes the loop again and again: has it call a function, and measures how long that takes.

    Args:
        loop: is probed.
        thread: the id of the thread that it runs in.
        monitor: told how long each probe takes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, monitor: LoopMonitor) -> None:
        self._loop = loop
        self._thread = thread
        self._monitor = monitor
        self._stopped = threading.Event()
        self._answered = threading.Event()  # the loop ran the last probe

    def stop(self) -> None:
        """End the thread, whatever it waits for."""
        self._stopped.set()
        self._answered.set()

    def run(self) -> None:
        """Probe until `stop`; this is what the thread runs."""
        began = time.monotonic()
        while not self._stopped.wait(_PAUSE):
            self._answered.clear()
            if self._stopped.is_set():
                return
            asked = time.monotonic()
            self._loop.call_soon_threadsafe(self._answered.set)
            self._answered.wait(STILL_SECONDS)
            self._monitor.beat(time.monotonic() - asked)
            where = "" if self._answered.is_set() else self._report()
            self._answered.wait()
            ended = time.monotonic()
            self._monitor.beat(ended - asked)
            if where or ended - began > _PAUSE + STILL_SECONDS:
                _log.warning("for %.1f s nothing went on%s", ended - began, where or _UNKNOWN)
            began = ended

    def _report(self) -> str:
        """Log where the loop stands still; return the same for the line that tells of its end."""
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
    """Return the frame to blame: a library's function that our code called, else our own innermost one.

    `frames` are all of the thread, from the outermost on.
    """
    own = [number for number, frame in enumerate(frames) if _is_own(frame)]
    called = frames[own[-1] + 1 :] if own else frames
    called = [frame for frame in called if not _is_pythons(frame)]
    if own:
        return called[0] if called else frames[own[-1]]
    return (called or frames)[-1]


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "pixi"


def _is_pythons(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_PYTHON) and not file.startswith(_PACKAGES)


def _place(frame: FrameType) -> str:
    return f"`{frame.f_code.co_name}` ({frame.f_code.co_filename}:{frame.f_lineno})"
