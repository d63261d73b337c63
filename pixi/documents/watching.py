"""Tells when files and folders change, however they were written and wherever they lie."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import watchfiles
from msgspec import Struct

_QUIET_SECONDS = 0.2
"""Quiet time before a change is told: editors write in several steps."""

_BURST_SECONDS = 1.0
"""Longest time for which a change is held back, while others follow it."""

_LOOK_SECONDS = 2.0
"""Interval of looking where the system tells nothing, as with folders of another machine."""

Print = Mapping[Path, tuple[int, int, int]]


async def bursts(
    folders: tuple[Path, ...], *, recursive: bool = False, pause: Callable[[], float] = lambda: 0.0
) -> AsyncGenerator[frozenset[str], None]:
    """Yield the paths of each burst of changes; none where there was no change for a while.

    Not every system tells of every change. Where folders cannot be watched, this yields once, and ends.

    Args:
        folders: those to watch.
        recursive: whether what is deeper in them counts.
        pause: seconds until the one time, at the least, where they cannot be watched.
    """
    watching = watchfiles.awatch(
        *folders,
        watch_filter=None,
        debounce=int(_BURST_SECONDS * 1_000),
        step=int(_QUIET_SECONDS * 1_000),
        rust_timeout=int(_LOOK_SECONDS * 1_000),
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    try:
        async with aclosing(watching):
            async for burst in watching:
                yield frozenset(path for _, path in burst)
    except (OSError, RuntimeError):  # the latter is how watchfiles tells of what it did not foresee
        # As many folders are watched as the system allows, or one of them went away just now.
        await asyncio.sleep(max(_LOOK_SECONDS, pause()))
        yield frozenset()


class WatchedPaths(Struct, frozen=True):
    """Paths to watch: files, there or not, folders of Markdown files, names of folders in a parent."""

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    parents: tuple[Path, ...] = ()


async def changes(watched: Callable[[], WatchedPaths]) -> AsyncGenerator[None, None]:
    """Yield at once, and after each change.

    Args:
        watched: asked anew each time, as a change may bring other files.
    """
    known = await _settled(watched())
    yield
    while True:
        places = _places(watched())
        async with aclosing(bursts(places)) as told:
            async for _ in told:
                now = await _settled(watched())
                if now != known:
                    known = now
                    yield
                if _places(watched()) != places:
                    break


def _places(watched: WatchedPaths) -> tuple[Path, ...]:
    """Return the folders to watch: those of files, and each folder with the one above, to see it return."""
    wanted = [file.absolute().parent for file in watched.files]
    for folder in (*watched.folders, *watched.parents):
        wanted += [folder.absolute(), folder.absolute().parent]
    return tuple(dict.fromkeys(place for place in wanted if place.is_dir()))


async def _settled(watched: WatchedPaths) -> Print:
    """Return the fingerprint, once it stays the same."""
    last, now = None, _fingerprint(watched)
    while now != last:
        await asyncio.sleep(_QUIET_SECONDS)
        last, now = now, _fingerprint(watched)
    return now


def _fingerprint(watched: WatchedPaths) -> Print:
    """Return a fingerprint of the files. A link counts by its target."""
    files = list(watched.files)
    for folder in watched.folders:
        try:
            files += [path for path in folder.iterdir() if path.suffix.lower() == ".md"]
        except OSError:
            continue  # it is not there
    prints: dict[Path, tuple[int, int, int]] = {}
    for path in files:
        try:
            status = path.stat()
        except OSError:  # it is not there
            continue
        prints[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    for parent in watched.parents:  # what changes inside of a folder there is its own matter
        try:
            prints |= {path: (0, 0, 0) for path in parent.iterdir() if path.is_dir()}
        except OSError:  # it is not there
            continue
    return prints
