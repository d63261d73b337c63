"""Tells the operator when code holds the loop up, which everybody waits for, and where it stands."""

import asyncio
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger("pixi.app")

STILL_SECONDS = 1.0
"""How long nothing may go on before it is told of."""

_PAUSE = 0.5  # between two looks
_UNKNOWN = "; what held it up let nobody look, or the whole process was stopped"
_PYTHON = (sysconfig.get_path("stdlib"), "<frozen")
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


class Pulse:
    """How quickly the loop gets to what is to be done now.

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
def telling_of_standstills() -> Iterator[Pulse]:
    """Watch the loop that runs here, from a thread of its own, until the block is left. Gives its pulse.

    A function that blocks (`time.sleep`, a request without `await`) cannot be ended from outside; but
    whoever runs the bot is told in the log where it stands, while it still does.
    """
    pulse = Pulse()
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

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, pulse: Pulse) -> None:
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
        where = _place(_culprit(_outermost_first(frame)))
        _log.warning(
            "nothing goes on: %s holds everybody up; what blocks belongs into `await asyncio.to_thread(...)`",
            where,
        )
        return f", held up by {where}"


def _outermost_first(frame: FrameType | None) -> list[FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _culprit(frames: list[FrameType]) -> FrameType:
    """Whose code it is: what we called, if it is neither ours nor Python's; else what is ours."""
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
