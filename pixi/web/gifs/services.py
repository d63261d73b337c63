"""KLIPY and GIPHY, services that have a moving picture for everything: asked by key, shown by their links."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from pixi.core.message import Image
from pixi.core.untrusted import clipped, prompt_name
from pixi.fetching.urls import same_origin
from pixi.fetching.web import Fetched, WebError
from pixi.web.gifs.gifs import FoundGif, GifError, Rating, picture_type

KLIPY, GIPHY = "https://api.klipy.com", "https://api.giphy.com"

RESULTS = 8
"""How many are asked for: the first few are chosen from."""

_SEARCH_SECONDS = 5.0
_WARM_SECONDS = 3.0
_FILE_SECONDS = 5.0
_MOST_ANSWER_BYTES = 2_000_000
_MOST_FILE_BYTES = 4_000_000
_LONGEST_WORDS = 50
"""What GIPHY takes."""

_LONGEST_TITLE = 200
_REST, _LONGEST_REST = 60.0, 3_600.0  # seconds after it was asked too often
_KLIPY_FILTERS: Mapping[Rating, str] = MappingProxyType(
    {"g": "high", "pg": "medium", "pg-13": "low", "r": "off"}
)
_KLIPY_SLUG = re.compile(r"[\w\-]{1,200}")
_GIPHY_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_GIPHY_RATINGS = ("y", "g", "pg", "pg-13", "r")


class Getting(Protocol):
    """What fetches: `pixi.fetching.web.Web`."""

    async def get(
        self,
        url: str,
        *,
        trusted: bool = False,
        accept: str = "*/*",
        most_bytes: int = ...,
        seconds: float = ...,
    ) -> Fetched:
        """Fetch an address."""
        ...


class _Service(ABC):
    """What both have in common. The key stands in addresses, so nothing of an address is ever told.

    Args:
        web: fetches; closed by whoever opened it.
        key: of the service.
        rating: the strongest that it may give.
        base: where it is.
    """

    service = ""
    _base: str

    def __init__(self, web: Getting, key: str, rating: Rating, base: str) -> None:
        self._web = web
        self._key = key
        self._rating: Rating = rating
        self._base = base.rstrip("/")
        self._trusted = self._base not in (KLIPY, GIPHY)  # somebody who builds this wrote another

    async def warm(self) -> None:
        """Open a connection, which the search then finds open."""
        with suppress(WebError):  # the search tells of it
            await self._web.get(f"{self._base}/robots.txt", trusted=self._trusted, seconds=_WARM_SECONDS)

    async def find(self, words: str, language: str) -> Sequence[FoundGif]:
        """What fits the words, the best first.

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
        """The picture itself, in a small size.

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
        """The address of a search."""

    @abstractmethod
    def _read(self, answer: Any) -> Iterator[FoundGif]:
        """What an answer holds; raises whatever it will where it is none."""

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

    service = "KLIPY"

    def __init__(self, web: Getting, key: str, rating: Rating, *, base: str = KLIPY) -> None:
        super().__init__(web, key, rating, base)

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

    service = "GIPHY"

    def __init__(self, web: Getting, key: str, rating: Rating, *, base: str = GIPHY) -> None:
        super().__init__(web, key, rating, base)

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
