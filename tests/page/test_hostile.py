"""Nothing that strangers write acts: 40 payloads in all that they can fill, on every page, in a real Chromium."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.page.browsing import at_page, browsing, needs_chromium
from tests.page.strangers import EVIL, PAYLOADS, ROOM, Canary, flags_in, hostile_house, meet_all, say, say_all

pytestmark = needs_chromium

ALL = set(range(len(PAYLOADS)))
NO_NAMES = {38}
"""No persona is called so: a file with such signs is set aside."""
CARDS = tuple(
    f".card[data-type={kind}]"
    for kind in (
        "spot_card",
        "spots_list",
        "tricklist_card",
        "trick_card",
        "spot_draft_confirmation",
        "constructor",
        "toString",
    )
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def read_up(page: Page) -> None:
    """Read a talk up to its beginning."""
    for _ in range(60):
        if await page.locator(".said.own").get_by_text("§00§").count():
            return
        await page.locator(".log").evaluate("each => each.scrollTo(0, 0)")
        await page.wait_for_timeout(50)


@pytest.mark.nightly
async def test_nothing_acts_in_the_talk(tmp_path: Path) -> None:
    async with hostile_house(tmp_path) as here, browsing(here.url) as (context, _):
        canary = Canary(here.url)
        await canary.watch(context)
        await say(here, "constructor", "hello")  # a talk is followed once it has begun
        page = await context.new_page()
        await page.goto(f"{here.url}/?persona=pixi&talk=constructor")
        await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
        await say_all(here, "constructor")
        await expect(page.locator(".said.own").last).to_contain_text("§39§")
        for _ in range(2):
            await expect(page.locator(".said:not(.own)").last).to_be_visible()
            await read_up(page)
            for kind in (".said.own", ".said:not(.own) .words", ".carried", *CARDS):
                drawn = "\n".join(await page.locator(kind).all_inner_texts())
                assert flags_in(drawn) == ALL, kind
            assert await page.locator(".card h3").count() >= len(CARDS) * len(PAYLOADS)
            assert flags_in(await page.locator("#side").inner_text()) == ALL - NO_NAMES
            await canary.silent(page)
            await page.reload()
