"""Runs a subcommand's coroutine: on uvloop where installed, ended cleanly by Ctrl-C or a polite kill."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from pixi.cli.exits import FAILED, FINE, SIGNALLED, USAGE
from pixi.core.errors import ConfigError, PixiError

_SWITCH_SECONDS = 0.00005
"""Time that the store's thread and the loop wait for each other to let go of the interpreter.

A hundredth of Python's default. So long, and no longer, the loop stands still while a conversation is read.
"""

_PR_SET_DUMPABLE = 4

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # not every system has them all


def run_async(work: Coroutine[None, None, int], *, serves: bool = False) -> int:
    """Run a subcommand to its end; return its exit code, or 128 + the number of the signal that ended it.

    The first signal cancels the coroutine, which closes what it has open. A second one ends the process
    at once: whoever sends it will not wait, and nothing that counts is kept in memory alone.

    Args:
        work: the subcommand.
        serves: it stays until a signal ends it. Then the first signal is its good end, with code 0; a service
            manager would take any other code for a failure.
    """
    told: list[int] = []
    cancel: list[Callable[[], object]] = []

    def end(number: int, _: object) -> None:
        if told:
            os._exit(SIGNALLED + number)
        told.append(number)
        for each in cancel:
            each()

    async def cancellable() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        # Not at once: the loop may be asleep, and has to be woken up.
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if told:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if not told:
                raise
            return FINE if serves else SIGNALLED + told[0]
        finally:
            cancel.clear()

    tune()
    close_to_others()
    # The handler stays while the runner closes: that takes a moment too, and is no time to be interrupted.
    with _handling(end, _ENDING), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(cancellable())


def run_logged(work: Coroutine[None, None, int], log: logging.Logger, *, as_json: bool) -> int:
    """Run a subcommand that serves, see `run_async`. Whoever reads the log as JSON finds its error there.

    Raises:
        PixiError: what ended it, where the log is not JSON.
    """
    try:
        return run_async(work, serves=True)
    except PixiError as error:
        if not as_json:
            raise
        log.error("%s", error)
        return USAGE if isinstance(error, ConfigError) else FAILED


async def until_one_ends(*works: Coroutine[None, None, None]) -> None:
    """Run coroutines side by side until one ends; end the others, and raise what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


def tune() -> None:
    """Set the interpreter up for a process that lives long and streams much.

    The collector looks for garbage less often than by default: each pass over everything stops all streams,
    for a tenth of a second where there are a thousand.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(20_000, 20, 50)


def close_to_others() -> None:
    """Keep this process's memory and environment, where keys are, from others of the same user (Linux only).

    Here, before anything is started: MCP servers and readers of documents run as that user. Those get an
    environment of their own. It costs core dumps, and debuggers that are not root's. Root is kept from
    nothing.
    """
    if sys.platform != "linux":
        return
    from ctypes import CDLL, c_int, c_ulong

    CDLL(None).prctl(c_int(_PR_SET_DUMPABLE), c_ulong(0), c_ulong(0), c_ulong(0), c_ulong(0))


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals that end a program be caught in a block: for work outside `run_async`.

    Raises:
        KeyboardInterrupt: at Ctrl-C.
        SystemExit: at another one, with its exit code.
    """

    def leave(number: int, _: object) -> None:
        raise SystemExit(SIGNALLED + number)

    close_to_others()
    with _handling(leave, _ENDING), _handling(signal.default_int_handler, ["SIGINT"]):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object], names: Sequence[str]) -> Iterator[None]:
    """Handle some signals until the block is left."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = [(number, signal.signal(number, handler)) for number in numbers]
    try:
        yield
    finally:
        for number, previous in before:
            signal.signal(number, previous)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
