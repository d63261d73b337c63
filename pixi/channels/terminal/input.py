"""What a person types: lines of a pipe, commands, and their completion."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pixi.core.errors import ConfigError

CHUNK_BYTES = 65_536


async def read_chunks(descriptor: int) -> AsyncGenerator[bytes, None]:
    """The bytes of a file, pipe or terminal as they come, each chunk read when it is asked for.

    A thread of its own reads: an event loop can wait for a pipe, but not for a file nor for a console
    on Windows. The thread is a daemon, so that one stuck in a read never keeps the program from ending.

    Raises:
        OSError: it cannot be read.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    wanted = threading.Semaphore(0)
    left = False

    def read() -> None:
        while wanted.acquire() and not left:
            chunk: bytes | OSError
            try:
                chunk = os.read(descriptor, CHUNK_BYTES)
            except OSError as error:
                chunk = error
            if left:
                return
            loop.call_soon_threadsafe(arrived.put_nowait, chunk)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    try:
        while True:
            wanted.release()
            chunk = await arrived.get()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                return
            yield chunk
    finally:
        left = True
        wanted.release()


async def read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """The lines of UTF-8 text, without their ends. A byte order mark at the beginning is skipped.

    Raises:
        ConfigError: a line is not UTF-8; the lines before it were given.
        OSError: the input cannot be read.
    """
    number = 0
    pending: list[bytes] = []
    async with aclosing(read_chunks(descriptor)) as chunks:
        async for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                number += 1
                yield _decoded(b"".join((*pending, line)), number)
                pending.clear()
            pending.append(rest)
    if any(pending):
        yield _decoded(b"".join(pending), number + 1)


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{line[error.start]:02x})"
        raise ConfigError(
            f"standard input, line {number}: {byte} is not UTF-8.\n"
            "Save or convert the text as UTF-8 and send it again."
        ) from None
