"""Live in a browser: the raw stream of a talk as it is written, and what comes of each command."""

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, Route, expect

from pixi.core.message import Author, Message
from pixi.testing import RecordingChannel
from tests.page.browsing import Here, at_page, needs_chromium, serving_pages
from tests.servers.scripted_openai import Until, call, finish, stream, usage
from tests.waiting import within

pytestmark = [needs_chromium, pytest.mark.nightly]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def say(here: Here, text: str) -> Any:
    """Say something from this machine; gives the answer."""
    async with aiohttp.ClientSession() as http:
        body = {"message": text, "conversation": "main"}
        async with http.post(f"{here.url}/api/chat", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()


async def at_live(page: Page, here: Here) -> None:
    """Go to the screen, once the link has let the browser in."""
    await expect(page.get_by_role("link", name="Health")).to_be_visible()
    await page.goto(f"{here.url}/studio/live")


async def followed(page: Page) -> None:
    """Wait until the page follows a talk of its own, and has what was said in it."""
    await expect(page.get_by_role("navigation", name="Talks").get_by_role("link")).to_have_count(1)
    await expect(page.get_by_role("article")).to_have_attribute("aria-busy", "false")
    await expect(page.get_by_role("status").filter(has_text="connected")).to_be_attached()


async def test_a_reply_is_watched_while_it_is_written(tmp_path: Path) -> None:
    going = asyncio.Event()
    reply = stream("[NOTE: a 🐙!]\n[SEND: hey ", Until(going), "you]\n[REACT: 🥞]", finish(), usage(100, 9))
    async with serving_pages(tmp_path, "[SEND: hm?]", reply) as here, at_page(here.url, here.link) as page:
        await expect(page.get_by_text("Nothing happens just now")).to_be_visible()
        await say(here, "hi")
        turn = page.get_by_role("article").first  # the latest
        await followed(page)
        said = asyncio.create_task(say(here, "hi there"))
        await expect(turn).to_contain_text("hi there")
        await expect(turn.locator(".command.note")).to_have_text("[NOTE: a 🐙!]1")
        await expect(turn.locator(".command.opened")).to_have_text("[SEND: hey ")
        await expect(turn.locator(".effect")).to_have_count(1)
        await expect(turn).to_have_attribute("aria-busy", "true")
        going.set()
        await said
        await expect(turn.locator(".command.send")).to_have_text("[SEND: hey you]2")
        await expect(turn.locator(".command.lit")).to_have_count(3)  # all closed while it was watched
        await expect(turn.locator(".command.react")).to_have_text("[REACT: 🥞]3")
        effects = turn.locator(".effect")
        await expect(effects).to_have_count(3)
        for number, text in enumerate(("a 🐙!", "hey you", "🥞")):
            await expect(effects.nth(number)).to_contain_text(text)
            await expect(effects.nth(number).locator(".ms")).to_contain_text("ms")
        await expect(turn.locator(".threads path")).to_have_count(3)
        await expect(turn.locator("footer")).to_contain_text("100")
        await expect(turn).to_have_attribute("aria-busy", "false")
        await turn.get_by_role("link", name="Why").click()
        await expect(page.get_by_text("This is the request that was sent, to the byte.")).to_be_visible()


async def test_who_comes_late_sees_the_turn_from_its_beginning_with_its_tools(tmp_path: Path) -> None:
    asked = call("recall", '{"query": "tea"}', index=0, call_id="c1")
    replies = (
        stream("[SEND: let me think]", asked, finish("tool_calls"), usage(100, 9)),
        stream("[SEND: tea!]", finish(), usage(120, 9, prompt_tokens_details={"cached_tokens": 60})),
    )
    persona = "---\nname: Pixi\ntools: [recall]\n---\n\nYou are Pixi.\n"
    async with serving_pages(tmp_path, *replies, personas={"pixi": persona}) as here:
        await say(here, "what do I like?")
        async with at_page(here.url, here.link) as page:
            await at_live(page, here)
            turn = page.get_by_role("article")
            await expect(turn.locator(".command")).to_have_text(["[SEND: let me think]1", "[SEND: tea!]2"])
            tool = turn.locator(".effect.tool")
            await expect(tool).to_contain_text("recall")
            await expect(tool).to_contain_text('"query": "tea"')
            await tool.get_by_text("Result").click()
            await expect(tool.locator("pre").nth(1)).not_to_be_empty()
            await expect(turn.locator("footer")).to_contain_text("27% from cache")
            talk = page.get_by_role("navigation", name="Talks").get_by_role("link")
            await expect(talk).to_contain_text("1 turn")
            await talk.click()
            await expect(turn.locator(".command")).to_have_count(2)


async def test_a_turn_between_the_list_and_the_stream_is_shown(tmp_path: Path) -> None:
    opened, go_on = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        opened.set()
        await go_on.wait()
        await route.continue_()

    async with serving_pages(tmp_path, "[SEND: one]") as here, at_page(here.url, here.link) as page:
        await page.route("**/api/studio/events?*", hold)
        await at_live(page, here)
        async with within("the page asks for the stream"):
            await opened.wait()
        await say(here, "first")
        go_on.set()
        await expect(page.get_by_role("article").locator(".command")).to_have_text("[SEND: one]1")


async def test_it_is_paused_and_gone_through_step_by_step_by_keyboard(tmp_path: Path) -> None:
    replies = ("[SEND: one]", "[SEND: two]")
    async with serving_pages(tmp_path, *replies) as here, at_page(here.url, here.link) as page:
        await at_live(page, here)
        await say(here, "first")
        turns = page.get_by_role("article")
        await expect(turns).to_have_count(1)
        await page.get_by_role("button", name="Pause").focus()
        await page.keyboard.press("Enter")
        await say(here, "second")
        step = page.get_by_role("button", name="Step")
        await expect(step).to_be_enabled()
        await expect(turns).to_have_count(1)
        await step.focus()
        await page.keyboard.press("Enter")
        await expect(turns).to_have_count(2)
        await expect(turns.first).to_contain_text("second")
        await expect(turns.first.locator(".command")).to_have_count(0)
        for _ in range(3):  # that it was asked, what it wrote, and that a command opens
            await page.keyboard.press("Enter")
        await expect(turns.first.locator(".command.opened")).to_have_count(1)
        await expect(turns.first.locator(".effect")).to_have_count(0)
        await page.get_by_role("button", name="Resume").click()
        await expect(turns.first.locator(".effect")).to_have_count(1)
        await expect(step).to_have_count(0)


async def test_words_of_a_talk_in_private_are_not_on_the_screen(tmp_path: Path) -> None:
    async with serving_pages(tmp_path, "[SEND: a secret answer]") as here:
        said = Message("1", "discord:1:78:pixi", Author("11", "Mo"), "a secret question", time.time())
        await here.service.receive(said, RecordingChannel())
        await here.service.engine.settled()
        async with at_page(here.url, here.link) as page:
            await at_live(page, here)
            await expect(page.get_by_text("This talk is in private")).to_be_visible()
            await expect(page.get_by_role("article")).to_contain_text("scripted")
            assert "secret" not in await page.content()
            await page.get_by_role("link", name="Why").click()
            await expect(page.get_by_text("This talk is in private")).to_be_visible()
            assert "secret" not in await page.content()


async def test_talks_are_filtered_by_who_answers_and_where(tmp_path: Path) -> None:
    async with serving_pages(tmp_path, "[SEND: hi]", "[SEND: ho]") as here:
        await say(here, "here")
        said = Message("1", "discord:1:77:pixi", Author("11", "Mo"), "there", time.time(), group=True)
        await here.service.receive(said, RecordingChannel())
        await here.service.engine.settled()
        async with at_page(here.url, here.link) as page:
            await at_live(page, here)
            talks = page.get_by_role("navigation", name="Talks").get_by_role("link")
            await expect(talks).to_have_count(2)
            await expect(page.get_by_role("article")).to_contain_text("there")
            await page.get_by_label("Place").select_option("http")
            await expect(talks).to_have_count(1)
            await expect(page.get_by_role("article")).to_contain_text("here")
            assert page.url.endswith("?place=http")


async def test_a_phone_shows_numbered_pairs_and_who_wants_no_motion_gets_none(tmp_path: Path) -> None:
    phone = {"viewport": {"width": 360, "height": 780}, "reduced_motion": "reduce"}
    going = asyncio.Event()
    reply = stream("[SEND: hey ", Until(going), "you]", finish())
    async with (
        serving_pages(tmp_path, "[SEND: hm?]", reply) as here,
        at_page(here.url, here.link, **phone) as page,
    ):
        await expect(page.get_by_role("heading", name="Live")).to_be_visible()
        await say(here, "hi")
        await followed(page)
        said = asyncio.create_task(say(here, "hi there"))
        await expect(page.locator(".command.opened")).to_be_visible()
        going.set()
        await said
        turn = page.get_by_role("article").first
        await expect(turn.locator(".command.lit sup")).to_have_text("1")
        await expect(turn.locator(".effect .pair")).to_have_text("1")
        await expect(turn.locator(".threads")).to_be_hidden()
        motion = "e => getComputedStyle(e).animationName"
        assert await turn.locator(".command.lit").evaluate(motion) == "none"
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
