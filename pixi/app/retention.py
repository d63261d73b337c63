"""Retention: old words and forgotten people leave the store, the memory and files beside it."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import StoreError

if TYPE_CHECKING:
    from pixi.engine.engine import Engine
    from pixi.settings import Settings
    from pixi.store.store import Store

_log = logging.getLogger("pixi.store")


def state_folder() -> Path:
    """Return the folder that the system has for such files."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "pixi-persona"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "pixi-persona"
    named = os.environ.get("XDG_STATE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".local" / "state") / "pixi-persona"


def forget_typed() -> None:
    """Empty the file of what was typed; it stays for its owner alone.

    Raises:
        OSError: it cannot be written.
    """
    with suppress(FileNotFoundError):
        os.truncate(state_folder() / "history", 0)


LOOK_SECONDS = 1.0
"""Time for which words that another process had forgotten may stay in memory."""

_DAY = 86_400.0
_AGAIN_SECONDS = 3_600.0
_BETWEEN_PORTIONS = 0.02  # in which others have the database


async def forget_old(store: "Store", days: int) -> None:
    """Forget what was said so many days ago, or before.

    Raises:
        StoreError: not all of it could be forgotten.
    """
    more = True
    while more:
        more = await store.forget_old(time.time() - days * _DAY)
        await asyncio.sleep(_BETWEEN_PORTIONS)


async def evict_forgotten(engine: "Engine", follow: Callable[[int], Awaitable[None]]) -> None:
    """Keep what the engine holds in memory to what the store has, until cancelled.

    Args:
        engine: that may hold words which were forgotten.
        follow: told the store's revision again and again: it grows when words are taken out of the store.
    """
    while True:
        with suppress(StoreError):  # whoever writes there is told of it
            await follow(await engine.evict())
        await asyncio.sleep(LOOK_SECONDS)


async def forget_daily(store: "Store", keep_days: Callable[[], int | None]) -> None:
    """Forget old words at the start, and then once a day, until cancelled: more often while that fails.

    `keep_days` gives how old words may become; None: as old as they like. It is asked anew each time.
    """
    while True:
        wait = _DAY
        if (days := keep_days()) is not None:
            try:
                await forget_old(store, days)
            except StoreError as error:
                _log.warning("what is older than %d days is not forgotten yet: %s", days, error)
                wait = _AGAIN_SECONDS
        await asyncio.sleep(wait)


async def forget_beside(settings: "Settings", store: "Store", person: str) -> list[str]:
    """Forget what models here have read, typed lines and files, once the store forgot a person.

    Returns what somebody has to delete by hand, a line each.
    """
    from pixi.app.slot_saver import slots_of
    from pixi.channels.http.files import Files, files_folder
    from pixi.channels.terminal.lines import sits_at_terminal
    from pixi.store.opening import file_of, is_postgres
    from pixi.store.sqlite.damage import set_aside_before

    left: list[str] = []
    folder = files_folder(settings.http.files, settings.store.url)
    try:
        await Files(store, folder, settings.http).sweep()
    except OSError as error:
        left.append(f"files of theirs could not be deleted ({error.strerror}): delete {folder}.")
    if slots := slots_of(settings.store.url):
        slots.drop()
    if sits_at_terminal(person):
        forget_typed()
    path = None if is_postgres(settings.store.url) else file_of(settings.store.url)
    left += [
        f"{file} was set aside because it is damaged, and may hold words of theirs: delete it."
        for file in (() if path is None else set_aside_before(path))
    ]
    return left
