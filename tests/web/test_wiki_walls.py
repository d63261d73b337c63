"""What stands between a program and a wiki is told in words; a wiki that wants to rest is left alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest

from pixi.fetching.web import Fetched, Web
from pixi.web import wiki_api
from pixi.web.wiki import Wiki
from pixi.web.wiki_api import WikiError, page_instead
from tests.servers.scripted_openai import Reply, Seen, Wait, answer
from tests.servers.scripted_wiki import Article, ScriptedWiki, challenge, lagged, refusal, web_page
from tests.waiting import within

ARTICLES = {"Creeper": Article("<p>A creeper explodes.</p>")}
LOGIN = refusal("readapidenied", "You need read permission to use this module.")


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


@pytest.fixture
async def server() -> AsyncIterator[ScriptedWiki]:
    async with ScriptedWiki(dict(ARTICLES)) as server:
        yield server


def at_api(reply: Reply) -> Callable[[Seen], Reply | None]:
    return lambda seen: reply if "api.php" in seen.path else None


def in_turn(*replies: Reply | None) -> Callable[[Seen], Reply | None]:
    """To the questions after the first, which finds out what the wiki is."""
    left = [None, *replies]
    return lambda seen: left.pop(0) if "api.php" in seen.path and left else None


async def told(web: Web, server: ScriptedWiki) -> str:
    with pytest.raises(WikiError) as error:
        await Wiki(web, server.url, trusted=True).search("creeper", 3)
    text = str(error.value)
    assert text.startswith("127.0.0.1")
    assert text.endswith((".", "…"))
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("wall", "says"),
    [
        (lambda _: challenge(), "a check that needs a browser (Cloudflare)"),
        (at_api(challenge()), "a check that needs a browser (Cloudflare)"),
        (
            lambda _: web_page("Making sure you're not a bot!", body="/.within.website/x"),
            "a check that needs a browser (Anubis)",
        ),
        (at_api(web_page("Forbidden", 403)), "refuses programs like this one (403)"),
        (at_api(answer(401, "no", "text/plain")), "wants a login for this (401)"),
        (at_api(answer(500, "oh", "text/plain")), "has a fault just now (500)"),
        (at_api(LOGIN), "can be read only by those who are logged in there"),
        (at_api(web_page("Blocks &amp; more")), 'answers with a web page ("Blocks & more")'),
        (
            at_api(answer(200, "<p>MediaWiki API is not enabled for this site.</p>", "text/html")),
            "switched off",
        ),
        (at_api(answer(200, "[1, 2]")), "something that is not from a MediaWiki"),
        (at_api(answer(200, "{}")), "is no MediaWiki"),
        (at_api(answer(200, "{")), "no JSON"),
        (lambda _: web_page("A shop"), "is no MediaWiki"),
        (lambda _: web_page("Gone", 404), "is no MediaWiki"),
        (at_api(answer(429, "slow", "text/plain", retry_after="120")), "wants to rest for 120 s"),
        (at_api(lagged(60)), "is too busy just now"),
        (at_api(refusal("internal_api_error_DBQueryError", "A\nfault " * 90)), "says: A fault A fault"),
    ],
)
async def test_a_wall_is_told_in_words(
    web: Web, server: ScriptedWiki, wall: Callable[[Seen], Reply | None], says: str
) -> None:
    server.stands_in_the_way = wall
    assert says in await told(web, server)


async def test_a_wiki_that_is_not_there_is_named(web: Web) -> None:
    with pytest.raises(WikiError, match=r"127\.0\.0\.1"):
        await Wiki(web, "http://127.0.0.1:9/wiki/", trusted=True).site()


async def test_a_wiki_that_nobody_vouches_for_may_not_be_in_the_private_network(
    web: Web, server: ScriptedWiki
) -> None:
    with pytest.raises(WikiError, match="public"):
        await Wiki(web, server.url, trusted=False).site()
    assert server.requests == []


async def test_what_went_wrong_is_not_tried_again_at_once(web: Web, server: ScriptedWiki) -> None:
    server.stands_in_the_way = at_api(LOGIN)
    wiki = Wiki(web, server.url, trusted=True)
    for _ in range(3):
        with pytest.raises(WikiError, match="logged in"):
            await wiki.search("creeper", 3)
    assert len(server.asked) == 1


@pytest.mark.parametrize("wall", [lagged(1), answer(429, "slow", "text/plain", retry_after="1")])
async def test_a_wiki_that_wants_a_moment_gets_it(
    web: Web, server: ScriptedWiki, monkeypatch: pytest.MonkeyPatch, wall: Reply
) -> None:
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr(wiki_api, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(wiki_api, "time", SimpleNamespace(monotonic=lambda: 100.0))
    wiki = Wiki(web, server.url, trusted=True)
    server.stands_in_the_way = in_turn(wall)
    found = await wiki.search("creeper", 3)
    assert [hit.title for hit in found.hits] == ["Creeper"]
    assert 1.0 in asked


async def test_a_wiki_that_wants_to_rest_is_not_asked_meanwhile(web: Web, server: ScriptedWiki) -> None:
    wiki = Wiki(web, server.url, trusted=True)
    server.stands_in_the_way = in_turn(answer(503, "later", "text/plain", retry_after="90"))
    with pytest.raises(WikiError, match="503"):
        await wiki.search("creeper", 3)
    asked = len(server.asked)
    with pytest.raises(WikiError, match="wants to rest for another"):
        await wiki.search("gunpowder", 3)
    assert len(server.asked) == asked


async def test_no_wiki_is_asked_much_at_once(web: Web, server: ScriptedWiki) -> None:
    wiki = Wiki(web, server.url, trusted=True)
    slow = answer(200, {"batchcomplete": True, "query": {"search": []}})
    server.stands_in_the_way = in_turn(*[Reply((Wait(0.05), *slow.steps))] * 6)
    await asyncio.gather(*(wiki.search(f"word {number}", 3) for number in range(6)))
    assert len({seen.connection for seen in server.requests}) == 2


async def test_a_host_that_is_not_public_is_what_is_told_where_there_is_no_api_besides(web: Web) -> None:
    async with ScriptedWiki(dict(ARTICLES), host="http://10.1.2.3") as server:
        server.stands_in_the_way = at_api(web_page("Not Found", 404))
        with pytest.raises(WikiError, match=r"10\.1\.2\.3 is not on the public internet"):
            await Wiki(web, server.url, trusted=True).site()


async def test_what_a_wiki_says_gives_a_terminal_no_orders(web: Web, server: ScriptedWiki) -> None:
    server.stands_in_the_way = at_api(refusal("odd", "\x1b[2J\x07Gone.\u202e"))
    text = await told(web, server)
    assert text.isprintable()
    assert text.endswith("says: [2J Gone.")


async def test_a_page_that_is_made_to_take_long_does_not() -> None:
    async with within("a word on the page"):
        body = b"<title" * 1_000_000
        page = Fetched("http://a.example/", 200, "text/html", "", body)
        assert (await asyncio.to_thread(page_instead, page)).startswith("answers with")


def test_of_a_page_the_beginning_is_looked_at_and_no_more() -> None:
    for blanks, told in ((60_000, True), (70_000, False)):
        body = b"<p>" + b" " * blanks + b"<title>Sign in</title>"
        assert ("Sign in" in page_instead(Fetched("http://a/", 200, "text/html", "", body))) == told
