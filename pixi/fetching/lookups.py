"""Names of hosts looked up in the domain name system, without blocking and without crowding anything out."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port. It raises `OSError` where there are none."""

_AT_ONCE = 8


class Lookups:
    """A `Lookup` by the system's resolver.

    Each runs in a thread of its own that nobody waits for at the end: a name server that a stranger runs may
    let a question hang for half a minute, and the pool in which all else runs is small.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses.

        Raises:
            OSError: there are none.
        """
        async with self._turns:
            return await _in_thread(host, port)


async def _in_thread(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def settle(addresses: Sequence[str], error: OSError | UnicodeError | None) -> None:
        if answer.done():
            return  # nobody waits any more
        if error is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(OSError(f"no address of {host}"))

    def look() -> None:
        addresses: Sequence[str] = ()
        failed: OSError | UnicodeError | None = None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
        except (OSError, UnicodeError) as error:
            failed = error
        with suppress(RuntimeError):  # the loop may be closed: everything has ended meanwhile
            loop.call_soon_threadsafe(settle, addresses, failed)

    threading.Thread(target=look, name="pixi-lookup", daemon=True).start()
    return await answer
