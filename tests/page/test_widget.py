"""The widget on somebody else's page, under a strict content security policy, in a real Chromium."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
from aiohttp import web
from playwright.async_api import ConsoleMessage, Page, Route, expect

from pixi.channels.http import pages
from pixi.channels.http.access import digest_of
from pixi.store.kept import ApiKey
from tests.page.browsing import Here, browsing, needs_chromium, serving_pages
from tests.servers.scripted_openai import Until, finish, stream
from tests.servers.staged_web import served
from tests.waiting import until

PUBLIC = "pixi_pk_" + "w" * 40
MOST_BYTES = 25_500
"""Of all that the widget loads, packed."""

pytestmark = [needs_chromium, pytest.mark.nightly]

AXE = Path(__file__).parent.parent / "clients" / "node_modules" / "axe-core" / "axe.min.js"

PAYLOADS = (
    "<img src=x onerror=hit=1>",
    "<script>hit=1</script>",
    "<svg onload=hit=1>",
    "[x](javascript:hit=1) [y](data:text/html,z) [z](https://evil.example/)",
    "**<b onmouseover=hit=1>x</b>**",
    "![x](https://evil.example/x.png)",
    "<iframe src=https://evil.example>",
    "<style>@import 'https://evil.example'</style>",
    "<a href=javascript:hit=1>x</a>",
    "{{constructor.constructor('hit=1')()}} ${hit=1}",
    "java\tscript:hit=1 data:text/html,<script>hit=1</script>",
    "<https://evil.example/x> '\"><img src=https://evil.example/y>",
)

ADDON = '''
from pixi.core.message import Card, Field


def setup(addon):
    @addon.command
    async def spot(context, name: str) -> None:
        """show a spot"""
        fields = (Field("City", "Venice"), Field("Map", "javascript:alert(1)"))
        picture = "https://pictures.example/bowl.png"
        data = {"name": name, "imageUrl": "https://pictures.example/other.png"}
        link = "https://spots.example/"
        await context.card(Card(name, "By the beach.", fields, picture, link, "spot_card", 1, data))
'''

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src {pixi}; connect-src {pixi}; img-src {pixi}; "
    "frame-src {pixi}; require-trusted-types-for 'script'; trusted-types 'none'"
)


BRING = """(key) => {
  const chat = document.querySelector("pixi-chat") ?? document.createElement("pixi-chat");
  chat.setAttribute("key", key);
  if (!chat.isConnected) document.body.append(chat);
}"""

COLOUR = re.compile(r"(--[a-z-]+): (?:var\(--pixi-[a-z-]+, )?(light-dark\([^)]*\))")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Site:
    """Somebody's page, which has the widget in it.

    Attributes:
        origin: of the page.
        body: of it, with `{pixi}` for the server.
        policy: its content security policy.
    """

    def __init__(self) -> None:
        self.origin = ""
        self.pixi = ""
        self.body = f'<script type="module" src="{{pixi}}/widget.js" data-key="{PUBLIC}"></script>'
        self.policy = _POLICY

    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page."""
        text = f"<!doctype html><html lang=en><title>A shop</title><h1>Shop</h1>{self.body}</html>"
        headers = {"Content-Security-Policy": self.policy.replace("{pixi}", self.pixi)}
        return web.Response(text=text.replace("{pixi}", self.pixi), content_type="text/html", headers=headers)


@asynccontextmanager
async def shop(
    home: Path, *replies: Any, lets_in: bool = True, **more: Any
) -> AsyncGenerator[tuple[Here, Site]]:
    """A server and a page of another that talks to it. `lets_in`: a key is there for the page."""
    site = Site()
    async with served({"/": site.page}) as port:
        site.origin = f"http://127.0.0.1:{port}"
        async with serving_pages(home, *replies, **more) as here:
            site.pixi = here.url
            origins = (site.origin,) if lets_in else ("https://other.example",)
            key = ApiKey("shop", digest_of(PUBLIC), (), (), origins, signs="5a" * 32)
            assert await here.service.store.add_key(key)
            yield here, site


@asynccontextmanager
async def visiting(here: Here, site: Site, **options: Any) -> AsyncGenerator[Page, None]:
    async with browsing(here.url, site.origin, **options) as (context, _):
        page = await context.new_page()
        await page.goto(site.origin)
        yield page


async def say(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Write a message").fill(text)
    await page.keyboard.press("Enter")


async def test_a_visitor_talks_on_a_page_with_a_strict_policy(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    growing = stream("[REACT: 🥞]\n[SEND: hello ", "there, ", Until(go_on), "**friend**]", finish())
    async with shop(tmp_path, growing, "[SEND: and again]") as (here, site), visiting(here, site) as page:
        launcher = page.get_by_role("button", name="Open the chat")
        await launcher.click()
        await expect(page.get_by_role("textbox")).to_be_focused()
        await say(page, "hi")
        reply = page.locator(".said:not(.own)")
        await expect(reply).to_contain_text("hello there,")
        await expect(reply).to_have_attribute("aria-busy", "true")
        go_on.set()
        await expect(reply.locator("strong")).to_have_text("friend")
        await expect(reply).to_have_attribute("aria-busy", "false")
        await expect(page.locator(".own .reactions")).to_have_text("🥞")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(launcher).to_be_focused()
        assert await page.evaluate("document.querySelectorAll('style, [style]').length") == 0


async def test_a_reload_takes_the_talk_up_and_an_unread_reply_is_marked(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    slow = stream("[SEND: one]", Until(go_on), "\n[SEND: two]", finish())
    async with shop(tmp_path, slow, "[SEND: three]") as (here, site), visiting(here, site) as page:
        await page.get_by_role("button", name="Open the chat").click()
        await say(page, "hi")
        await expect(page.locator(".said").last).to_have_text("one")
        await page.keyboard.press("Escape")
        await page.reload()
        await expect(page.get_by_role("button", name="Open the chat")).to_be_visible()
        go_on.set()
        unread = page.get_by_role("button", name="2 new messages")
        await unread.click()
        await expect(page.locator(".said .words")).to_have_text(["hi", "one", "two"])
        await say(page, "more")
        await expect(page.locator(".said .words")).to_have_text(["hi", "one", "two", "more", "three"])
        async with aiohttp.ClientSession() as http, http.get(f"{here.url}/api/talks") as answer:
            assert (await answer.json())["talks"] == [], "it is the visitor's alone"


async def test_a_connection_that_is_lost_comes_back_and_nothing_is_shown_twice(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    slow = stream("[SEND: one]\n[SEND: two ", Until(go_on), "three]", finish())
    async with shop(tmp_path, slow, "[SEND: four]") as (here, site), visiting(here, site) as page:
        await page.get_by_role("button", name="Open the chat").click()
        await say(page, "hi")
        await expect(page.locator(".said").last).to_have_text("two")
        await page.context.set_offline(True)
        await say(page, "are you there?")
        await expect(page.get_by_role("button", name="Not sent. Try again.")).to_be_visible()
        go_on.set()
        await page.context.set_offline(False)
        words = page.locator(".said .words")
        await expect(words).to_have_text(["hi", "one", "two three", "are you there?", "four"])


async def test_what_is_said_before_the_server_answers_is_sent_once(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def hold(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    async with shop(tmp_path, "[SEND: one]") as (here, site), visiting(here, site) as page:
        await page.route("**/api/**", hold)
        await page.get_by_role("button", name="Open the chat").click()
        await say(page, "hi")
        await expect(page.get_by_role("textbox")).to_have_value("")
        go_on.set()
        await expect(page.locator(".said .words")).to_have_text(["hi", "one"])
        assert len(here.model.requests) == 1


async def test_two_windows_show_one_talk(tmp_path: Path) -> None:
    async with shop(tmp_path, "[SEND: one]", "[SEND: two]") as (here, site), visiting(here, site) as page:
        await page.get_by_role("button", name="Open the chat").click()
        await say(page, "hi")
        words = page.locator(".said .words")
        await expect(words).to_have_text(["hi", "one"])
        other = await page.context.new_page()
        await other.goto(site.origin)
        await other.get_by_role("button", name="Open the chat").click()
        await expect(other.locator(".said .words")).to_have_text(["hi", "one"])
        await say(other, "more")
        for window in (other, page):
            await expect(window.locator(".said .words")).to_have_text(["hi", "one", "more", "two"])


async def test_a_card_is_drawn_and_nobody_else_is_asked_for_its_picture(tmp_path: Path) -> None:
    addon = tmp_path / "spots.py"
    addon.write_text(ADDON)
    persona = "---\nname: Kit\ncommands: [send, spot]\n---\n\nYou are Kit.\n"
    made = shop(tmp_path, "[SPOT: <b>Bowl</b>]", personas={"kit": persona}, addons=(addon,))
    async with made as (here, site), visiting(here, site) as page:
        site.body = site.body.replace("data-key", 'data-persona="Kit" data-key')
        await page.reload()
        await page.get_by_role("button", name="Open the chat").click()
        await say(page, "where?")
        card = page.locator(".card")
        await expect(card.get_by_role("link", name="<b>Bowl</b>")).to_have_attribute(
            "rel", re.compile("nofollow")
        )
        await expect(card.locator("dd")).to_have_text(["Venice", "javascript:alert(1)"])
        await page.reload()
        await expect(card.locator("dd")).to_have_text(["Venice", "javascript:alert(1)"])


async def test_nothing_that_strangers_write_runs_or_asks_others(tmp_path: Path) -> None:
    persona = f"---\nname: '{PAYLOADS[0]}'\nabout: '{PAYLOADS[1]}'\n---\n\nYou are Kit.\n"
    replies = [f"[SEND: {payload}]\n[REACT: {payload[:30]}]" for payload in PAYLOADS]
    made = shop(tmp_path, *replies, personas={"kit": persona})
    async with made as (here, site), visiting(here, site) as page:
        site.body = site.body.replace("data-key", 'data-persona="kit" data-key')
        site.policy = site.policy.replace("require-trusted-types-for 'script'; trusted-types 'none'", "")
        await page.reload()
        await page.get_by_role("button", name="Open the chat").click()
        for count, payload in enumerate(PAYLOADS, 1):
            await say(page, payload)
            await expect(page.locator(".said:not(.own):not([aria-busy=true])")).to_have_count(count)
        assert await page.evaluate("window.hit") is None
        links = page.locator(".said a")
        for at in range(await links.count()):
            address = await links.nth(at).get_attribute("href")
            assert address is not None
            assert address.startswith(("http://", "https://")), address


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; npm brings it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_it(tmp_path: Path, scheme: Literal["light", "dark"]) -> None:
    made = shop(tmp_path, "[REACT: 🥞]\n[SEND: **one** https://example.org/]")
    async with (
        made as (here, site),
        visiting(here, site, color_scheme=scheme, reduced_motion="reduce") as page,
    ):
        site.body = (
            site.body.replace("data-key", 'data-lang="en" data-key') + "<pixi-chat theme=auto></pixi-chat>"
        )
        await page.reload()
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        await page.get_by_role("button", name="Open the chat").click()
        await expect(page.get_by_text("Say hello")).to_be_visible()
        for words in ("", "one"):
            if words:
                await say(page, "hi")
                await expect(page.locator(".said").last).to_contain_text(words)
            told = await page.evaluate("axe.run('pixi-chat')")
            assert [(each["id"], each["nodes"][0]["failureSummary"]) for each in told["violations"]] == []


async def test_a_talk_is_forgotten_when_it_was_asked_twice(tmp_path: Path) -> None:
    async with shop(tmp_path, "[SEND: one]") as (here, site), visiting(here, site) as page:
        site.body = f'<pixi-chat open dir="rtl" key="{PUBLIC}"></pixi-chat>' + site.body
        await page.reload()
        await say(page, "hi")
        await expect(page.locator(".said .words")).to_have_text(["hi", "one"])
        await page.get_by_role("button", name="Start over").click()
        await expect(page.locator(".said")).to_have_count(2)
        await page.get_by_role("button", name="Forget this talk?").click()
        await expect(page.locator(".said")).to_have_count(0)
        box = await page.get_by_role("dialog").bounding_box()
        assert box is not None
        assert box["x"] < 100, "from right to left it stands at the other side"


async def test_a_page_that_the_key_was_not_made_for_is_told_so_in_the_console(tmp_path: Path) -> None:
    async with shop(tmp_path, lets_in=False) as (here, site), browsing(here.url, site.origin) as (context, _):
        page = await context.new_page()
        await page.goto(site.origin)
        async with page.expect_console_message(_is_ours) as told:
            await page.get_by_role("button", name="Open the chat").click()
        said = (await told.value).text
        assert f"keys add NAME --publishable --origin {site.origin}" in said
        await expect(page.get_by_role("status")).to_contain_text("not available here")


async def test_a_page_without_a_key_shows_nothing_and_the_console_says_why(tmp_path: Path) -> None:
    async with shop(tmp_path) as (here, site), browsing(here.url, site.origin) as (context, _):
        for element in ("", "<pixi-chat open></pixi-chat>"):
            site.body = f'<script type="module" src="{{pixi}}/widget.js"></script>{element}'
            page = await context.new_page()
            async with page.expect_console_message(_is_ours) as told:
                await page.goto(site.origin)
            assert "no key (data-key)" in (await told.value).text
            assert f"--origin {site.origin}" in (await told.value).text
            await expect(page.get_by_role("button")).to_have_count(0)


async def test_of_several_lines_the_one_with_a_key_counts(tmp_path: Path) -> None:
    async with shop(tmp_path) as (here, site), browsing(here.url, site.origin) as (context, _):
        site.body = '<script type="module" src="{pixi}/widget.js"></script>' + site.body
        page = await context.new_page()
        await page.goto(site.origin)
        await expect(page.get_by_role("button", name="Open the chat")).to_be_visible()


@pytest.mark.parametrize("element", ["", "<pixi-chat></pixi-chat>"])
async def test_a_page_whose_script_brings_the_key_has_one_chat_and_is_told_nothing(
    tmp_path: Path, element: str
) -> None:
    told: list[str] = []
    async with shop(tmp_path) as (here, site), browsing(here.url, site.origin) as (context, _):
        site.body = f'<script type="module" src="{{pixi}}/widget.js"></script>{element}'
        page = await context.new_page()
        page.on("console", lambda message: told.append(message.text) if _is_ours(message) else None)
        await page.clock.install()
        await page.goto(site.origin)
        await page.evaluate(BRING, PUBLIC)
        await page.clock.run_for(10_000)
        await expect(page.get_by_role("button", name="Open the chat")).to_be_visible()
        await expect(page.locator("pixi-chat")).to_have_count(1)
    assert told == []


def _is_ours(message: ConsoleMessage) -> bool:
    return message.text.startswith("pixi-chat:")


async def test_a_policy_that_forbids_the_server_is_told_of(tmp_path: Path) -> None:
    async with shop(tmp_path) as (here, site), browsing(here.url, site.origin) as (context, watched):
        site.policy = "default-src 'none'; script-src {pixi}"
        page = await context.new_page()
        async with page.expect_console_message(_is_ours) as told:
            await page.goto(site.origin)
        assert f"must name {here.url}" in (await told.value).text
        await until(lambda: watched.errors, "that the browser tells what it stopped")
        watched.errors.clear()


async def test_the_frame_is_shown_on_pages_of_the_key_alone(tmp_path: Path) -> None:
    async with shop(tmp_path, "[SEND: framed]") as (here, site):
        site.body = f'<iframe src="{{pixi}}/embed/pixi?key={PUBLIC}" title="chat"></iframe>'
        async with visiting(here, site) as page:
            frame = page.frame_locator("iframe")
            await frame.get_by_role("textbox").fill("hi")
            await frame.get_by_role("textbox").press("Enter")
            await expect(frame.locator(".said .words")).to_have_text(["hi", "framed"])
        elsewhere = site.origin.replace("127.0.0.1", "localhost")
        async with browsing(here.url, elsewhere) as (context, watched):
            page = await context.new_page()
            await page.goto(elsewhere)
            await expect(page.locator("h1")).to_be_visible()
            await page.wait_for_load_state("networkidle")
            assert await page.frame_locator("iframe").locator("pixi-chat").count() == 0
            watched.errors.clear()


async def test_it_loads_little_and_speaks_the_language_of_the_page(tmp_path: Path) -> None:
    asked: set[str] = set()
    async with shop(tmp_path) as (here, site), browsing(here.url, site.origin) as (context, _):
        site.body = site.body.replace("data-key", 'data-lang="de-AT" data-key')
        page = await context.new_page()
        page.on("request", lambda request: asked.add(request.url))
        await page.goto(site.origin)
        await page.get_by_role("button", name="Chat öffnen").click()
        await expect(page.get_by_role("textbox", name="Nachricht schreiben")).to_be_visible()
        loaded = {url: 0 for url in asked if "/page/" in url or "/widget.js" in url}
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            for url in loaded:
                async with http.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
                    loaded[url] = len(await answer.read())
    assert 10_000 < sum(loaded.values()) <= MOST_BYTES, loaded


def test_its_colours_are_those_of_the_other_pages() -> None:
    folder = Path(pages.__file__).parent / "page"
    style, widget = (
        dict(COLOUR.findall((folder / name).read_text(encoding="utf-8")))
        for name in ("style.css", "widget/widget.css")
    )
    assert len(widget) > 5
    assert widget == {name: style[name] for name in widget}
