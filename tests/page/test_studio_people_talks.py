"""The studio's screens of talks, people, memory, the queue and usage, as an operator uses them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from playwright.async_api import Page, expect

from pixi.app.studio import talks
from pixi.channels.http.access import digest_of
from pixi.core.memory import Memory
from pixi.core.message import Author, Message
from pixi.store.kept import ApiKey
from pixi.testing import RecordingChannel
from tests.page.browsing import Here, at_page, needs_chromium, serving_pages

pytestmark = [needs_chromium, pytest.mark.nightly]

ROOM, DIRECT = "discord:1:77:pixi", "discord:1:78:pixi"
MO, ANN = Author("11", "Mo"), Author("12", "<img src=x onerror=alert(1)>")
REPLY = "[NOTE: they look for it]\n[SEND: By the **old** jetty.]\n[REACT: 🚣]"
FAST = '[models.fast]\nname = "second"\n'
KEY = "pixi_sk_" + "k" * 40
SCREENS = ("talks", f"talks/{quote(ROOM, safe='')}", "people", "people/11", "memory", "queue", "usage")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def service(home: Path, config: str = "", more: str = "") -> AsyncIterator[Here]:
    """A service in which two people said something, one of them in private, and facts are remembered."""
    async with serving_pages(home, *[REPLY] * 3, config=f"{config}\n{FAST}{more}") as here:
        for number, (address, author, text) in enumerate(
            (
                (ROOM, MO, "Where is the boat?"),
                (ROOM, ANN, "<b>And the oars?</b>"),
                (DIRECT, ANN, "a secret"),
            ),
            start=1,
        ):
            said = Message(str(number), address, author, text, 1.7e9 + number, group=address == ROOM)
            await here.service.receive(said, RecordingChannel())
            await here.service.engine.settled()
        for number, text in enumerate(("Has a boat.", "Bakes <i>bread</i>."), start=1):
            fact = Memory(0, "Pixi", MO.id, "discord:5", ROOM, "all", text, 1.7e9 + number)
            await here.service.store.remember(fact)
        yield here


@asynccontextmanager
async def studio(here: Here, screen: str, **options: object) -> AsyncIterator[Page]:
    """An operator at a screen."""
    async with at_page(here.url, here.link, **options) as page:
        await expect(page.get_by_role("link", name="Pixi studio")).to_be_visible()
        await page.goto(f"{here.url}/studio/{screen}")
        yield page


async def test_talks_are_found_and_read_and_private_ones_are_without_words(tmp_path: Path) -> None:
    async with service(tmp_path) as here, studio(here, "talks") as page:
        rows = page.get_by_role("list", name="Talks").get_by_role("link")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("In private")
        await expect(page.get_by_text("a secret")).to_have_count(0)
        await page.get_by_role("searchbox").fill("boat")
        await expect(rows).to_have_count(1)
        await expect(rows.locator("mark")).to_have_text("boat")
        assert page.url.endswith("?search=boat")
        await rows.click()
        talk = page.get_by_role("list", name="What was said")
        await expect(talk.get_by_text("they look for it").first).to_be_visible()
        await expect(talk.get_by_text("<b>And the oars?</b>")).to_be_visible()
        await expect(talk.locator("strong").first).to_have_text("old")
        await expect(talk.get_by_text("🚣").first).to_be_visible()
        await expect(talk.get_by_role("link", name="Why").first).to_have_attribute("href", "/studio/why/1")
        await page.go_back()
        await expect(rows).to_have_count(1)
        await page.goto(f"{here.url}/studio/talks/{quote(DIRECT, safe='')}")
        await expect(page.get_by_text("is between the two of them")).to_be_visible()
        await expect(page.get_by_role("button", name="Export")).to_be_disabled()
        assert "secret" not in await page.content()


async def test_a_search_goes_on_by_itself_until_something_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talks, "_PORTIONS", 1)
    async with service(tmp_path) as here:
        for number in range(5, 9):
            address = f"discord:1:{number}:pixi"
            said = Message(str(number), address, MO, "Nothing of it", 1.7e9 + number, group=True)
            await here.service.store.receive(said)
        async with studio(here, "talks?search=boat") as page:
            rows = page.get_by_role("list", name="Talks").get_by_role("link")
            await expect(rows).to_have_count(1)
            await expect(rows.locator("mark")).to_have_text("boat")
            await page.get_by_role("searchbox").fill("no such words")
            await expect(page.get_by_text("No talks here")).to_be_visible()


async def test_a_talk_is_given_another_model_exported_and_reset(tmp_path: Path) -> None:
    async with service(tmp_path) as here, studio(here, f"talks/{quote(ROOM, safe='')}") as page:
        await page.get_by_text("Who speaks here").click()
        await page.get_by_label("Model").last.select_option("fast")
        await expect(page.get_by_role("status").last).to_have_text("It holds from the next reply on")
        assert here.service.place("discord:1:77:").model == "fast"
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Export").click()
        file = await (await download.value).path()
        told = json.loads(file.read_text())
        assert [turn["said"][0]["author"]["name"] for turn in told["turns"]] == [MO.name, ANN.name]
        await page.get_by_role("button", name="Reset").click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_text("Where is the boat?")).to_be_visible()
        await page.get_by_role("button", name="Reset").click()
        await page.get_by_role("dialog").get_by_role("button", name="Reset").click()
        await expect(page.get_by_text("Where is the boat?")).to_have_count(0)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Forgotten")
        (first, _) = await here.service.store.turns(ROOM, 2)
        assert first.lines == ()


async def test_a_person_is_forgotten_once_the_name_was_typed(tmp_path: Path) -> None:
    async with service(tmp_path) as here, studio(here, "people") as page:
        await page.get_by_role("list", name="People").get_by_role("link").filter(has_text="Mo").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Mo")
        await page.get_by_role("button", name="Forget").click()
        dialog = page.get_by_role("dialog")
        button = dialog.get_by_role("button", name="Forget")
        await expect(button).to_be_disabled()
        await dialog.get_by_role("textbox").fill("Moe")
        await expect(button).to_be_disabled()
        await dialog.get_by_role("textbox").fill("Mo")
        await page.keyboard.press("Enter")
        await expect(dialog).to_contain_text("1 talk changed.")
        assert await here.service.store.people(MO.id) == ()
        await dialog.get_by_role("button", name="Close").click()
        await expect(page.get_by_role("list", name="People").get_by_role("link")).to_have_count(1)


async def test_a_fact_is_found_and_forgotten(tmp_path: Path) -> None:
    async with service(tmp_path) as here, studio(here, "people/11") as page:
        await page.get_by_role("link", name="2", exact=True).click()
        facts = page.get_by_role("list", name="Memory").get_by_role("listitem")
        await expect(facts).to_have_count(2)
        await expect(facts.first).to_contain_text("Bakes <i>bread</i>.")
        await page.get_by_role("searchbox").fill("boat")
        await expect(facts).to_have_count(1)
        await facts.get_by_role("button", name="Forget").click()
        await page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        await expect(page.get_by_text("Nothing is remembered")).to_be_visible()
        (left,) = await here.service.store.memories(MO.id, "Pixi")
        assert left.text == "Bakes <i>bread</i>."


async def test_drafts_are_decided_by_keys(tmp_path: Path) -> None:
    async with service(tmp_path, 'addons = ["companion"]') as here:
        await here.service.store.add_key(ApiKey("app", digest_of(KEY), ("chat",)))
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as http:
            for name in ("One", "<script>alert(2)</script>"):
                spot = {"name": name, "type": "street", "city": "Wexcombe"}
                async with http.post(f"{here.url}/api/spots/draft", json=spot) as answer:
                    assert answer.status == 200
        async with studio(here, "queue") as page:
            drafts = page.get_by_role("list", name="Submitted spots").get_by_role("listitem")
            await expect(drafts).to_have_count(2)
            await expect(drafts.last.get_by_role("heading")).to_have_text("<script>alert(2)</script>")
            await page.keyboard.press("j")
            await expect(drafts.first).to_be_focused()
            await page.keyboard.press("a")
            await expect(drafts.first).to_contain_text("Approved")
            await expect(drafts.last).to_be_focused()
            await page.keyboard.press("r")
            await page.keyboard.type("no jokes")
            await page.keyboard.press("Enter")
            await expect(drafts.last).to_contain_text("Rejected")
            await expect(drafts.last).to_contain_text("no jokes")
            await page.get_by_label("Status").select_option("rejected")
            await expect(drafts).to_have_count(1)


async def test_usage_is_told_by_what_one_asks_for(tmp_path: Path) -> None:
    limits = "[limits]\nperson_messages = 4\n"
    async with service(tmp_path, more=limits) as here, studio(here, "usage") as page:
        await expect(page.get_by_role("img", name="From")).to_be_visible()
        await expect(page.get_by_role("meter", name="2 of 4 messages today")).to_be_visible()
        await page.get_by_label("Added up by").select_option("persona")
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Pixi"))
        await expect(row.get_by_role("cell").nth(1)).to_have_text("3")
        await page.get_by_label("Added up by").select_option("person")
        await expect(page.get_by_role("rowheader").filter(has_text=ANN.name)).to_be_visible()


@pytest.mark.parametrize("direction", ["ltr", "rtl"])
async def test_no_screen_is_wider_than_a_phone(tmp_path: Path, direction: str) -> None:
    wide = "document.documentElement.scrollWidth"
    phone = {"width": 360, "height": 740}
    async with service(tmp_path) as here, studio(here, "talks", viewport=phone) as page:
        for screen in SCREENS:
            await page.goto(f"{here.url}/studio/{screen}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.evaluate("(direction) => { document.documentElement.dir = direction; }", direction)
            assert await page.evaluate(wide) <= 360, screen
