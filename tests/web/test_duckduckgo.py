"""Searches at DuckDuckGo, with the real ddgs library, through a proxy to a server of our own."""

import pytest

from pixi.core.errors import ConfigError
from pixi.web import search_engines
from pixi.web.search_engines import DuckDuckGo, Result, SearchError, region_of, require_ddgs
from tests.servers.model_faults import closed_port
from tests.servers.scripted_duckduckgo import ScriptedDuckDuckGo, found, puzzle
from tests.servers.scripted_openai import Hang, Reply, answer

PANCAKES = ("Pancakes", "https://a.example/thin", "About <b>thin</b> pancakes.")
ADVERT = ("Buy", "https://duckduckgo.com/y.js?ad_provider=x", "An advertisement.")
LONG = ("T" * 300, "https://b.example/", "s" * 900)


async def asked(server: ScriptedDuckDuckGo, query: str = "pancakes", language: str = "en") -> list[Result]:
    engine = DuckDuckGo(proxy=server.proxy, verify=server.believed)
    return list(await engine.search(query, 3, language))


async def test_it_gives_titles_addresses_and_snippets() -> None:
    async with ScriptedDuckDuckGo(found(PANCAKES, ADVERT, LONG)) as server:
        first, second = await asked(server, "煎饼 recipe", "zh-Hant")
    assert first == Result("Pancakes", "https://a.example/thin", "About thin pancakes.")
    assert (len(second.title), len(second.snippet)) == (200, 400)
    assert server.hosts == ["html.duckduckgo.com:443"]
    assert server.asked == [{"q": "煎饼 recipe", "b": "", "l": "tw-tzh"}]


async def test_it_gives_no_more_than_were_wanted() -> None:
    rows = [(f"Page {number}", f"https://a.example/{number}", "x") for number in range(9)]
    async with ScriptedDuckDuckGo(found(*rows)) as server:
        assert [each.title for each in await asked(server)] == ["Page 0", "Page 1", "Page 2"]


async def test_nothing_found_is_nothing_found() -> None:
    async with ScriptedDuckDuckGo(found()) as server:
        assert await asked(server) == []


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (puzzle(), "asked too often"),
        (puzzle(200), "asked too often"),
        (answer(429, "slow down", "text/plain"), "asked too often"),
        (answer(500, "oh", "text/plain"), "in trouble (status 500)"),
        (answer(200, " ", "text/html"), "answered with nothing"),
        (Reply((b"no http\r\n\r\n",)), "could not be reached"),
    ],
)
async def test_why_there_is_nothing_is_told_in_words(reply: Reply, says: str) -> None:
    async with ScriptedDuckDuckGo(reply) as server:
        with pytest.raises(SearchError) as error:
            await asked(server)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


async def test_whoever_is_sent_away_stays_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedDuckDuckGo(puzzle(), found(PANCAKES)) as server:
        engine = DuckDuckGo(proxy=server.proxy, verify=server.believed)
        for _ in range(3):
            with pytest.raises(SearchError, match="asked too often"):
                await engine.search("pancakes", 3, "en")
        assert len(server.asked) == 1
        monkeypatch.setattr(engine, "_rests_until", 0.0)
        assert len(await engine.search("pancakes", 3, "en")) == 1


async def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_engines, "_DUCKDUCKGO_SECONDS", 0.2)
    async with ScriptedDuckDuckGo(Reply((Hang(),))) as server:
        with pytest.raises(SearchError, match=r"within 0\.2 s"):
            await asked(server)


async def test_a_server_that_is_not_there_or_is_another_is_told_of() -> None:
    with pytest.raises(SearchError, match="could not be reached"):
        await DuckDuckGo(proxy=f"http://127.0.0.1:{closed_port()}").search("pancakes", 3, "en")
    async with ScriptedDuckDuckGo(found(PANCAKES)) as server:
        with pytest.raises(SearchError, match="could not be reached"):
            await DuckDuckGo(proxy=server.proxy).search("pancakes", 3, "en")
        assert server.asked == []


@pytest.mark.parametrize(
    ("language", "region"),
    [
        ("en", "wt-wt"),
        ("en-GB", "uk-en"),
        ("de", "de-de"),
        ("de_AT", "at-de"),
        ("pt-BR", "br-pt"),
        ("zh-Hans", "cn-zh"),
        ("zh-Hant-HK", "tw-tzh"),
        ("tlh", "wt-wt"),
        ("", "wt-wt"),
    ],
)
def test_the_region_is_that_of_the_language(language: str, region: str) -> None:
    assert region_of(language) == region


async def test_a_missing_library_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_ddgs()
    monkeypatch.setattr(search_engines, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "pixi-persona\[web\]"'):
        require_ddgs()
    with pytest.raises(SearchError, match=r'the operator mends it.*pip install "pixi-persona\[web\]"'):
        await DuckDuckGo().search("pancakes", 3, "en")
