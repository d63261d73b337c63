"""What is done beside the talks: words that were forgotten are let go of, and old ones are forgotten."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pixi.core.errors import StoreError

if TYPE_CHECKING:
    from pixi.engine.engine import Engine
    from pixi.store.store import Store

_log = logging.getLogger("pixi.store")

LOOK_SECONDS = 1.0
"""How long what another process had forgotten may stay in memory."""

_DAY = 86_400.0
_AGAIN_SECONDS = 3_600.0
_BETWEEN_PORTIONS = 0.02  # in which others have the database


@asynccontextmanager
async def upkeep(
    engine: "Engine",
    store: "Store",
    keep_days: Callable[[], int | None],
    follow: Callable[[int], Awaitable[None]],
) -> AsyncGenerator[None, None]:
    """Do it until the block is left.

    Args:
        engine: what it holds in memory follows the store.
        store: open.
        keep_days: gives how old words may become; None: as old as they like. Asked anew each time.
        follow: told the store's revision again and again: it grows when words are taken out of the store.
    """
    tasks = [
        asyncio.create_task(_evict(engine, follow)),
        asyncio.create_task(_forget_daily(store, keep_days)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def forget_old(store: "Store", days: int) -> None:
    """Forget what was said so many days ago, or before.

    Raises:
        StoreError: not all of it could be forgotten.
    """
    more = True
    while more:
        more = await store.forget_old(time.time() - days * _DAY)
        await asyncio.sleep(_BETWEEN_PORTIONS)


async def _evict(engine: "Engine", follow: Callable[[int], Awaitable[None]]) -> None:
    while True:
        with suppress(StoreError):  # whoever writes there is told of it
            await follow(await engine.evict())
        await asyncio.sleep(LOOK_SECONDS)


async def _forget_daily(store: "Store", keep_days: Callable[[], int | None]) -> None:
    """At the start, and then once a day: more often while that does not work."""
    while True:
        wait = _DAY
        if (days := keep_days()) is not None:
            try:
                await forget_old(store, days)
            except StoreError as error:
                _log.warning("what is older than %d days is not forgotten yet: %s", days, error)
                wait = _AGAIN_SECONDS
        await asyncio.sleep(wait)
