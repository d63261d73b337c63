"""Where what was made of a folder is kept, and the lock by which one process alone writes it."""

import os
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.knowledge.one_line import shown

_OF = "folder"
"""The file that names the folder of which a cache was made; its time tells when that was last opened."""

_FORGOTTEN_SECONDS = 30 * 24 * 3600.0
"""How long the cache of a folder that is gone is kept: its disk may only be unplugged."""


def cache_folder(folder: Path, name: str, cache: Path | None) -> Path:
    """The folder, made if it is missing: `cache`, or the user's own, or where that cannot be written a
    temporary one.

    Raises:
        ConfigError: none of them can be written.
    """
    if cache is not None:
        if reason := _unwritable(cache):
            raise ConfigError(f"{shown(cache)}: no index can be kept here ({reason}); name another folder.")
        return cache
    import platformdirs

    place = blake2b(os.fsencode(folder), digest_size=6).hexdigest()
    own = f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40] or 'database'}-{place}"
    wanted = platformdirs.user_cache_path("pixi-persona") / "databases" / own
    reason = _unwritable(wanted)
    if not reason:
        _sign(wanted, folder)
        return wanted
    user = f"-{os.getuid()}" if sys.platform != "win32" else ""
    temporary = Path(tempfile.gettempdir()) / f"pixi-persona{user}"
    if not _unwritable(temporary) and _is_ours(temporary) and not _unwritable(temporary / own):
        _sign(temporary / own, folder)
        return temporary / own
    raise ConfigError(
        f"{shown(wanted)}: the index cannot be kept here ({reason}), nor in {shown(temporary)}; "
        "free some space, or mend the permissions."
    )


def _sign(cache: Path, folder: Path) -> None:
    """Note of what it is the cache. A new one is the occasion to clear those away that nobody will need."""
    with suppress(OSError):
        is_new = not (cache / _OF).exists()
        (cache / _OF).write_bytes(os.fsencode(folder))
        if is_new:
            _clear_away(cache.parent)


def _clear_away(caches: Path) -> None:
    """Delete the caches of folders that are gone and were not opened for long."""
    for cache in caches.iterdir():
        with suppress(OSError, ValueError, sqlite3.Error):
            signed = cache / _OF
            if time.time() - signed.stat().st_mtime < _FORGOTTEN_SECONDS:
                continue
            lock = Lock(cache / "lock.db")
            if os.path.isdir(signed.read_bytes()) or not lock.take():
                continue
            try:
                shutil.rmtree(cache, ignore_errors=True)
            finally:
                lock.give_back()


def _unwritable(folder: Path) -> str:
    """Why nothing can be written there; "" where it can. The folder is made, for its owner alone."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a page" * 1_000)
            file.flush()
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _is_ours(folder: Path) -> bool:
    """Whether nobody else could have laid it there: everybody may write into a temporary folder."""
    if sys.platform == "win32":
        return True  # there each person has one
    status = folder.lstat()
    return status.st_uid == os.getuid() and not folder.is_symlink() and not status.st_mode & 0o022


class Lock:
    """Held by the one process that writes. It is given back when the process ends, however it ends.

    An exclusive transaction on an SQLite file of its own: SQLite knows how each system locks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def take(self) -> bool:
        """Try to take it, without waiting; whether it is held now.

        Raises:
            sqlite3.Error: the file cannot be written at all.
        """
        if self._connection:
            return True
        # Opened in one thread and closed in another, never used by two at once.
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
            raise
        self._connection = connection
        return True

    def give_back(self) -> None:
        """Let another process write. Calling it twice does no harm."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._connection.close()
            self._connection = None
