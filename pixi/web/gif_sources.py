"""Moving pictures for somebody's words: from a service, or from a folder."""

import asyncio
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol
from urllib.parse import quote, urlencode

from msgspec import Struct
from rapidfuzz import fuzz

from pixi.core.errors import ConfigError, PixiError
from pixi.core.message import Image
from pixi.core.untrusted import clipped, prompt_name
from pixi.fetching.guard import same_origin
from pixi.fetching.web import Web, WebError

Rating = Literal["g", "pg", "pg-13", "r"]
"""The strongest that may be shown, in the words of cinemas."""
_BEGINNINGS = {
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
}
ENDINGS = frozenset({".gif", ".webp", ".png", ".jpg", ".jpeg", ".apng"})
MOST_BYTES = 8_000_000
"""Limit of one picture: every server of Discord takes so much."""
_MOST_FILES = 10_000
_DEEPEST = 4
_ALMOST = 80.0  # of 100: likeness of two forms of a word
_LEAST = 0.5  # share of the words that a picture must say, or of its own words they
_AS_GOOD = 0.95  # of the best: such are chosen from as well
_BEHIND = re.compile(r"[\s_.\-(]*\d{0,4}\)?$")
"""The number that tells `cat 2.gif` from `cat.gif`."""
KLIPY, GIPHY = "https://api.klipy.com", "https://api.giphy.com"
RESULTS = 8
"""Pictures that are asked for: the first few are chosen from."""
_SEARCH_SECONDS = 5.0
_WARM_SECONDS = 3.0
_FILE_SECONDS = 5.0
_MOST_ANSWER_BYTES = 2_000_000
_MOST_FILE_BYTES = 4_000_000
_LONGEST_WORDS = 50
"""Longest query for GIPHY."""
_LONGEST_TITLE = 200
_REST, _LONGEST_REST = 60.0, 3_600.0  # seconds after it was asked too often
_KLIPY_FILTERS: Mapping[Rating, str] = MappingProxyType(
    {"g": "high", "pg": "medium", "pg-13": "low", "r": "off"}
)
_KLIPY_SLUG = re.compile(r"[\w\-]{1,200}")
_GIPHY_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_GIPHY_RATINGS = ("y", "g", "pg", "pg-13", "r")


class GifError(PixiError):
    """A source cannot give anything just now. The text says why, in one line, without its key.

    Attributes:
        rest: seconds for which it wants to be left alone.
    """

    def __init__(self, text: str, *, rest: float = 0.0) -> None:
        super().__init__(text)
        self.rest = rest


class FoundGif(Struct, frozen=True):
    """A picture that fits the words.

    Attributes:
        words: what is to be seen, as its source says; strangers' words.
        link: of its page at the service, by which that asks to show it; "" for a file of one's own.
        file: where the picture itself is: an address, or a path.
    """

    words: str
    link: str
    file: str


class GifSource(Protocol):
    """A service, or a folder."""

    @property
    def service(self) -> str:
        """Name of the service, as it wants to be named beside its pictures; "" for a folder."""
        ...

    async def warm(self) -> None:
        """Make the way ready: somebody is about to search. Nothing is said of what goes wrong."""
        ...

    async def find(self, words: str, language: str) -> Sequence[FoundGif]:
        """Return what fits the words, the best first.

        Args:
            words: one line, not blank.
            language: BCP 47 tag of the language that they may be in.

        Raises:
            GifError: it cannot be asked just now.
        """
        ...

    async def fetch(self, found: FoundGif) -> Image:
        """Return the picture itself, as it is: what moves in it goes on moving.

        Raises:
            GifError: it is not there, is no picture, or too large.
        """
        ...


def picture_type(data: bytes) -> str:
    """Return the media type of a file by how it begins; "" for what is no picture to be shown."""
    for beginning, kind in _BEGINNINGS.items():
        if data.startswith(beginning):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


class _Entry(Struct, frozen=True):
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
        """Return what fits the words, the best first; all that fit nearly as well as the best.

        Raises:
            GifError: the folder cannot be read.
        """
        try:
            return await asyncio.to_thread(self._find, words)
        except OSError as error:
            raise GifError(f"{self._folder} cannot be read: {error.strerror or error}.") from error

    async def fetch(self, found: FoundGif) -> Image:
        """Return the picture, as it is in its file.

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
        """Return how many pictures there are.

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
    """Return the words of a text, in any language; the characters where there are no spaces between them."""
    # Imported here: it reads a list of characters, which only a folder needs.
    from pixi.text.terms import normalise, pieces

    found: list[str] = []
    for kind, piece, _ in pieces(normalise(text)):
        found += [piece] if kind in ("word", "hangul") else list(piece)
    return tuple(dict.fromkeys(found))


def _likeness(wanted: Sequence[str], terms: Sequence[str]) -> float:
    """Return from 0 to 1 how much of what is wanted a picture says, and how little else."""
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
    """Yield a folder and the folders in it; links are not followed."""
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
    """Return what is in a file; looked at once more, as it may be another one by now."""
    if not _is_inside(path, folder):
        raise PermissionError(1, "it is a link that leads out of the folder")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(27, f"it is larger than {MOST_BYTES // 1_000_000} MB")
    return data


class _Service(ABC):
    """Common part of both services. The key stands in addresses, so nothing of an address is ever told.

    Args:
        web: fetches; closed by whoever opened it.
        key: of the service.
        rating: the strongest that it may give.
        base: where it is; "": at its `home`.
    """

    service: str
    home: str

    def __init__(self, web: Web, key: str, rating: Rating, *, base: str = "") -> None:
        self._web = web
        self._key = key
        self._rating: Rating = rating
        self._base = base.rstrip("/") or self.home
        self._trusted = self._base != self.home  # somebody who builds this wrote another

    async def warm(self) -> None:
        """Open a connection, which the search then finds open."""
        with suppress(WebError):  # the search tells of it
            await self._web.get(f"{self._base}/robots.txt", trusted=self._trusted, seconds=_WARM_SECONDS)

    async def find(self, words: str, language: str) -> Sequence[FoundGif]:
        """Return what fits the words, the best first.

        Raises:
            GifError: it does not answer, wants to be left alone, or does not take the key.
        """
        address = self._search(words[:_LONGEST_WORDS], language.partition("-")[0].lower())
        try:
            answer = await self._web.get(
                address,
                trusted=self._trusted,
                accept="application/json",
                most_bytes=_MOST_ANSWER_BYTES,
                seconds=_SEARCH_SECONDS,
            )
        except WebError as error:
            rest = min(error.retry_after or _REST, _LONGEST_REST) if error.status == 429 else 0.0
            raise GifError(self._told(error.status), rest=rest) from None
        try:
            return tuple(self._read(json.loads(answer.body)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise GifError(f"{self.service} answered with something else than pictures.") from None

    async def fetch(self, found: FoundGif) -> Image:
        """Return the picture itself, in a small size.

        Raises:
            GifError: it is not there, is no picture, or too large.
        """
        own = self._trusted and same_origin(found.file, self._base)
        try:
            answer = await self._web.get(
                found.file,
                trusted=own,
                accept="image/gif,image/webp,image/*",
                most_bytes=_MOST_FILE_BYTES,
                seconds=_FILE_SECONDS,
            )
        except WebError as error:
            raise GifError(f"a picture of {self.service}'s could not be had: {error}") from None
        kind = picture_type(answer.body)
        if not kind:
            raise GifError(f"a picture of {self.service}'s is none.")
        return Image(kind, answer.body)

    @abstractmethod
    def _search(self, words: str, language: str) -> str:
        """Return the address of a search."""

    @abstractmethod
    def _read(self, answer: Any) -> Iterator[FoundGif]:
        """Yield what an answer holds; raises whatever it will where it is none."""

    def _told(self, status: int) -> str:
        match status:
            case 401 | 403 | 404:  # KLIPY has nothing at the address of a key that it does not know
                return f"{self.service} does not take the key; see gifs.api_key."
            case 429:
                return f"{self.service} was asked too often for this key; it may answer again later."
            case 0:
                return f"{self.service} does not answer."
            case _:
                return f"{self.service} is out of order ({status})."


class Klipy(_Service):
    """KLIPY. Its key is a part of the path."""

    service, home = "KLIPY", KLIPY

    def _search(self, words: str, language: str) -> str:
        asked = {
            "q": words,
            "page": "1",
            "per_page": str(RESULTS),
            "customer_id": "pixi",  # it asks for one, and learns nothing of anybody
            "content_filter": _KLIPY_FILTERS[self._rating],
            "format_filter": "gif",
        }
        return f"{self._base}/api/v1/{quote(self._key, safe='')}/gifs/search?{urlencode(asked)}"

    def _read(self, answer: Any) -> Iterator[FoundGif]:
        for item in answer["data"]["data"]:
            slug = str(item.get("slug") or "")
            if item.get("type", "gif") != "gif" or not _KLIPY_SLUG.fullmatch(slug):
                continue  # an advertisement
            sizes = item.get("file") or {}
            files = [
                sizes[size]["gif"]["url"] for size in ("sm", "md", "xs", "hd") if "gif" in sizes.get(size, {})
            ]
            link = f"https://klipy.com/gifs/{quote(slug)}"
            yield FoundGif(_title(item.get("title")), link, str(files[0]) if files else "")


class Giphy(_Service):
    """GIPHY."""

    service, home = "GIPHY", GIPHY

    def _search(self, words: str, language: str) -> str:
        asked = {
            "api_key": self._key,
            "q": words,
            "limit": str(RESULTS),
            "rating": self._rating,
            "lang": language or "en",
            "bundle": "messaging_non_clips",
        }
        return f"{self._base}/v1/gifs/search?{urlencode(asked)}"

    def _read(self, answer: Any) -> Iterator[FoundGif]:
        allowed = _GIPHY_RATINGS[: _GIPHY_RATINGS.index(self._rating) + 1]
        for item in answer["data"]:
            number, rating = str(item.get("id") or ""), str(item.get("rating") or "g").lower()
            if not _GIPHY_ID.fullmatch(number) or rating not in allowed:
                continue
            images = item.get("images") or {}
            sizes = ("fixed_width", "fixed_height", "downsized", "original")
            files = [images[size]["url"] for size in sizes if images.get(size, {}).get("url")]
            title = item.get("alt_text") or item.get("title")
            yield FoundGif(_title(title), f"https://giphy.com/gifs/{number}", str(files[0]) if files else "")


def _title(given: object) -> str:
    return prompt_name(clipped(str(given or ""), _LONGEST_TITLE))
