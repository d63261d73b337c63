"""Nothing that strangers write acts: forty payloads in all that they can fill, in a real Chromium.

What acts would call `hit`, ask another server, open a dialog or another page, or leave the page; what the
browser stops is in its reports; and what could act once somebody clicks is seen in what was drawn.
"""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from pixi.channels.http.access import address_of
from tests.page.browsing import browsing, needs_chromium, serving_pages
from tests.page.strangers import (
    EMPTY,
    EVIL,
    PAYLOADS,
    ROOM,
    Canary,
    flags_in,
    hostile,
    meet_all,
    say,
    say_all,
)
from tests.page.test_widget import shop
from tests.waiting import until

pytestmark = needs_chromium

ALL = set(range(len(PAYLOADS)))
NAMES = {at for at in ALL if "\x00" not in PAYLOADS[at]}
"""What a persona can be called: a file with such signs is set aside."""
CARDS = (
    "spot_card",
    "spots_list",
    "tricklist_card",
    "trick_card",
    "spot_draft_confirmation",
    "constructor",
    "toString",
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def read_up(page: Page, *kinds: str) -> dict[str, set[int]]:
    """Read a talk up to its beginning; return the payloads that stood in such parts of the page on the way.

    Only a part of a long talk is in the page at once.
    """
    found: dict[str, set[int]] = {kind: set() for kind in kinds}
    for _ in range(100):
        for kind in kinds:
            found[kind] |= await all_of(page, kind)
        if await page.locator(".said.own").get_by_text("§00§").count():
            break
        await page.locator(".log").evaluate("each => each.scrollTo(0, 0)")
        await page.wait_for_timeout(50)
    return found


async def all_of(page: Page, kind: str) -> set[int]:
    """The payloads that stand in such parts of the page."""
    return flags_in("\n".join(await page.locator(kind).all_text_contents()))


@pytest.mark.nightly
async def test_the_canary_sings(tmp_path: Path) -> None:
    acts = (
        "hit()",
        "alert(1)",
        "document.body.append(Object.assign(document.createElement('a'), {href: 'javascript:hit()'}))",
        "document.body.append(document.createElement('iframe'))",
        "document.body.append(Object.assign(document.createElement('img'), {src: '/elsewhere.png'}))",
        f"document.body.append(Object.assign(document.createElement('a'), {{href: '{EVIL}'}}))",
    )
    async with serving_pages(tmp_path) as here, browsing(here.url) as (context, watched):
        canary = Canary(here.url)
        await canary.watch(context)
        page = await context.new_page()
        for act in acts:
            await page.goto(here.url)
            await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
            await canary.silent(page)
            await page.evaluate(f"() => {{ {act}; }}")
            with pytest.raises(AssertionError):
                await canary.silent(page)
            canary.sang.clear()
        await page.evaluate(f"fetch('{EVIL}').catch(() => null)")
        await until(lambda: watched.errors, "that the browser tells what it stopped")
        assert watched.errors[0].startswith("CSP connect-src")
        watched.errors.clear()


@pytest.mark.nightly
async def test_nothing_acts_in_the_talk(tmp_path: Path) -> None:
    async with (
        serving_pages(tmp_path, **hostile(tmp_path)) as here,
        browsing(here.url) as (context, _),
    ):
        canary = Canary(here.url)
        await canary.watch(context)
        await say(here, "constructor", "hello")  # a talk is followed once it has begun
        page = await context.new_page()
        await page.goto(f"{here.url}/?persona=pixi&talk=constructor")
        await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
        await say_all(here, "constructor")
        await expect(page.locator(".said.own").last).to_contain_text(f"§{max(ALL)}§")
        for _ in range(2):
            await expect(page.locator(".said:not(.own)").last).to_be_visible()
            cards = [f".card[data-type={kind}]" for kind in CARDS]
            kinds = (".said.own", ".said:not(.own) .words", ".carried", *cards)
            assert await read_up(page, *kinds) == dict.fromkeys(kinds, ALL)
            assert await all_of(page, "#side") == NAMES
            await canary.silent(page)
            await page.reload()
        await say(here, "constructor", EMPTY, wait=False)
        question = page.get_by_role("alertdialog")
        await expect(question).to_contain_text("§00§")
        await canary.silent(page)
        await question.get_by_role("button", name="No").click()
        await expect(question).to_have_count(0)
        for address in (
            "?persona=constructor",
            "?persona=k0&talk=%ff",
            "?persona=__proto__&talk=<b>&lang=__proto__",
        ):
            await page.goto(f"{here.url}/{address}")
            await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
            await canary.silent(page)


@pytest.mark.nightly
async def test_nothing_acts_in_the_widget(tmp_path: Path) -> None:
    async with (
        shop(
            tmp_path,
            http="visitor_requests_per_minute = 1000\nvisitor_messages_per_day = 1000\n",
            **hostile(tmp_path),
        ) as (here, site),
        browsing(here.url, site.origin) as (context, _),
    ):
        site.body = site.body.replace("data-key", 'data-persona="pixi" data-key')
        canary = Canary(here.url, site.origin)
        await canary.watch(context)
        page = await context.new_page()
        await page.goto(site.origin)
        await page.get_by_role("button", name="Open the chat").click()
        for at in sorted(ALL):
            await page.get_by_role("textbox", name="Write a message").fill(
                f"§{at:02}§ {PAYLOADS[at][:2_000]}"
            )
            await expect(page.get_by_role("button", name="Send")).to_be_enabled()
            await page.keyboard.press("Enter")
            await expect(page.locator(".said.own")).to_have_count(at + 1)
            await expect(page.locator(".said:not(.own):not([aria-busy=true]) .words")).to_have_count(at + 1)
            await here.service.engine.settled()
        for _ in range(2):
            for kind in (".said.own", ".said:not(.own) .words", ".card"):
                assert await all_of(page, kind) >= ALL, kind
            await canary.silent(page)
            await page.reload()
            await expect(page.locator(".said.own")).to_have_count(len(ALL))


@pytest.mark.nightly
async def test_nothing_acts_in_the_studio(tmp_path: Path) -> None:
    async with (
        serving_pages(tmp_path, **hostile(tmp_path)) as here,
        browsing(here.url) as (context, _),
    ):
        canary = Canary(here.url)
        await canary.watch(context)
        page = await context.new_page()
        await page.goto(here.link)
        await expect(page.get_by_role("navigation").first).to_be_visible()
        await say_all(here, "constructor")
        await expect(page.locator("main")).to_contain_text(f"§{max(ALL)}§")
        assert await all_of(page, "main") >= set(sorted(ALL)[-20:]), "what is told while one looks on"
        await canary.silent(page)
        await meet_all(here)
        await say(here, "constructor", EMPTY, wait=False)
        web = address_of("web:local", "pixi", "constructor")
        first = min(each.id for each in await here.service.store.turns(web, 100))
        screens = {
            f"live/{quote(web, safe='')}": set(sorted(ALL)[-19:]),
            f"live/{quote(ROOM, safe='')}": {max(ALL)},
            "talks": set(),
            f"talks/{quote(ROOM, safe='')}": ALL,
            f"talks/{quote(web, safe='')}": ALL,
            "people": ALL,
            "people/__proto__": {PAYLOADS.index("__proto__")},
            "people/constructor": {PAYLOADS.index("constructor")},
            "memory": ALL,
            "queue": ALL,
            "databases": set(),
            "databases/evil": ALL,
            "usage?by=person": set(),
            "health": ALL,
            "persona": NAMES,
            "persona/k4": {4},
            **{f"why/{first + at}": {at} for at in (0, 24, 32, 35, 36, 37)},
            "why/%00": set(),
            "talks/__proto__": set(),
            "constructor": set(),
            "%ff": set(),
        }
        missing = {}
        for address, expected in screens.items():
            await page.goto(f"{here.url}/studio/{address}")
            await expect(page.locator(".waiting")).to_have_count(0)
            missing[address] = sorted(expected - await unfolded(page, expected))
            await canary.silent(page)
        assert {address: found for address, found in missing.items() if found} == {}


async def unfolded(page: Page, expected: set[int]) -> set[int]:
    """What stands on a screen once everything was unfolded, and asked for page by page."""
    for _ in range(30):
        await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        if await all_of(page, "main") >= expected:
            break
        more = page.get_by_role("button", name="more")
        if await more.count():
            await more.first.click()
        await page.wait_for_timeout(100)
    return await all_of(page, "main")
