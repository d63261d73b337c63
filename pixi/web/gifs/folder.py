"""A folder of pictures that are described by the names of their files: `excited cat.gif`, `猫.webp`."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz import fuzz

from pixi.core.errors import ConfigError
from pixi.core.message import Image
from pixi.core.untrusted import prompt_name
from pixi.web.gifs.gifs import FoundGif, GifError, picture_type

ENDINGS = frozenset({".gif", ".webp", ".png", ".jpg", ".jpeg", ".apng"})
MOST_BYTES = 8_000_000
"""Of one picture: what every server of Discord takes."""

_MOST_FILES = 10_000
_DEEPEST = 4
_ALMOST = 80.0  # of 100: how alike words are of which one is another form of the other
_LEAST = 0.5  # how much of the words a picture must say, or of its own words they
_AS_GOOD = 0.95  # of the best: such are chosen from as well
_BEHIND = re.compile(r"[\s_.\-(]*\d{0,4}\)?$")
"""The number that tells `cat 2.gif` from `cat.gif`."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    words: str
    terms: tuple[str, ...]


class GifFolder:
    """The pictures in a folder and the folders in it, read anew for each search.

    Args:
        folder: where they are.
    """

    service = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: tuple[tuple[int, ...], tuple[_Entry, ...]] = ((), ())  # of folders changed last then

    async def warm(self) -> None:
        """Read which pictures there are."""
        with suppress(OSError):  # the search tells of it
            await asyncio.to_thread(self._read)

    async def find(self, words: str, language: str) -> Sequence[FoundGif]:
        """What fits the words, the best first; all that fit nearly as well as the best.

        Raises:
            GifError: the folder cannot be read.
        """
        try:
            return await asyncio.to_thread(self._find, words)
        except OSError as error:
            raise GifError(f"{self._folder} cannot be read: {error.strerror or error}.") from error

    async def fetch(self, found: FoundGif) -> Image:
        """The picture, as it is in its file.

        Raises:
            GifError: it is gone, is no picture, too large, or a link to somewhere else.
        """
        path = Path(found.file)
        try:
            data = await asyncio.to_thread(_bytes_of, path, self._folder)
        except (OSError, RuntimeError) as error:  # links may lead round in a circle
            reason = getattr(error, "strerror", None) or "it cannot be read"
            raise GifError(f"{path.name}: {reason}.") from error
        kind = picture_type(data)
        if not kind:
            raise GifError(f"{path.name} is no picture, whatever it is called.")
        return Image(kind, data)

    def count(self) -> int:
        """How many pictures there are.

        Raises:
            ConfigError: there is no such folder.
        """
        try:
            return len(self._read())
        except OSError as error:
            why = "there is no such folder" if isinstance(error, FileNotFoundError) else error.strerror
            raise ConfigError(f"gifs.folder: {self._folder}: {why}; make it, or name another.") from error

    def _find(self, words: str) -> Sequence[FoundGif]:
        wanted = terms_of(words)
        scored = [(_likeness(wanted, each.terms), each) for each in self._read()]
        fitting = sorted((one for one in scored if one[0] >= _LEAST), key=lambda one: (-one[0], one[1].path))
        best = fitting[0][0] if fitting else 0.0
        return tuple(
            FoundGif(each.words, "", str(each.path)) for score, each in fitting if score >= best * _AS_GOOD
        )

    def _read(self) -> Sequence[_Entry]:
        folders = list(_folders(self._folder))
        seen = tuple(folder.stat().st_mtime_ns for folder in folders)
        known, entries = self._known  # together: several threads may be here
        if seen != known or not entries:
            names = sorted(path for folder in folders for path in _pictures(folder, self._folder))
            entries = tuple(_Entry(path, *_described(path)) for path in names[:_MOST_FILES])
            self._known = (seen, entries)
        return entries


def terms_of(text: str) -> tuple[str, ...]:
    """The words of a text in any language; of those that put no spaces between them, the characters."""
    # Imported here: it reads a list of characters, which only a folder needs.
    from pixi.text.normalising import normalise
    from pixi.text.terms import pieces

    found: list[str] = []
    for kind, piece, _ in pieces(normalise(text)):
        found += [piece] if kind in ("word", "hangul") else list(piece)
    return tuple(dict.fromkeys(found))


def _likeness(wanted: Sequence[str], terms: Sequence[str]) -> float:
    """From 0 to 1: how much of what is wanted a picture says, and how little else."""
    if not wanted or not terms:
        return 0.0
    best = [max(fuzz.ratio(word, term, score_cutoff=_ALMOST) for term in terms) / 100 for word in wanted]
    said, matched = sum(best) / len(wanted), min(sum(best), len(terms)) / len(terms)
    return max(said, matched) * 0.8 + min(said, matched) * 0.2


def _described(path: Path) -> tuple[str, tuple[str, ...]]:
    stem = path.stem
    words = prompt_name(" ".join(re.split(r"[\s_\-]+", _BEHIND.sub("", stem) or stem)))
    return words, terms_of(words)


def _folders(folder: Path, depth: int = 0) -> Iterator[Path]:
    """It and the folders in it; links are not followed."""
    yield folder
    with os.scandir(folder) as entries:
        inner = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for name in inner:
        if depth < _DEEPEST and not name.startswith("."):
            yield from _folders(folder / name, depth + 1)


def _pictures(folder: Path, top: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if path.suffix.lower() not in ENDINGS or entry.name.startswith("."):
                continue
            try:
                size = entry.stat().st_size
            except OSError:  # a link to nothing
                continue
            if entry.is_file() and 0 < size <= MOST_BYTES and _is_inside(path, top):
                yield path


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _bytes_of(path: Path, folder: Path) -> bytes:
    """What is in a file; looked at once more, as it may be another one by now."""
    if not _is_inside(path, folder):
        raise PermissionError(1, "it is a link that leads out of the folder")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(27, f"it is larger than {MOST_BYTES // 1_000_000} MB")
    return data
