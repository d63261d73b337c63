"""Runs the program of an MCP server in a process group of its own, and ends all of it again."""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct, field

from pixi.core.errors import PixiError
from pixi.mcp.offers import Program

_POLITE_SECONDS = 1.5  # for a program to leave by itself, once its standard input is closed
_FIRM_SECONDS = 1.0  # more, once it was asked to
_LOOK_SECONDS = 0.01
_CHUNK = 64 * 1024
_COMPLAINT_PAUSE = 0.01  # after a full chunk of complaints: so fast, and no faster, they are read
_LONGEST_COMPLAINT = 2_000  # bytes of what it said last on its standard error
_PIPE_BYTES = 256 * 1024


class NotStarted(PixiError):
    """A program could not be started. The text says why, and the mend."""


class Running(Struct):
    """A program that runs. `complaint`: what it said last on its standard error."""

    process: Process
    complaint: bytearray = field(default_factory=bytearray)

    @property
    def last_words(self) -> str:
        """The last line of its complaints; "" where it had none."""
        lines = [line.strip() for line in self.complaint.decode("utf-8", "replace").splitlines()]
        return next(filter(None, reversed(lines)), "")


@asynccontextmanager
async def running(program: Program) -> AsyncGenerator[Running, None]:
    """Run a program as long as the block lasts.

    Raises:
        NotStarted: it cannot be.
    """
    process = await _started(program)
    it = Running(process)
    listening = asyncio.create_task(_listen(it))
    try:
        yield it
    finally:
        try:
            await _leave(process)
        finally:
            listening.cancel()
            await _bury(process)
            await asyncio.wait([listening])


def found(program: Program) -> str:
    """Return the path of what is run.

    Raises:
        NotStarted: there is no such program.
    """
    path = shutil.which(program.command, path=program.environment.get("PATH"))
    if path is None and program.folder is not None:  # `./server` is meant from there
        path = shutil.which(str(program.folder / program.command))
    if path is None:
        raise NotStarted(f"there is no program {program.command!r} here; install it or mend `command`")
    return path


async def _started(program: Program) -> Process:
    starting = asyncio.ensure_future(_spawned(program))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Half started, it would be left behind.
        with suppress(NotStarted):
            await _bury(await starting)
        raise


async def _spawned(program: Program) -> Process:
    path = found(program)
    try:
        return await asyncio.create_subprocess_exec(
            path,
            *program.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=program.environment,
            cwd=program.folder,
            limit=_PIPE_BYTES,
            start_new_session=sys.platform != "win32",
        )
    except (OSError, ValueError) as error:  # ValueError: a zero byte among the arguments
        why = error.strerror if isinstance(error, OSError) else error
        raise NotStarted(f"{program.command!r} cannot be run ({why}); mend `command`") from None


async def _listen(it: Running) -> None:
    """Keep the end of what it says on its standard error, whatever the amount."""
    stream = it.process.stderr
    assert stream is not None
    while chunk := await stream.read(_CHUNK):
        it.complaint += chunk
        del it.complaint[:-_LONGEST_COMPLAINT]
        if len(chunk) == _CHUNK:
            await asyncio.sleep(_COMPLAINT_PAUSE)


async def _leave(process: Process) -> None:
    """See it go: by itself, or else asked to."""
    if process.stdin is not None:
        process.stdin.close()
    if not await gone(process, _POLITE_SECONDS):
        _signal(process, signal.SIGTERM)
        await gone(process, _FIRM_SECONDS)


async def gone(process: Process, seconds: float) -> bool:
    """Return True if it has ended; wait so many seconds for it."""
    # Not `process.wait()`: that waits for its pipes too, which a child of it may hold open.
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _bury(process: Process) -> None:
    """End it, and whatever it started, at once."""
    _signal(process, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    try:
        await gone(process, _FIRM_SECONDS)  # else its end is told to a loop that is closed by then
    finally:
        _close_pipes(process)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, number)  # it leads its group, which may outlive it


def _close_pipes(process: Process) -> None:
    # A child that outlived it may hold them open. Nothing public closes what asyncio reads from.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
