"""Searches at a SearXNG server: what it gives, and what its operator is to mend."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from pixi.fetching.web import Web
from pixi.web.search_engines import Result, SearchError, SearXNG
from tests.servers.model_faults import closed_port
from tests.servers.scripted_openai import Json, Reply, ScriptedOpenAI, answer, page


def found(*results: Json, **more: object) -> Reply:
    """What SearXNG gives with `format=json`."""
    head = {"query": "q", "number_of_results": 0, "answers": [], "corrections": [], "infoboxes": []}
    rest = {"suggestions": [], "unresponsive_engines": [], **more}
    return answer(200, {**head, "results": list(results), **rest})


PANCAKES = {
    "url": "https://a.example/thin",
    "title": "Thin\npancakes",
    "content": "How they are made.",
    "engine": "brave",
    "parsed_url": ["https", "a.example", "/thin", "", "", ""],
    "score": 2.0,
    "category": "general",
}


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


async def search(
    web: Web, *replies: Reply, at: str = "", language: str = "en"
) -> tuple[list[Result], Json, str]:
    async with ScriptedOpenAI(*replies) as server:
        root = server.base_url.removesuffix("/v1")
        results = await SearXNG(web, f"{root}{at}").search("pan cakes", 3, language)
        url = urlsplit(server.requests[0].path)
        return list(results), dict(parse_qsl(url.query)), url.path


async def test_it_gives_titles_addresses_and_snippets(web: Web) -> None:
    odd: list[Any] = [
        {"url": "https://c/", "title": "\nC\t", "content": " obey\u2028me"},
        {"url": "javascript:alert(1)", "title": "x"},
        {"title": "no address"},
        "nonsense",
        {"url": "https://b/"},
    ]
    results, asked, path = await search(web, found(PANCAKES, *odd), language="de-AT")
    assert results == [
        Result("Thin pancakes", "https://a.example/thin", "How they are made."),
        Result("C", "https://c/", "obey me"),
        Result("https://b/", "https://b/", ""),
    ]
    assert path == "/search"
    assert asked == {"q": "pan cakes", "format": "json", "language": "de-AT", "safesearch": "1"}


@pytest.mark.parametrize("at", ["/", "/searx", "/searx/", "/searx/search?q=x"])
async def test_it_may_be_in_a_folder(web: Web, at: str) -> None:
    assert (await search(web, found(PANCAKES), at=at))[
        2
    ] == f"{at.partition('/search?')[0].rstrip('/')}/search"


@pytest.mark.parametrize(
    ("language", "sent"),
    [
        ("zh-Hant", "zh-TW"),
        ("zh_Hant_HK", "zh-TW"),
        ("zh-Hans-CN", "zh-CN"),
        ("", "all"),
        ("fa", "fa"),
        ("PT_br", "pt-BR"),
        ("sr-Latn", "sr"),
        ("sr-Latn-RS", "sr-RS"),
        ("es-419", "es"),
        ("i-klingon", "all"),
        ("日本", "all"),
    ],
)
async def test_languages_are_told_as_it_knows_them(web: Web, language: str, sent: str) -> None:
    told = (await search(web, found(PANCAKES), language=language))[1]["language"]
    assert told == sent
    assert told == "all" or re.fullmatch(r"[a-z]{2,3}(-[a-zA-Z]{2})?", told), "it refuses all else"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer(403, "Forbidden", "text/html"), "must add `json` to `formats`"),
        (answer(429, "Too Many Requests", "text/html"), "switch off its limiter"),
        (answer(404, "Not Found", "text/html"), "mend `url`"),
        (answer(502, "", "text/html"), "in trouble (status 502)"),
        (page(), "a web page where a SearXNG server gives JSON"),
        (answer(200, "{"), "is no SearXNG server"),
        (answer(200, {"results": {}}), "is no SearXNG server"),
        (
            found(unresponsive_engines=[["google", "timeout"], ["brave", "CAPTCHA"]]),
            "did not answer it: google, brave",
        ),
    ],
)
async def test_what_is_to_be_mended_is_told(web: Web, reply: Reply, says: str) -> None:
    with pytest.raises(SearchError) as error:
        await search(web, reply)
    assert says in str(error.value)
    assert str(error.value).startswith("127.0.0.1:")


async def test_nothing_found_is_nothing_found(web: Web) -> None:
    assert (await search(web, found()))[0] == []


async def test_a_server_that_is_not_there_is_named(web: Web) -> None:
    with pytest.raises(SearchError, match=r"127\.0\.0\.1"):
        await SearXNG(web, f"http://127.0.0.1:{closed_port()}").search("x", 3, "en")
