"""robots.txt: heeded as RFC 9309 has it, kept for a while, and no bomb."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from yarl import URL

from pixi.fetching.web import Refused, WebError
from pixi.web.pages import Robots
from tests.servers.staged_web import Stage, StagedWeb, served
from tests.waiting import within


@dataclass
class Site:
    """A site with a robots.txt, and a clock that is set by hand."""

    robots: Robots
    url: URL
    text: str = ""
    status: int = 200
    asked: int = 0
    now: float = 0.0

    async def allows(self, path: str) -> bool:
        try:
            await self.robots.check(self.url.with_path(path))
        except WebError:
            return False
        return True


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    stage = Stage()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["User-Agent"].startswith("pixi-persona/")
        here.asked += 1
        return web.Response(text=here.text, status=here.status)

    async with served({"/robots.txt": handler}) as port, StagedWeb(stage) as fetching:
        url = URL(stage.put("kitchen.pixi-web.net", port))
        here = Site(Robots(fetching, lambda: here.now), url)
        yield here


async def test_what_is_forbidden_is_not_read(site: Site) -> None:
    site.text = "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\n"
    assert await site.allows("/")
    assert not await site.allows("/private/page")
    assert await site.allows("/private/open")
    assert not await site.allows("/menu.pdf")
    assert await site.allows("/menu.pdf.html")
    assert site.asked == 1


async def test_it_may_speak_of_this_program(site: Site) -> None:
    site.text = "User-agent: googlebot\nDisallow: /\n\nUser-agent: pixi-persona\nDisallow: /no\n"
    site.text += "\nUser-agent: *\nDisallow: /\n"
    assert await site.allows("/yes")
    assert not await site.allows("/no")


async def test_rules_for_others_stay_theirs(site: Site) -> None:
    site.text = "User-agent: *\nDisallow: /a\n\nUser-agent: googlebot\nUser-agent: bingbot\nDisallow: /b\n"
    assert not await site.allows("/a")
    assert await site.allows("/b")


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429])
async def test_without_rules_all_may_be_read(site: Site, status: int) -> None:
    site.status, site.text = status, "User-agent: *\nDisallow: /"
    assert await site.allows("/")


async def test_where_it_cannot_be_asked_for_nothing_is_read(site: Site) -> None:
    site.status = 503
    with pytest.raises(WebError, match=r"503.*whether programs may read it .* is not known"):
        await site.robots.check(site.url)
    site.status = 200
    assert not await site.allows("/")  # for a moment it is not asked again
    site.now = 121.0
    assert await site.allows("/")


async def test_nobody_there_and_nobody_allowed_there() -> None:
    async with StagedWeb(Stage({"inner.pixi-web.net": [["127.0.0.1"]]})) as fetching:
        robots = Robots(fetching)
        with pytest.raises(WebError, match="there is no host of that name"):
            await robots.check(URL("http://nobody.pixi-web.net/"))
        with pytest.raises(Refused):
            await robots.check(URL("http://inner.pixi-web.net/"))


async def test_it_is_asked_again_after_an_hour(site: Site) -> None:
    site.text = "User-agent: *\nDisallow: /"
    assert not await site.allows("/")
    site.text = ""
    assert not await site.allows("/")
    site.now = 3_601.0
    assert await site.allows("/")
    assert site.asked == 2


async def test_a_page_in_its_place_forbids_nothing(site: Site) -> None:
    site.text = "<html><body>Disallow: /</body></html>"
    assert await site.allows("/")


# Each is made when it is asked for: together they are large.
BOMBS = {
    "programs times rules": lambda: (
        "".join(f"User-agent: a{n}\n" for n in range(12_000)) + "Allow: /a\n" * 25_000
    ),
    "programs without colons": lambda: (
        "".join(f"User-agent a{n}\n" for n in range(12_000)) + "Allow: /a\n" * 25_000
    ),
    "wildcards": lambda: "User-agent: *\n" + f"Disallow: /{'*a' * 1_000}b\n" * 200,
    "one line": lambda: "User-agent: *\nDisallow: /" + "a" * 5_000_000,
    "too long": lambda: "User-agent: *\nDisallow: /no\n" + "# nothing\n" * 500_000,
}


@pytest.mark.parametrize("name", BOMBS)
async def test_bombs(site: Site, name: str) -> None:
    site.text = BOMBS[name]()
    async with within("an answer"):
        assert await site.allows("/" + "a" * 2_000)
    assert await site.allows("/no") == (name != "too long")
