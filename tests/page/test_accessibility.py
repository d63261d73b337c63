"""What axe-core finds wrong in the pages: nothing, in light and in dark, in both directions of writing."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.page.browsing import browsing, needs_chromium, serving_pages

AXE = Path(__file__).parents[1] / "clients" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: that needs npm"),
]

SCREENS = ("live", "persona", "queue", "talks", "people", "memory", "databases", "usage", "health")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def faults(page: Page) -> list[tuple[str, list[Any]]]:
    """What is wrong: the rule, and where."""
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found["violations"]]


@pytest.mark.parametrize(
    ("scheme", "direction"), [("light", "ltr"), pytest.param("dark", "rtl", marks=pytest.mark.nightly)]
)
async def test_the_talk(tmp_path: Path, scheme: Any, direction: str) -> None:
    reply = "[REACT: 🥞]\n[SEND: hello **you**, see https://example.com and `code`]\n[SEND: > two]"
    async with (
        serving_pages(tmp_path, reply, reply) as here,
        browsing(here.url, color_scheme=scheme, reduced_motion="reduce") as (context, _),
    ):
        await context.add_init_script(AXE.read_text(encoding="utf-8"))
        page = await context.new_page()
        await page.goto(f"{here.url}/?dir={direction}")
        field = page.get_by_role("textbox", name="Message")
        await expect(field).to_be_editable()
        assert await faults(page) == []
        await field.fill("hi")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said .words")).to_have_count(3)
        await page.get_by_role("button", name="Again").click()
        await expect(page.get_by_role("group", name="Other versions")).to_be_visible()
        await field.fill("/")
        assert await faults(page) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("scheme", "direction"), [("light", "rtl"), ("dark", "ltr")])
async def test_the_studio(tmp_path: Path, scheme: Any, direction: str) -> None:
    async with (
        serving_pages(tmp_path, "[SEND: hello]") as here,
        browsing(here.url, color_scheme=scheme, reduced_motion="reduce") as (context, _),
    ):
        await context.add_init_script(AXE.read_text(encoding="utf-8"))
        page = await context.new_page()
        await page.goto(here.url)
        await page.get_by_role("textbox", name="Message").fill("hi")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said .words")).to_have_count(2)
        await page.goto(here.link)
        found = {}
        for screen in SCREENS:
            await page.goto(f"{here.url}/studio/{screen}")
            await page.evaluate(f"document.documentElement.dir = '{direction}'")
            await expect(page.get_by_role("heading").first).to_be_visible()
            await page.wait_for_timeout(300)  # what is loaded after
            if wrong := await faults(page):
                found[screen] = wrong
        assert found == {}
