"""Searches at a SearXNG server, by its JSON."""

import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from pixi.core.untrusted import clipped
from pixi.fetching.web import Web, WebError
from pixi.web.search.searching import Result, SearchError, result_from
from pixi.web.wikis.walls import is_page

_SECONDS = 12.0
_MOST_BYTES = 4_000_000
_SCRIPTS = {"zh-hant": "zh-TW", "zh-hans": "zh-CN"}
_EVERY_LANGUAGE = "all"


def tag_of(language: str) -> str:
    """A language as the server knows it: of a region or of none, never of a script; it refuses all else."""
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
                seconds=_SECONDS,
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
        return self._results(told, limit)

    def _results(self, told: dict[str, Any], limit: int) -> tuple[Result, ...]:
        listed = (each for each in told["results"] if isinstance(each, dict))
        found = (result_from(each.get("title"), each.get("url"), each.get("content")) for each in listed)
        results = tuple(result for result in found if result is not None)[:limit]
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
