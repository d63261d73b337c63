"""Wikis are found, searched and read; a page comes in the form that says most."""

from collections.abc import AsyncIterator

import pytest

from pixi.core.lru import LRU
from pixi.fetching.web import Web
from pixi.web.wiki import Wiki, wikipedia_in
from tests.servers.scripted_wiki import Article, ScriptedWiki

CREEPER = """
<table class="infobox"><tbody>
<tr><th>Health points</th><td>20 <img alt="hearts" src="h.png"></td></tr>
</tbody></table>
<p>A <b>creeper</b> is a mob that explodes.<sup class="reference"><a href="#cite">[1]</a></sup></p>
<div class="mw-heading mw-heading2"><h2 id="Drops">Drops</h2><span class="mw-editsection">[edit]</span></div>
<p>It drops gunpowder when it dies.</p>
<div class="navbox"><p>Mobs: Zombie Skeleton</p></div>
"""
ARTICLES = {
    "Creeper": Article(CREEPER, revision=7),
    "Gunpowder": Article("<p>Gunpowder makes TNT.</p>"),
    "苦力怕": Article("<p>苦力怕是一种会爆炸的生物。</p>"),
    "Hissing thing": Article(redirect="Creeper"),
    "Mercury": Article(
        "<p>Mercury may mean:</p><ul>"
        '<li><a href="/wiki/Mercury_(planet)" title="Mercury (planet)">planet</a></li>'
        '<li><a href="/w/index.php?title=X&redlink=1" title="X (page does not exist)">x</a></li></ul>',
        ambiguous=True,
    ),
}


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


@pytest.fixture
async def server() -> AsyncIterator[ScriptedWiki]:
    async with ScriptedWiki(dict(ARTICLES)) as server:
        yield server


@pytest.fixture
def wiki(web: Web, server: ScriptedWiki) -> Wiki:
    return Wiki(web, server.url, trusted=True)


async def test_a_search_gives_titles_snippets_sizes_and_links(wiki: Wiki, server: ScriptedWiki) -> None:
    found = await wiki.search("explodes", 5)
    (hit,) = found.hits
    assert (hit.title, hit.url) == ("Creeper", f"{server.root}/wiki/Creeper")
    assert "A creeper is a mob that explodes." in hit.snippet
    assert "<" not in hit.snippet
    assert hit.bytes == len(ARTICLES["Creeper"].source.encode())


async def test_an_answer_that_goes_on_is_followed(wiki: Wiki, server: ScriptedWiki) -> None:
    server.at_once = 1
    assert len((await wiki.search("gunpowder", 5)).hits) == 2
    assert [each.get("sroffset") for each in server.asked if "list" in each] == [None, "1"]


async def test_the_same_search_is_asked_for_once(wiki: Wiki, server: ScriptedWiki) -> None:
    assert await wiki.search("explodes", 5) == await wiki.search(" explodes ", 5)
    assert len([each for each in server.asked if "list" in each]) == 1


async def test_a_suggestion_is_told_where_nothing_is_found(wiki: Wiki) -> None:
    found = await wiki.search("creper", 5)
    assert (found.hits, found.suggestion) == ((), "creeper")


async def test_a_page_keeps_its_boxes_and_sections_and_loses_what_is_not_said(wiki: Wiki) -> None:
    (page,) = (await wiki.pages(["Creeper"])).found
    assert (page.title, page.revision) == ("Creeper", 7)
    opening, drops = page.sections
    assert "Health points | 20 hearts" in opening.text
    assert "A creeper is a mob that explodes." in opening.text
    assert (drops.heading, drops.text) == ("Drops", "It drops gunpowder when it dies.")
    assert not any("Zombie" in section.text or "[1]" in section.text for section in page.sections)


async def test_titles_lead_where_they_mean(wiki: Wiki) -> None:
    pages = await wiki.pages(["hissing thing", "creeper", "Nobody", "苦力怕"])
    assert [page.title for page in pages.found] == ["Creeper", "苦力怕"]
    assert pages.missing == ("Nobody",)
    assert pages.led == (("hissing thing", "Creeper"),)
    assert pages.found[1].url.endswith("/wiki/%E8%8B%A6%E5%8A%9B%E6%80%95")
    assert pages.found[1].sections[0].text == "苦力怕是一种会爆炸的生物。"


@pytest.mark.parametrize("told", [True, False])
async def test_a_page_that_tells_meanings_lists_them(wiki: Wiki, server: ScriptedWiki, told: bool) -> None:
    server.meanings_told = told
    if not told:
        box = f'<div id="disambigbox">May mean</div>{ARTICLES["Mercury"].html}'
        server.articles["Mercury"] = Article(box, ambiguous=True)
    (page,) = (await wiki.pages(["Mercury"])).found
    assert page.meanings == ("Mercury (planet)",)


async def test_a_page_is_read_again_only_after_it_changed(wiki: Wiki, server: ScriptedWiki) -> None:
    def parsed() -> int:
        return sum(each.get("action") == "parse" for each in server.asked)

    await wiki.pages(["Creeper"])
    await wiki.pages(["Creeper"])
    assert parsed() == 1
    server.articles["Creeper"] = Article("<p>It is gone.</p>", revision=8)
    (page,) = (await wiki.pages(["Creeper"])).found
    assert (parsed(), page.sections[0].text) == (2, "It is gone.")


async def test_a_page_too_long_to_be_parsed_comes_as_an_extract(wiki: Wiki, server: ScriptedWiki) -> None:
    text = "<p>Long.</p><h2>Later</h2>" + "<p>A line of words that goes on.</p>\n" * 60_000
    server.articles["Long"] = Article(text, length=2_000_000)
    (page,) = (await wiki.pages(["Long"])).found
    assert page.characters > 1_500_000
    assert [section.heading for section in page.sections] == ["", "Later"]
    assert not any(each.get("action") == "parse" for each in server.asked)


async def test_where_nothing_else_is_to_be_had_it_is_the_wikitext(wiki: Wiki, server: ScriptedWiki) -> None:
    server.modules = frozenset()
    text = "A '''creeper''' [[Mob|explodes]].<ref>so</ref>\n\n== Drops ==\n{{drop|gunpowder}}<!-- no -->\n"
    server.articles["Creeper"] = Article("x", wikitext=text)
    (page,) = (await wiki.pages(["Creeper"])).found
    assert [(section.heading, section.text) for section in page.sections] == [
        ("", "A creeper explodes."),
        ("Drops", "{{drop|gunpowder}}"),
    ]


async def test_whoever_asks_says_who_they_are_and_leaves_a_busy_wiki_alone(
    wiki: Wiki, server: ScriptedWiki
) -> None:
    await wiki.best("creeper", 2)
    assert all(seen.headers["user-agent"].startswith("pixi-persona/") for seen in server.requests)
    assert {each["maxlag"] for each in server.asked} == {"5"}


async def test_the_wiki_is_looked_for_once(wiki: Wiki, server: ScriptedWiki) -> None:
    await wiki.search("creeper", 2)
    await wiki.search("gunpowder", 2)
    assert len([each for each in server.asked if "meta" in each]) == 1


async def test_what_is_kept_is_bounded(
    wiki: Wiki, server: ScriptedWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parsed() -> int:
        return sum(each.get("action") == "parse" for each in server.asked)

    server.articles.update({f"Empty {number}": Article("", wikitext="x") for number in range(4)})
    monkeypatch.setattr(wiki, "_pages", LRU(2))
    for number in range(3):  # one by one: of several at once any may be the first
        await wiki.pages([f"Empty {number}"])
    await wiki.pages(["Empty 2", "Empty 1"])
    assert parsed() == 3
    await wiki.pages(["Empty 0"])
    assert parsed() == 4


async def test_searches_that_were_made_again_stay_longest(
    wiki: Wiki, server: ScriptedWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki, "_searches", LRU(2))
    monkeypatch.setattr("pixi.web.wiki._KEPT_SEARCH_SECONDS", 0)
    for query in ("creeper", "gunpowder", "creeper", "mercury"):
        await wiki.search(query, 3)
    monkeypatch.setattr("pixi.web.wiki._KEPT_SEARCH_SECONDS", 600)
    asked = len(server.asked)
    await wiki.search("creeper", 3)
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("script", "pages", "at"),
    [
        ("/w", "/wiki/$1", "/wiki/Creeper"),
        ("", "/wiki/$1", "/wiki/Creeper"),
        ("", "/$1", "/"),
        ("/wiki", "/wiki/index.php/$1", "/wiki/index.php/Main_Page"),
        ("/games/blocks", "/games/blocks/index.php/$1", "/games/blocks/index.php/Creeper"),
        ("/mediawiki", "/mediawiki/index.php/$1", ""),
        ("/w", "/wiki/$1", "/w/api.php?action=help"),
    ],
)
async def test_the_api_is_found_wherever_it_is(web: Web, script: str, pages: str, at: str) -> None:
    async with ScriptedWiki(dict(ARTICLES), script=script, pages=pages, tells_api=False) as server:
        site = await Wiki(web, f"{server.root}{at}", trusted=True).site()
        assert (site.api, site.name) == (f"{server.root}{script}/api.php", "Blocks Wiki")


async def test_the_page_itself_tells_where_the_api_is(web: Web) -> None:
    async with ScriptedWiki(dict(ARTICLES), script="/odd/place") as server:
        site = await Wiki(web, server.url, trusted=True).site()
        assert site.api == f"{server.root}/odd/place/api.php"
        assert len(server.requests) == 2


async def test_where_a_page_names_a_host_that_is_not_public_the_api_is_looked_for_beside_it(web: Web) -> None:
    async with ScriptedWiki(dict(ARTICLES), host="http://10.1.2.3") as server:
        wiki = Wiki(web, server.url, trusted=True)
        assert (await wiki.site()).api == f"{server.root}/w/api.php"
        assert (await wiki.search("explodes", 1)).hits[0].url == "http://10.1.2.3/wiki/Creeper"


async def test_links_lead_to_pages_of_the_web_alone(web: Web) -> None:
    async with ScriptedWiki(dict(ARTICLES), pages="javascript:alert(1)//$1", tells_api=False) as server:
        wiki = Wiki(web, f"{server.root}/", trusted=True)
        assert (await wiki.site()).url_of("Creeper") == f"{server.root}/w/index.php?title=Creeper"


@pytest.mark.parametrize(
    ("language", "url", "variant"),
    [
        ("en", "en", ""),
        ("en-GB", "en", ""),
        ("de-AT", "de", ""),
        ("zh-Hant", "zh", "zh-hant"),
        ("zh-Hant-TW", "zh", "zh-hant"),
        ("zh-TW", "zh", "zh-tw"),
        ("cmn", "zh", ""),
        ("yue", "zh-yue", ""),
        ("nb", "no", ""),
        ("pt_BR", "pt", ""),
        ("sr-Latn", "sr", "sr-el"),
        ("fa", "fa", ""),
        ("tlh", "en", ""),
        ("", "en", ""),
        ("../evil", "en", ""),
    ],
)
def test_wikipedia_speaks_the_language_of_the_persona(language: str, url: str, variant: str) -> None:
    assert wikipedia_in(language) == (f"https://{url}.wikipedia.org/wiki/", variant)
