"""Search engines that Pixi asks by itself: DuckDuckGo, and SearXNG."""

import asyncio
import json
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from pixi.core.errors import ConfigError, PixiError
from pixi.core.untrusted import clipped
from pixi.fetching.web import Web, WebError
from pixi.web.wiki_api import is_page

_LONGEST_TITLE = 200  # characters
_LONGEST_SNIPPET = 400
_LONGEST_ADDRESS = 2_000


class SearchError(PixiError):
    """The web could not be searched. The text says why, for a model and an operator alike."""


class Result(Struct, frozen=True):
    """A page that was found: strangers' words."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """A search engine."""

    @property
    def name(self) -> str:
        """The engine's name."""
        ...

    async def search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        """Return the pages that fit best, best first. `language`: a BCP 47 tag, of the one who asks.

        Raises:
            SearchError: it could not be asked.
        """
        ...


def _results(listed: Iterable[tuple[object, object, object]], limit: int) -> tuple[Result, ...]:
    """Return the first results of titles, addresses and snippets: on a line each, cut where they are long.

    What leads nowhere is left out.
    """
    found: list[Result] = []
    for title, url, snippet in listed:
        if isinstance(url, str) and len(url) <= _LONGEST_ADDRESS and url.startswith(("http://", "https://")):
            named, told = (
                " ".join(each.split()) if isinstance(each, str) else "" for each in (title, snippet)
            )
            found.append(Result(clipped(named, _LONGEST_TITLE) or url, url, clipped(told, _LONGEST_SNIPPET)))
    return tuple(found[:limit])


_DUCKDUCKGO_SECONDS = 8  # for a search; the library ends by itself then
_AT_ONCE = 2
_REST_SECONDS = 60.0  # after it sent us away: whoever goes on asking is sent away for longer
_TOO_OFTEN = frozenset({202, 403, 418, 429})  # its answers to those who come too often
_PUZZLE = "anomaly-modal"  # the mark of the page with which it asks for a person
_EVERYWHERE = "wt-wt"
_SPOKEN = (
    "ar=xa-ar bg=bg-bg ca=ct-ca cs=cz-cs da=dk-da de=de-de el=gr-el es=es-es et=ee-et fi=fi-fi fr=fr-fr "
    "he=il-he hr=hr-hr hu=hu-hu id=id-id it=it-it ja=jp-jp ko=kr-kr lt=lt-lt lv=lv-lv ms=my-ms nb=no-no "
    "nl=nl-nl no=no-no pl=pl-pl pt=pt-pt ro=ro-ro ru=ru-ru sk=sk-sk sl=sl-sl sv=se-sv th=th-th tr=tr-tr "
    "uk=ua-uk vi=vn-vi zh=cn-zh de-at=at-de de-ch=ch-de en-au=au-en en-ca=ca-en en-gb=uk-en en-ie=ie-en "
    "en-in=in-en en-nz=nz-en en-us=us-en en-za=za-en es-ar=ar-es es-mx=mx-es fr-be=be-fr fr-ca=ca-fr "
    "fr-ch=ch-fr nl-be=be-nl pt-br=br-pt zh-hant=tw-tzh zh-hk=hk-tzh zh-tw=tw-tzh"
)
_REGIONS = dict(each.split("=") for each in _SPOKEN.split())
"""The regions of languages, and of languages somewhere. English alone is spoken everywhere."""


_SENT_AWAY = (
    "DuckDuckGo answers no more searches from here for a while: it was asked too often. "
    "Say so, or try again in some minutes."
)


def require_ddgs() -> None:
    """See that the library is there.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("ddgs") is None:
        raise ConfigError(
            '[web_search]: searching at DuckDuckGo needs `pip install "pixi-persona[web]"`; '
            "or name another `engine`."
        )


def region_of(language: str) -> str:
    """Return where a language is spoken, as DuckDuckGo calls it."""
    parts = language.lower().replace("_", "-").split("-")
    return _REGIONS.get("-".join(parts[:2])) or _REGIONS.get(parts[0], _EVERYWHERE)


class DuckDuckGo:
    """A `SearchEngine`.

    Args:
        proxy: through which it is asked.
        verify: whether it must show who it is; or the file of a certificate that is believed.
    """

    name = "duckduckgo"

    def __init__(self, *, proxy: str | None = None, verify: bool | str = True) -> None:
        self._proxy = proxy
        self._verify = verify
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._rests_until = 0.0

    async def search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        """See `SearchEngine`."""
        try:
            require_ddgs()
        except ConfigError as error:
            raise SearchError(f"The web cannot be searched until the operator mends it. {error}") from None
        async with self._room:
            if time.monotonic() < self._rests_until:
                raise SearchError(_SENT_AWAY)
            return await asyncio.to_thread(self._search, query, limit, region_of(language))

    def _search(self, query: str, limit: int, region: str) -> tuple[Result, ...]:
        from ddgs.engines.duckduckgo import Duckduckgo
        from ddgs.exceptions import DDGSException, TimeoutException

        # Asked by itself, not through `DDGS`: that takes a refusal for a search that found nothing, and asks
        # other engines, which nobody chose.
        engine = Duckduckgo(proxy=self._proxy, timeout=_DUCKDUCKGO_SECONDS, verify=self._verify)
        payload = engine.build_payload(query, region, "moderate", None)
        try:
            answer = engine.http_client.request(engine.search_method, engine.search_url, data=payload)
            text = answer.text
            if answer.status_code in _TOO_OFTEN or _PUZZLE in text:
                self._rests_until = time.monotonic() + _REST_SECONDS
                raise SearchError(_SENT_AWAY)
            if answer.status_code != 200:
                raise SearchError(f"DuckDuckGo is in trouble (status {answer.status_code}); try again later.")
            if not text.strip():
                raise SearchError("DuckDuckGo answered with nothing; try again later.")
            listed = engine.post_extract_results(engine.extract_results(text))
        except TimeoutException:
            said = f"DuckDuckGo did not answer within {_DUCKDUCKGO_SECONDS} s; try again."
            raise SearchError(said) from None
        except DDGSException:
            raise SearchError("DuckDuckGo could not be reached; try again later.") from None
        return _results(((each.title, each.href, each.body) for each in listed), limit)


_SEARXNG_SECONDS = 12.0
_MOST_BYTES = 4_000_000
_SCRIPTS = {"zh-hant": "zh-TW", "zh-hans": "zh-CN"}
_EVERY_LANGUAGE = "all"


def tag_of(language: str) -> str:
    """Return a language as SearXNG takes it: with a region or without one, never with a script."""
    parts = language.replace("_", "-").split("-")
    script = _SCRIPTS.get("-".join(parts[:2]).lower())
    if script:
        return script
    spoken, regions = parts[0].lower(), [part.upper() for part in parts[1:] if _is_word(part, 2, 2)]
    return "-".join((spoken, *regions[:1])) if _is_word(spoken, 2, 3) else _EVERY_LANGUAGE


def _is_word(part: str, least: int, most: int) -> bool:
    return least <= len(part) <= most and part.isascii() and part.isalpha()


class SearXNG:
    """A `SearchEngine`.

    Args:
        web: fetches.
        url: of the server, as its operator knows it; with the folder in which it is, if it is in one.
    """

    name = "searxng"

    def __init__(self, web: Web, url: str) -> None:
        self._web = web
        self._url = url.partition("?")[0].rstrip("/").removesuffix("/search")
        self._host = urlsplit(url).netloc.rpartition("@")[2]

    async def search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        """See `SearchEngine`."""
        fields = {"q": query, "format": "json", "language": tag_of(language), "safesearch": 1}
        try:
            answer = await self._web.get(
                f"{self._url}/search?{urlencode(fields)}",
                trusted=True,
                accept="application/json",
                most_bytes=_MOST_BYTES,
                seconds=_SEARXNG_SECONDS,
            )
        except WebError as error:
            raise SearchError(self._refused(error)) from None
        if is_page(answer.body):
            raise SearchError(
                f"{self._host} answers with a web page where a SearXNG server gives JSON; "
                "mend `url` of [web_search]."
            )
        try:
            told = json.loads(answer.body)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("results"), list):
            raise SearchError(f"{self._host} is no SearXNG server; mend `url` of [web_search].")
        listed = (each for each in told["results"] if isinstance(each, dict))
        results = _results(
            ((each.get("title"), each.get("url"), each.get("content")) for each in listed), limit
        )
        failed = told.get("unresponsive_engines")
        if not results and isinstance(failed, list) and failed:
            names = ", ".join(str(each[0]) for each in failed if isinstance(each, list) and each)
            raise SearchError(
                f"{self._host} found nothing, as engines did not answer it: {clipped(names, 200)}."
            )
        return results

    def _refused(self, error: WebError) -> str:
        match error.status:
            case 0:
                return str(error)
            case 403:
                return (
                    f"{self._host} gives no JSON: its operator must add `json` to `formats`, under `search` "
                    "in its settings.yml."
                )
            case 404:
                return f"{self._host} has no search there; mend `url` of [web_search]."
            case 429:
                return (
                    f"{self._host} was asked too often: its operator can switch off its limiter for Pixi; "
                    "or try again later."
                )
            case status:
                return f"{self._host} is in trouble (status {status}); try again later."
