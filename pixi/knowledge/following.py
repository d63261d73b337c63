"""Tells when something in a folder may have changed, however it was written and wherever it lies."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import watchfiles

_QUIET_SECONDS = 0.15
"""How long nothing may happen before a change is told: editors write in several steps."""

_BURST_SECONDS = 1.0
"""How long a change is held back at most, while others follow it."""

_LOOK_SECONDS = 2.0
"""How often to look, at most, where the system tells nothing, as with folders of another machine."""


async def changes(folder: Path, pause: Callable[[], float]) -> AsyncGenerator[frozenset[str], None]:
    """Yield the paths within the folder that may have changed; none: anything may have.

    That comes now and then in any case: not every system tells of every change.

    Args:
        pause: seconds until the folder is looked at though the system told nothing; asked each time.
    """
    while True:
        known = _identity(folder)
        if known is None:  # it went away; it may come back
            await asyncio.sleep(_LOOK_SECONDS)
            if _identity(folder) is None:
                continue
            yield frozenset()
            continue
        try:
            async with aclosing(_told(folder)) as told:
                last = time.monotonic()
                async for paths in told:
                    if paths:
                        yield paths
                    if time.monotonic() - last >= pause():
                        yield frozenset()
                        last = time.monotonic()
                    if _identity(folder) != known:  # another folder stands in its place
                        break
            yield frozenset()
        except (OSError, RuntimeError):  # the latter is how watchfiles tells of what it did not foresee
            # As many folders are watched as the system allows, or one of them went away just now.
            await asyncio.sleep(max(_LOOK_SECONDS, pause()))
            yield frozenset()


async def _told(folder: Path) -> AsyncGenerator[frozenset[str], None]:
    """The paths of each burst of changes; none where there was no change for a while."""
    watching = watchfiles.awatch(
        folder,
        watch_filter=lambda _, path: _counts(folder, path),
        debounce=int(_BURST_SECONDS * 1_000),
        step=int(_QUIET_SECONDS * 1_000),
        rust_timeout=int(_LOOK_SECONDS * 1_000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    async with aclosing(watching):
        async for burst in watching:
            yield frozenset(_within(folder, path) for _, path in burst)


def _counts(folder: Path, path: str) -> bool:
    """What is hidden is no document: version control and editors write a lot there."""
    return not any(part.startswith(".") for part in _within(folder, path).split("/"))


def _within(folder: Path, path: str) -> str:
    """As paths are written here; "" is the folder itself."""
    within = os.path.relpath(path, folder).replace(os.sep, "/")
    return "" if within == "." else within


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
