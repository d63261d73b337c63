"""Searches at DuckDuckGo, through the ddgs library: without a key, and as gently as it wants."""

import asyncio
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pixi.core.errors import ConfigError
from pixi.web.search.searching import Result, SearchError, result_from

if TYPE_CHECKING:
    from ddgs.engines.duckduckgo import Duckduckgo

_SECONDS = 8  # for a search; the library ends by itself then
_AT_ONCE = 2
_REST_SECONDS = 60.0  # after it sent us away: whoever goes on asking is sent away for longer
_TOO_OFTEN = frozenset({202, 403, 418, 429})  # how it answers whoever comes too often
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


class _SentAway(SearchError):
    """It was asked too often, and wants to be left alone."""

    def __init__(self) -> None:
        super().__init__(
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
    """Where a language is spoken, as DuckDuckGo calls it."""
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
                raise _SentAway
            try:
                return await asyncio.to_thread(self._search, query, limit, language)
            except _SentAway:
                self._rests_until = time.monotonic() + _REST_SECONDS
                raise

    def _search(self, query: str, limit: int, language: str) -> tuple[Result, ...]:
        from ddgs.engines.duckduckgo import Duckduckgo
        from ddgs.exceptions import DDGSException, TimeoutException

        # Asked by itself, not through `DDGS`: that takes a refusal for a search that found nothing, and asks
        # other engines, which nobody chose.
        engine = Duckduckgo(proxy=self._proxy, timeout=_SECONDS, verify=self._verify)
        try:
            found = _found(engine, query, region_of(language))
        except TimeoutException:
            raise SearchError(f"DuckDuckGo did not answer within {_SECONDS} s; try again.") from None
        except DDGSException:
            raise SearchError("DuckDuckGo could not be reached; try again later.") from None
        return found[:limit]


def _found(engine: "Duckduckgo", query: str, region: str) -> tuple[Result, ...]:
    payload = engine.build_payload(query, region, "moderate", None)
    answer = engine.http_client.request(engine.search_method, engine.search_url, data=payload)
    if answer.status_code in _TOO_OFTEN or _PUZZLE in answer.text:
        raise _SentAway
    if answer.status_code != 200:
        raise SearchError(f"DuckDuckGo is in trouble (status {answer.status_code}); try again later.")
    if not answer.text.strip():
        raise SearchError("DuckDuckGo answered with nothing; try again later.")
    listed = engine.post_extract_results(engine.extract_results(answer.text))
    results = (result_from(each.title, each.href, each.body) for each in listed)
    return tuple(result for result in results if result is not None)
