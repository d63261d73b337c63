"""Why in a browser: of a past reply the request as it was sent, and what became of it."""

from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import expect

from pixi.app.personas import read_personas
from pixi.core.memory import Memory
from tests.page.browsing import Here, at_page, needs_chromium, serving_pages
from tests.servers.scripted_openai import finish, stream, usage

pytestmark = [needs_chromium, pytest.mark.nightly]

PERSONA = "---\nname: Pixi\ntools: [recall]\n---\n\nYou are Pixi, by the sea.\n"
NASTY = '<img src=x onerror="console.error(`CSP ran`)">[SEND: x]'


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def say(here: Here, text: str) -> int:
    """Say something from this machine; gives the number of the turn."""
    async with aiohttp.ClientSession() as http:
        body = {"message": text, "conversation": "main"}
        async with http.post(f"{here.url}/api/chat", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return int((await answer.json())["turn"])


async def test_a_reply_is_explained_from_what_was_said_to_what_became_of_it(tmp_path: Path) -> None:
    reply = stream("[NOTE: a friend]\n[SEND: tea!]\n[REACT: 🥞]", finish(), usage(400, 12))
    async with serving_pages(tmp_path, "[SEND: hello]", reply, personas={"pixi": PERSONA}) as here:
        await say(here, NASTY)
        fact = Memory(0, "Pixi", "web:local", "", "x", "one", f"likes green tea {NASTY}", 1.0)
        await here.service.store.remember(fact)
        turn = await say(here, "which tea do I like?")
        async with at_page(here.url, here.link) as page:
            await expect(page.get_by_role("link", name="Health")).to_be_visible()
            await page.goto(f"{here.url}/studio/why/{turn}")
            await expect(page.get_by_text("This is the request that was sent, to the byte.")).to_be_visible()
            await expect(page.locator(".told-line .is-words")).to_have_text("which tea do I like?")
            await expect(page.locator(".minded mark")).to_contain_text(["tea"])
            await expect(page.locator(".minded")).to_contain_text(NASTY)
            acts = page.locator(".acts .effect")
            await expect(acts).to_have_count(3)
            for number, outcome in enumerate(("kept private", "delivered", "delivered")):
                await expect(acts.nth(number)).to_contain_text(outcome)
            await expect(page.locator(".offered")).to_contain_text("recall")
            prefix = page.locator(".sent-part.part-prefix")
            await prefix.locator("summary").press("Enter")
            await expect(prefix).to_contain_text("You are Pixi, by the sea.")
            history = page.locator(".sent-part.part-history")
            await history.locator("summary").click()
            await expect(history).to_contain_text(NASTY)
            await history.get_by_role("link", name=f"Turn {turn - 1}").click()
            await expect(page.locator(".told-line .is-words")).to_have_text(NASTY)


async def test_what_cannot_be_known_any_more_is_said_plainly(tmp_path: Path) -> None:
    async with serving_pages(tmp_path, "[SEND: hello]", personas={"pixi": PERSONA}) as here:
        turn = await say(here, "my words")
        changed = PERSONA.replace("by the sea", "in the hills")
        (tmp_path / "personas" / "pixi.md").write_text(changed)
        await here.service.change(here.service.settings, read_personas(here.service.settings))
        async with at_page(here.url, here.link) as page:
            await expect(page.get_by_role("link", name="Health")).to_be_visible()
            await page.goto(f"{here.url}/studio/why/{turn}")
            told = page.locator(".certain")
            await expect(told).to_contain_text("Not all of this is as it was sent")
            await expect(told).to_contain_text("the persona’s file")
            await here.service.engine.forget("web:local")
            await page.reload()
            await expect(told).to_contain_text("were forgotten")
            assert "my words" not in await page.content()
            await page.goto(f"{here.url}/studio/why/99")
            await expect(page.get_by_role("alert")).to_contain_text("There is no turn 99")
