"""The talk in a real Chromium: what one says and sees, and that nothing is lost or shown twice."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from tests.page.browsing import Here, at_page, browsing, intercept_once, needs_chromium, serving_pages
from tests.servers.scripted_openai import Until, finish, stream

MOST_BYTES = 60_000
"""Of all scripts and styles of the talk, packed."""

pytestmark = needs_chromium

KIT = "---\nname: Kit\nabout: skates\nlanguage: fa\n---\n\nYou are Kit.\n"
CARDS = """
from pixi.companion.cards import spot_card, spots_list
from pixi.companion.data import Spot
from pixi.core.message import Card, Field

PLACE = {"city": "Venice", "state": "CA", "latitude": 1.5, "longitude": 2.5}
SPOT = Spot(id="7", name="Harbor Bowl", kind="skatepark", rating=4.6, **PLACE)


def setup(addon):
    @addon.command
    async def show(context, name: str) -> None:
        \"\"\"show a card\"\"\"
        made = {
            "spot": spot_card(SPOT, "trickbook"),
            "spots": spots_list([SPOT, SPOT], "trickbook"),
            "other": Card("A thing", "It is big.", (Field("Size", "9"),), type="unheard_of", data={"x": 1}),
        }
        await context.card(made[name])
"""


SCROLL = """async (log) => {
  const frame = () => new Promise(requestAnimationFrame);
  log.scrollTop -= 300;
  const top = log.getBoundingClientRect().top;
  const lines = [...log.querySelectorAll(".said")];
  const read = lines.find((each) => each.getBoundingClientRect().top > top);
  const before = read.getBoundingClientRect().top;
  await frame();
  await frame();
  return Math.abs(read.getBoundingClientRect().top - before);
}"""
"""Scroll up a little; gives by how many pixels the first message that is seen moves after that."""

TO_THE_TOP = """async (log) => {
  log.scrollTop = 0;
  await new Promise(requestAnimationFrame);
}"""

HELD_TIMEOUTS = """AbortSignal.timeout = (milliseconds) => {
  const held = new AbortController();
  setTimeout(() => held.abort(new DOMException("", "TimeoutError")), milliseconds);
  return held.signal;
};"""
"""Signals that come by the page's clock, which a test can hold."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def say(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


def words(page: Page) -> Locator:
    return page.locator(".said .words")


@asynccontextmanager
async def talking(
    home: Path, *replies: Any, **more: Any
) -> AsyncGenerator[tuple[Here, BrowserContext, Page]]:
    async with serving_pages(home, *replies, **more) as here, browsing(here.url) as (context, _):
        page = await context.new_page()
        await page.goto(here.url)
        yield here, context, page


async def test_messages_grow_reactions_land_and_a_reload_shows_the_same(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    reply = stream(
        "[NOTE: secret][REACT: 🥞]\n[SEND: hello ", Until(go_on), "**you**]\n[SEND: two]", finish()
    )
    async with talking(tmp_path, reply) as (_, _, page):
        await expect(page.get_by_role("heading", name="Pixi").first).to_be_visible()
        await say(page, "hi")
        await expect(page.locator(".own .reactions")).to_have_text("🥞")
        growing = page.locator(".said:not(.own)")
        await expect(growing).to_contain_text("hello")
        await expect(growing).to_have_attribute("aria-busy", "true")
        await page.reload()
        await expect(page.locator(".said:not(.own)")).to_contain_text("hello")
        go_on.set()
        await expect(words(page)).to_have_text(["hi", "hello you", "two"])
        await expect(page.locator(".said strong")).to_have_text("you")
        await page.reload()
        await expect(words(page)).to_have_text(["hi", "hello you", "two"])
        await expect(page.locator(".own .reactions")).to_have_text("🥞")
        assert "secret" not in await page.content()


async def test_regenerating_and_editing_make_branches_that_one_can_walk(tmp_path: Path) -> None:
    replies = [f"[SEND: answer {number}]" for number in range(1, 4)]
    async with talking(tmp_path, *replies) as (_, _, page):
        await say(page, "question")
        await expect(words(page)).to_have_text(["question", "answer 1"])
        await page.get_by_role("button", name="Again").click()
        await expect(words(page)).to_have_text(["question", "answer 2"])
        await expect(page.get_by_role("group", name="Other versions")).to_contain_text("2 / 2")
        await page.get_by_role("button", name="The version before").click()
        await expect(words(page)).to_have_text(["question", "answer 1"])
        await page.get_by_role("textbox", name="Message").focus()
        await page.keyboard.press("ArrowUp")
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("question")
        await page.keyboard.type(", please")
        await page.keyboard.press("Enter")
        await expect(words(page)).to_have_text(["question, please", "answer 3"])


@pytest.mark.nightly
async def test_two_tabs_show_the_same_and_nothing_twice(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]", "[SEND: two]") as (_, context, page):
        await say(page, "first")
        await expect(words(page)).to_have_text(["first", "one"])
        other = await context.new_page()
        await other.goto(page.url)
        await expect(words(other)).to_have_text(["first", "one"])
        await say(other, "second")
        for tab in (page, other):
            await expect(words(tab)).to_have_text(["first", "one", "second", "two"])


@pytest.mark.nightly
async def test_what_is_sent_again_as_its_answer_was_lost_is_said_once(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]", "[SEND: two]") as (here, _, page):

        async def lose(route: Route) -> None:
            await route.fetch()
            await route.abort()

        await intercept_once(page, "**/api/chat", lose)
        await say(page, "hi")
        await expect(page.locator("[data-fate=failed]")).to_have_count(1)
        await page.get_by_role("button", name="Try again").click()
        await expect(words(page)).to_have_text(["hi", "one"])
        await expect(page.locator("[data-fate]")).to_have_count(0)
        assert len(here.model.requests) == 1


@pytest.mark.nightly
async def test_an_edit_that_failed_stays_one(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]", "[SEND: two]") as (_, _, page):
        await say(page, "hi")
        await expect(words(page)).to_have_text(["hi", "one"])
        await page.get_by_role("button", name="Edit").click()
        await intercept_once(page, "**/api/chat", lambda route: route.abort())
        await say(page, "hello")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await page.get_by_role("textbox", name="Message").focus()
        await page.keyboard.press("Enter")
        await expect(words(page)).to_have_text(["hello", "two"])


@pytest.mark.nightly
async def test_a_talk_that_was_left_is_not_shown_in_the_next(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]", "[SEND: two]") as (_, _, page):
        held, go_on = asyncio.Event(), asyncio.Event()

        async def late(route: Route) -> None:
            answer = await route.fetch()
            held.set()
            await go_on.wait()
            await route.fulfill(response=answer)

        await intercept_once(page, "**/api/chat", late)
        await say(page, "hi")
        await held.wait()
        await page.get_by_role("textbox", name="Message").fill("/new")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(words(page)).to_have_count(0)
        await page.evaluate(
            "new MutationObserver(() => { window.strays ||= [...document.querySelectorAll('.own .words')]"
            ".some((each) => each.textContent === 'hi') })"
            ".observe(document.body, { childList: true, subtree: true })"
        )
        async with page.expect_response("**/api/chat") as answer:
            go_on.set()
        await (await answer.value).finished()
        await say(page, "other")
        await expect(words(page)).to_have_text(["other", "two"])
        assert await page.evaluate("window.strays") is False


@pytest.mark.nightly
async def test_a_talk_that_could_not_be_loaded_is_asked_for_again(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]") as (_, _, page):
        await say(page, "hi")
        await expect(words(page)).to_have_text(["hi", "one"])
        await intercept_once(page, "**/messages?*", lambda route: route.abort())
        await page.reload()
        await expect(words(page)).to_have_text(["hi", "one"])


@pytest.mark.nightly
async def test_a_server_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: one]") as (_, _, page):
        await say(page, "hi")
        await expect(words(page)).to_have_text(["hi", "one"])
        asked = asyncio.Event()

        async def never(_: Route) -> None:
            asked.set()

        await page.clock.install()
        await page.add_init_script(HELD_TIMEOUTS)
        await intercept_once(page, "**/messages?*", never)
        await page.reload()
        await asked.wait()
        await expect(page.locator(".said")).to_have_count(0)
        await page.clock.fast_forward("00:45")
        await expect(words(page)).to_have_text(["hi", "one"])


@pytest.mark.nightly
async def test_what_comes_while_one_is_offline_is_there_once_when_one_is_back(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    reply = stream("[SEND: one]\n[SEND: two ", Until(go_on), "and three]\n[SEND: four]", finish())
    async with talking(tmp_path, reply, "[SEND: five]") as (here, context, page):
        await say(page, "hi")
        await expect(page.locator(".said:not(.own)")).to_have_count(2)
        await context.set_offline(True)
        go_on.set()
        async with aiohttp.ClientSession() as http, http.get(f"{here.url}/api/talks") as answer:
            name = (await answer.json())["talks"][0]["conversation"]
            while True:
                async with http.get(f"{here.url}/api/chat/{name}/messages") as told:
                    if len((await told.json())["messages"]) == 4:
                        break
        await say(page, "unheard")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await context.set_offline(False)
        await expect(words(page)).to_have_text(["hi", "one", "two and three", "four", "unheard", "five"])
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.reload()
        await expect(words(page)).to_have_text(["hi", "one", "two and three", "four", "unheard", "five"])
        assert len(here.model.requests) == 2


@pytest.mark.nightly
async def test_files_are_sent_by_button_with_what_they_are_and_shown_after_a_reload(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the tide is at noon")
    async with talking(tmp_path, "[SEND: at noon]") as (here, _, page):
        await page.locator("input[type=file]").set_input_files(tmp_path / "note.txt")
        await expect(page.locator(".uploads .name")).to_have_text("note.txt")
        await expect(page.get_by_role("progressbar")).to_have_count(0)
        await say(page, "when?")
        await expect(words(page)).to_have_text(["when?", "at noon"])
        await expect(page.locator(".carried")).to_have_text("note.txt")
        assert "the tide is at noon" in json.dumps(here.model.requests[0].json())
        await page.reload()
        await expect(page.locator(".carried")).to_have_text("note.txt")


@pytest.mark.nightly
async def test_pasted_pictures_are_drawn(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: a dot]", model_more="vision = true") as (_, _, page):
        await page.get_by_role("textbox", name="Message").focus()
        await page.evaluate(
            """async () => {
              const canvas = Object.assign(document.createElement("canvas"), {width: 40, height: 40});
              canvas.getContext("2d").fillRect(0, 0, 40, 40);
              const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
              const carried = new DataTransfer();
              carried.items.add(new File([blob], "dot.png", {type: "image/png"}));
              const pasted = new ClipboardEvent("paste", {clipboardData: carried, bubbles: true});
              document.activeElement.dispatchEvent(pasted);
            }"""
        )
        await expect(page.locator(".uploads .name")).to_have_text("dot.png")
        await expect(page.get_by_role("progressbar")).to_have_count(0)
        assert await page.locator(".uploads img").evaluate("each => each.naturalWidth") == 40
        await say(page, "look")
        await expect(words(page)).to_have_text(["look", "a dot"])
        for _ in range(2):
            picture = page.locator(".carried img")
            await expect(picture).to_have_js_property("complete", True)
            assert await picture.evaluate("each => each.naturalWidth") == 40
            await page.reload()


@pytest.mark.nightly
async def test_files_are_dropped_one_that_is_too_big_is_named_and_one_can_be_left_out(tmp_path: Path) -> None:
    limit = "max_file_bytes = 1000\n"
    async with talking(tmp_path, "[SEND: thanks]", http=limit) as (here, _, page):
        await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
        await page.evaluate(
            """() => {
              const carried = new DataTransfer();
              carried.items.add(new File(["x".repeat(2000)], "big.txt", {type: "text/plain"}));
              carried.items.add(new File(["the tide"], "small.txt", {type: "text/plain"}));
              carried.items.add(new File(["the moon"], "other.txt", {type: "text/plain"}));
              const over = {dataTransfer: carried, bubbles: true, cancelable: true};
              document.body.dispatchEvent(new DragEvent("dragover", over));
              document.body.dispatchEvent(new DragEvent("drop", over));
            }"""
        )
        await expect(page.get_by_role("alert")).to_have_text("A file may have 1 kB at most.")
        await page.get_by_role("button", name="Remove big.txt").click()
        await page.get_by_role("button", name="Remove other.txt").click()
        await expect(page.get_by_role("progressbar")).to_have_count(0)
        await page.get_by_role("button", name="Send").click()
        await expect(words(page)).to_have_text(["thanks"])
        await expect(page.locator(".carried")).to_have_text("small.txt")
        asked = json.dumps(here.model.requests[0].json())
        assert "the tide" in asked
        assert "the moon" not in asked


@pytest.mark.nightly
async def test_little_is_loaded_and_it_is_all_asked_for_at_once(tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, _, page), aiohttp.ClientSession(auto_decompress=False) as http:
        await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
        named = await page.evaluate(
            "[...document.querySelectorAll('link[href], script[src]')].map((each) => each.href || each.src)"
        )
        loaded = await page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
        files = {url for url in loaded if url.endswith((".js", ".css"))}
        packed = {}
        for url in files:
            async with http.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
                packed[url] = len(await answer.read())
        assert 20_000 < sum(packed.values()) <= MOST_BYTES, packed
        assert files - set(named) == set(), "what the page needs stands in its head"


@pytest.mark.nightly
async def test_a_question_is_answered_by_a_button(tmp_path: Path) -> None:
    addon = tmp_path / "bins.py"
    addon.write_text(
        "def setup(addon):\n    @addon.tool(writes=True, approval=True)\n"
        '    async def empty(context, bin: str) -> str:\n        """Empty a bin.\n\n        Args:\n'
        '            bin: which\n        """\n        return f"{bin} is empty"\n'
    )
    called = stream(
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {
                                "index": 0,
                                "id": "c1",
                                "type": "function",
                                "function": {"name": "empty", "arguments": '{"bin": "the blue one"}'},
                            }
                        ]
                    },
                }
            ]
        },
        finish("tool_calls"),
    )
    persona = "---\nname: Kit\ntools: [empty]\n---\n\nYou are Kit.\n"
    native = 'tools = "native"'
    made = talking(
        tmp_path, called, "[SEND: done]", model_more=native, personas={"kit": persona}, addons=(addon,)
    )
    async with made as (here, _, page):
        await page.goto(f"{here.url}/?persona=kit")
        await say(page, "empty it")
        question = page.get_by_role("alertdialog")
        await expect(question).to_contain_text("the blue one")
        await question.get_by_role("button", name="Yes").click()
        await expect(words(page)).to_have_text(["empty it", "done"])
        await expect(question).to_have_count(0)
        assert "the blue one is empty" in json.dumps(here.model.requests[-1].json())


@pytest.mark.nightly
async def test_cards_are_drawn_as_what_they_are_and_unknown_ones_by_what_they_say(tmp_path: Path) -> None:
    addon = tmp_path / "cards.py"
    addon.write_text(CARDS)
    persona = "---\nname: Kit\ncommands: [send, show]\n---\n\nYou are Kit.\n"
    reply = "[SHOW: spot][SHOW: spots][SHOW: other]"
    async with talking(tmp_path, reply, personas={"kit": persona}, addons=(addon,)) as (here, _, page):
        await page.goto(f"{here.url}/?persona=kit")
        await say(page, "where?")
        for _ in range(2):
            spot = page.locator(".card[data-type=spot_card]")
            await expect(spot).to_contain_text("Venice, CA ★ 4.6")
            await expect(spot.get_by_role("link", name="Open in the app")).to_have_attribute(
                "href", "trickbook://spot/7"
            )
            await expect(spot.get_by_role("link", name="Map")).to_have_attribute(
                "href", re.compile("openstreetmap")
            )
            await expect(page.locator(".card[data-type=spots_list] li")).to_have_count(2)
            await expect(page.locator(".card[data-type=unheard_of]")).to_contain_text("It is big.")
            await page.reload()


@pytest.mark.nightly
async def test_one_talks_by_keyboard_alone_with_commands_and_stops_a_reply(tmp_path: Path) -> None:
    never = asyncio.Event()
    slow = stream("[SEND: one]\n[SEND: two ", Until(never), "three]", finish())
    async with talking(tmp_path, slow, "[SEND: hi again]") as (here, _, page):
        field = page.get_by_role("textbox", name="Message")
        await expect(field).to_be_editable()
        await field.focus()
        await page.keyboard.type("go")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said:not(.own)")).to_have_count(2)
        await page.keyboard.press("Escape")
        await expect(words(page)).to_have_text(["go", "one"])
        await page.keyboard.type("/he")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status").filter(has_text="/undo")).to_be_visible()
        await page.keyboard.type("/undo")
        await page.keyboard.press("Enter")
        await expect(words(page)).to_have_count(0)
        await expect(field).to_have_value("go")
        await page.keyboard.press("Enter")
        await expect(words(page)).to_have_text(["go", "hi again"])
        assert len(here.model.requests) == 2


@pytest.mark.nightly
async def test_who_is_not_known_enters_a_key(tmp_path: Path) -> None:
    from pixi.channels.http.access import digest_of
    from pixi.store.kept import ApiKey

    key = "pixi_sk_" + "k" * 40
    async with serving_pages(tmp_path, "[SEND: hello]", http="local = false\n") as here:
        await here.service.store.add_key(ApiKey("app", digest_of(key), ("chat",), ("pixi",)))
        async with at_page(here.url, here.url) as page:
            await page.get_by_label("you need a key").fill("pixi_sk_wrong")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("alert")).to_contain_text("not valid here")
            await page.get_by_label("you need a key").fill(key)
            await page.keyboard.press("Enter")
            await say(page, "hi")
            await expect(words(page)).to_have_text(["hi", "hello"])


@pytest.mark.nightly
async def test_a_persona_of_another_language_is_met_and_reads_from_right_to_left(tmp_path: Path) -> None:
    async with talking(tmp_path, "[SEND: سلام]", personas={"kit": KIT}) as (_, _, page):
        await page.get_by_role("button", name="Kit").click()
        await expect(page.get_by_role("heading", name="Kit").first).to_be_visible()
        await say(page, "hello")
        reply = words(page).last
        await expect(reply).to_have_text("سلام")
        assert await reply.evaluate("each => getComputedStyle(each).direction") == "rtl"
        await page.goto(f"{page.url}&dir=rtl&lang=de")
        await expect(page.get_by_role("textbox", name="Nachricht")).to_be_visible()
        own = await page.locator(".said.own").bounding_box()
        theirs = await page.locator(".said:not(.own)").bounding_box()
        assert own is not None
        assert theirs is not None
        assert own["x"] < theirs["x"]


@pytest.mark.nightly
async def test_of_a_long_talk_only_a_part_is_drawn_and_what_is_read_keeps_its_place(tmp_path: Path) -> None:
    replies = [f"[SEND: answer {number}]" for number in range(130)]
    async with talking(tmp_path, *replies) as (here, _, page), aiohttp.ClientSession() as http:
        for number in range(130):
            body = {"message": f"question {number}", "conversation": "long"}
            async with http.post(f"{here.url}/api/chat", json=body) as answer:
                assert answer.status == 200
        await page.goto(f"{here.url}/?persona=pixi&talk=long")
        await expect(words(page).last).to_have_text("answer 129")
        seen: set[str] = set()
        log = page.locator(".log")
        for _ in range(400):
            drawn = await page.locator(".said.own .words").all_text_contents()
            assert len(drawn) <= 61, "a part of it alone is drawn"
            numbers = [int(each.removeprefix("question ")) for each in drawn]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            seen.update(drawn)
            if "question 0" in seen:
                break
            kept = await log.evaluate(SCROLL)
            assert kept < 2, "what is read stays where it is"
        assert seen == {f"question {number}" for number in range(130)}
        await page.get_by_role("button", name="To the latest message").click()
        await expect(words(page).last).to_have_text("answer 129")
        await expect(words(page).last).to_be_in_viewport()
        # An earlier page that could not be had is asked for by a button. Also who goes to the top at once
        # gets there, however often the part moves.
        fails = True

        async def fail(route: Route) -> None:
            await (route.abort() if fails else route.continue_())

        await page.route(re.compile(r"/messages\?.*before="), fail)
        await page.reload()
        await expect(words(page).last).to_have_text("answer 129")
        trouble = page.locator(".trouble")
        for _ in range(400):
            if await trouble.count():
                break
            await log.evaluate(TO_THE_TOP)
        await expect(trouble).to_be_visible()
        drawn = await page.locator(".said.own .words").all_text_contents()
        fails = False
        await page.get_by_role("button", name="Earlier messages").click()
        await expect(page.locator(".said.own .words").first).not_to_have_text(drawn[0])
        first = page.get_by_text("question 0", exact=True)
        for _ in range(400):
            await log.evaluate(TO_THE_TOP)
            if await first.count():
                break
        await expect(first).to_have_count(1)
