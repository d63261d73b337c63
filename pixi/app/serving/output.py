"""Standard output as the protocol's alone: whatever else is printed goes to standard error."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue


class Output:
    """What writes messages, as far as the SDK asks a file for it.

    A thread of its own writes. It is a daemon, so that a client that does not read keeps nobody from leaving.

    Attributes:
        idle: set while nothing is being written.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._texts: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self.idle = asyncio.Event()
        self.idle.set()
        threading.Thread(target=self._write, name="standard output", daemon=True).start()

    async def write(self, text: str) -> None:
        """Write a text, whole.

        Raises:
            OSError: nobody can read it any more.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self.idle.clear()
        self._texts.put((text.encode(), done))
        try:
            await done
        finally:
            self.idle.set()

    async def flush(self) -> None:
        """Do nothing: what was written is on its way."""

    def _write(self) -> None:
        while True:
            data, done = self._texts.get()
            error: OSError | None = None
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as failed:
                error = failed
            try:
                self._loop.call_soon_threadsafe(_end, done, error)
            except RuntimeError:  # the loop is closed
                return


def _end(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


@contextmanager
def standard_output() -> Iterator[Output]:
    """Take standard output as long as the block lasts. Programs that are started print elsewhere too."""
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield Output(own)  # it is never closed: the thread may be stuck in it
    finally:
        os.dup2(own, sys.stdout.fileno())
