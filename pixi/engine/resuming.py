"""Takes up the conversations that the last process left: a few at a time, and each by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pixi.core.errors import PixiError
from pixi.toolbox.foreign import foreign

_log = logging.getLogger("pixi.engine")

_AT_ONCE = 8


async def resume_all(addresses: Sequence[str], resume: Callable[[str], Awaitable[None]]) -> None:
    """Resume each conversation; one that fails is told of in the log, and left to the next start."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(address: str) -> None:
        async with gate:
            try:
                with foreign(f"resuming {address}"):
                    await resume(address)
            except PixiError as error:
                _log.warning("conversation %s could not be resumed: %s", address, error)

    await asyncio.gather(*(one(address) for address in addresses))
