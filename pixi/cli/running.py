"""Runs a subcommand's coroutine: on uvloop where installed, with Ctrl-C and a polite kill both clean."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine

from pixi.cli.exits import SIGNALLED


def run_async(work: Coroutine[None, None, int]) -> int:
    """Run it to its end; gives its exit code, or 128 + the signal that ended it.

    Raises:
        KeyboardInterrupt: Ctrl-C; what the coroutine had open is closed by then.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_told_to_end(work))


async def _until_told_to_end(work: Coroutine[None, None, int]) -> int:
    task = asyncio.ensure_future(work)
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        task.cancel()

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not told:
            raise
        return SIGNALLED + told[0]


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
