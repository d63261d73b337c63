"""Files in which llama.cpp keeps between runs what it has read of a talk: the KV cache of its slot.

Such a file holds the words of a talk as tokens. Its name tells the store that the talk is in, and the
store's revision, which grows with everything that is forgotten there: so the files that hold what was
forgotten are known, whichever process forgot it. The name ends with a digest of the content, and
llama.cpp is given no file that differs from it: one that is cut off ends its process (`GGML_ASSERT` in
`llama_state_seq_load_file`).
"""

import hashlib
import logging
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pixi.models.weights import cache_folder

_log = logging.getLogger("pixi.models")

MOST_BYTES = 1 << 30
"""Limit of all files. The bundled model takes 23 kB for a token, one of 8 billion parameters 130 kB."""

_SAVING_SECONDS = 120  # longer than any file takes to be written
_NAME_CHARACTERS = 16  # of a digest that tells stores or talks apart


class SavedSlots:
    """The saved slots of the talks in one store.

    Args:
        store: the store's name or path, without a password.
        folder: of the files; None: in the user's cache.

    Attributes:
        revision: of the store. Only files of this revision are found; those of others are `drop`ped.
    """

    def __init__(self, store: str, folder: Path | None = None) -> None:
        self.revision = 0
        self._store = _short(store)
        self._folder = folder or slots_folder()

    def find(self, key: str) -> Path | None:
        """Return the whole file that was saved last under a key. One that is broken is deleted."""
        for path in sorted(self._files(f"{self._stem(key)}.*.slot"), key=_age, reverse=True):
            try:
                if _digest(path) == path.name.split(".")[-2]:
                    path.touch()  # the cap takes what was not used for longest
                    return path
                _log.warning("what was read of the last talk is read again: %s is broken", path)
            except OSError as error:
                _log.warning("what was read of the last talk is read again: %s", error)
            discard(path)
        return None

    @contextmanager
    def writing(self, key: str) -> Generator[Path, None, None]:
        """Give a path for a new file. If the block ends well it takes the place of what the key had before.

        Raises:
            OSError: there is no room, or no permission, or the file was deleted meanwhile.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        if shutil.disk_usage(self._folder).free < 2 * MOST_BYTES:
            raise OSError(f"there is little room left in {self._folder}")
        path = self._folder / f"{self._stem(key)}.{secrets.token_hex(8)}.saving"
        try:
            yield path
            path.chmod(0o600)
            before = list(self._files(f"{self._stem(key)}.*.slot"))
            kept = path.replace(self._folder / f"{self._stem(key)}.{_digest(path)}.slot")
        finally:
            discard(path)
        for each in before:
            if each != kept:
                discard(each)
        self._drop_oldest()

    def drop(self, *, but: int | None = None) -> None:
        """Delete the files of this store: all, or all but those of one revision."""
        for path in self._files(f"{self._store}.*"):
            was_left = path.suffix == ".saving" and _age(path) < time.time() - _SAVING_SECONDS  # by a kill
            if was_left or path.name.split(".")[1] != str(but):
                discard(path)

    def _stem(self, key: str) -> str:
        return f"{self._store}.{self.revision}.{_short(key)}"

    def _files(self, pattern: str) -> list[Path]:
        return list(self._folder.glob(pattern))

    def _drop_oldest(self) -> None:
        """Delete what was not used for longest, of all stores, until the rest is within `MOST_BYTES`."""
        total = 0
        for path in sorted(self._files("*.*"), key=_age, reverse=True):
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                if total + size > MOST_BYTES:
                    discard(path)
                else:
                    total += size


def slots_folder() -> Path:
    """Return the folder of all such files."""
    return cache_folder() / "slots"


def discard(path: Path) -> None:
    """Delete a file, if it is there; the log tells where that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s holds words of a talk and cannot be deleted: %s", path, error.strerror)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARACTERS]


def _age(path: Path) -> float:
    """Return when a file was used last, in seconds since the epoch; 0 where it is gone."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
