"""Who gets into the studio: by a link, once; by a key; and nobody else."""

from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import expect

from pixi.channels.http.access import digest_of
from pixi.store.kept import ApiKey
from tests.page.browsing import at_page, needs_chromium, serving_pages

KEY = "pixi_sk_" + "k" * 40
SCREENS = ("live", "persona", "queue", "talks", "people", "memory", "databases", "usage", "health")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.nightly
@needs_chromium
async def test_the_link_lets_one_browser_in_and_a_key_another(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as here:
        await here.service.store.add_key(ApiKey("desk", digest_of(KEY), ("operate",)))
        async with at_page(here.url, here.link) as page:
            await expect(page.get_by_role("link", name="Health")).to_be_visible()
            assert "link=" not in page.url
            await page.reload()
            await expect(page.get_by_role("link", name="Health")).to_be_visible()
            await page.get_by_role("button", name="Log out").click()
            await expect(page.get_by_role("heading", name="Come in")).to_be_visible()
        async with at_page(here.url, here.link) as page:
            await expect(page.get_by_role("alert")).to_contain_text("lets one browser in, once")
            await page.get_by_label("Or enter a key").fill(KEY)
            await page.get_by_role("button", name="Enter").click()
            await expect(page.get_by_role("link", name="Health")).to_be_visible()


async def test_the_cookie_of_a_page_that_came_by_tls_goes_no_other_way(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as here, aiohttp.ClientSession() as http:
        door, page = f"{here.url}/api/studio/session", here.url.replace("http:", "https:")
        link = here.link.partition("link=")[2]
        async with http.post(door, json={"link": link}, headers={"Origin": page}) as answer:
            assert answer.status == 200
            assert "Secure" in answer.headers["Set-Cookie"].split("; ")


async def test_a_session_needs_its_word_and_a_key_that_holds(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses without a name, too
    async with serving_pages(tmp_path) as here, aiohttp.ClientSession(cookie_jar=jar) as http:
        door = f"{here.url}/api/studio/session"
        await here.service.store.add_key(ApiKey("desk", digest_of(KEY), ("operate",)))
        async with http.post(door, json={"key": KEY}) as answer:
            assert answer.status == 200
            csrf = (await answer.json())["csrf"]
            cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/api/studio"} <= set(cookie.split("; "))
        async with http.delete(door) as answer:
            assert answer.status == 403
        async with http.delete(door, headers={"X-Pixi-CSRF": "wrong" + csrf}) as answer:
            assert answer.status == 403
        async with http.get(door) as answer:
            assert answer.status == 200
        await here.service.store.revoke_key("desk", 0.0)
        async with http.get(door) as answer:
            assert answer.status == 401


@pytest.mark.parametrize(
    ("scopes", "personas", "status"),
    [(("operate",), (), 200), (("chat", "approve"), (), 403), (("operate",), ("pixi",), 403)],
)
async def test_only_keys_for_all_of_the_house_operate(
    tmp_path: Path, scopes: tuple[str, ...], personas: tuple[str, ...], status: int
) -> None:
    async with serving_pages(tmp_path) as here, aiohttp.ClientSession() as http:
        await here.service.store.add_key(ApiKey("desk", digest_of(KEY), scopes, personas))
        async with http.post(f"{here.url}/api/studio/session", json={"key": KEY}) as answer:
            assert answer.status == status


async def test_files_of_a_page_are_kept_for_ever_and_open_to_all_and_documents_are_framed_by_nobody(
    tmp_path: Path,
) -> None:
    async with serving_pages(tmp_path) as here, aiohttp.ClientSession() as http:
        async with http.get(f"{here.url}/studio/live") as answer:
            page = await answer.text()
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Cache-Control"] == "no-cache"
        root = page.split('href="')[1].rpartition("/icon")[0]
        async with http.get(
            f"{here.url}{root}/style.css", headers={"Origin": "https://else.example"}
        ) as answer:
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
        for wrong in (
            f"{root}/../server.py",
            f"{root}/..%2fserver.py",
            "/page/0000/style.css",
            f"{root}/no.js",
        ):
            async with http.get(here.url + wrong) as answer:
                assert answer.status == 404


@pytest.mark.nightly
@needs_chromium
async def test_the_studio_is_walked_by_keyboard_alone(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as here, at_page(here.url, here.link) as page:
        await expect(page.get_by_role("navigation").first).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        key = "Tab"
        for screen in SCREENS:
            link = page.locator(f"nav#nav a[href='/studio/{screen}']")
            for _ in range(60):
                await page.keyboard.press(key)
                if await link.evaluate("each => each === document.activeElement"):
                    break
            await expect(link).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(link).to_have_attribute("aria-current", "page")
            await expect(page.locator("main#main")).to_be_focused()
            key = "Shift+Tab"  # back to where the screens are chosen
