"""What strangers write runs nowhere: forty payloads in every field that they can fill, in a real Chromium.

Each payload that ran would call `pwned()`, ask another server, open a dialog or leave the page; each that the
browser had to stop would be in its reports. `browsing` fails on both.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from playwright.async_api import Page, expect

from pixi.channels.http.access import digest_of
from pixi.store.kept import ApiKey
from tests.page.browsing import Here, browsing, needs_chromium, serving_pages

pytestmark = needs_chromium

RUN = "pwned()"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<object data='javascript:{RUN}'></object>",
    f"<embed src='javascript:{RUN}'>",
    f"<body onload={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<math><mi xlink:href='javascript:{RUN}'>x</mi></math>",
    f"<form action='javascript:{RUN}'><button autofocus>x</button></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/a.css'>",
    "<style>@import 'https://evil.example/b.css'; * {display: none}</style>",
    "<img src='https://evil.example/track.png'>",
    "![track](https://evil.example/track.png)",
    f"[click](javascript:{RUN})",
    f"[click](JaVaScRiPt:{RUN})",
    f"[click](data:text/html,<script>{RUN}</script>)",
    f"[click](vbscript:{RUN})",
    f'[a](https://example.com/" onmouseover="{RUN})',
    f"<a href='javascript:{RUN}'>x</a>",
    f"${{{RUN}}} {{{{{RUN}}}}} <%= {RUN} %> #{{{RUN}}}",
    f"`${{{RUN}}}`",
    f"<!--><script>{RUN}</script>-->",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"\u202e>tpircs/<{RUN}>tpircs<\u2066",
    "__proto__ constructor toString hasOwnProperty",
    "url(https://evil.example/c.png) expression(pwned())",
    "w" * 5_000,
    "**" * 2_000 + "[" * 2_000 + "`" * 999,
    f"<template><script>{RUN}</script></template><slot name=x>",
)
ADDON = """
import json
from pathlib import Path

from pixi.core.card import Card, Field

PAYLOADS = json.loads(Path(__file__).with_name("payloads.json").read_text())
TYPES = ["spot_card", "spots_list", "tricklist_card", "trick_card", "spot_draft_confirmation", "unheard_of"]
KEYS = ["_id", "name", "city", "state", "category", "difficulty", "status", "imageUrl", "deepLink"]


def setup(addon):
    @addon.command
    async def show(context, number: str) -> None:
        \"\"\"show a card\"\"\"
        number = int(number)
        bad = PAYLOADS[number % len(PAYLOADS)]
        kind = TYPES[number % len(TYPES)]
        data = {key: bad for key in KEYS} | {"trickCount": 3, "rating": 4.5}
        if number % 4 == 0:
            data |= {"imageUrl": "https://evil.example/a.png", "deepLink": "javascript:pwned()"}
        await context.card(Card(
            title=bad[:200], text=bad[:500], fields=(Field(bad[:100], bad[:100]), Field("Reason", bad[:100])),
            picture="https://evil.example/d.png", link="https://example.com/" if number % 2 else "",
            type=kind, data=[data] if kind == "spots_list" else data,
        ))

    @addon.tool
    async def look(context, words: str) -> str:
        \"\"\"Look something up.

        Args:
            words: what to look for
        \"\"\"
        return PAYLOADS[int(words)]
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str) -> str:
    """A text as it stands in a command."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("\n", " ")


async def talk(here: Here, http: aiohttp.ClientSession) -> None:
    """Say each payload, as somebody whose name it is, with a file of that name; the replies say it back."""
    key = "pixi_sk_" + "h" * 40
    scopes = ("chat", "chat:on-behalf", "approve")
    await here.house.store.add_key(ApiKey("app", digest_of(key), scopes))
    bearer = {"Authorization": f"Bearer {key}"}
    for number, payload in enumerate(PAYLOADS):
        form = aiohttp.FormData()
        form.add_field("file", payload.encode(), filename=f"{payload[:80]}.txt", content_type="text/plain")
        async with http.post(f"{here.url}/api/files", data=form) as answer:
            file = (await answer.json()).get("id")
        body: dict[str, Any] = {"message": payload, "conversation": "evil", "persona": "kit"}
        files = {"attachments": [{"id": file}]} if file else {}
        async with http.post(f"{here.url}/api/chat", json=body | files) as answer:
            assert answer.status == 200, await answer.text()
        if number % 8 == 0:
            theirs = body | {"userId": f"u{number}", "userName": payload[:120]}
            async with http.post(f"{here.url}/api/chat", json=theirs, headers=bearer) as answer:
                assert answer.status == 200, await answer.text()


async def is_calm(page: Page) -> None:
    """Nothing ran, nothing was followed, and no link leads to a script."""
    links = await page.evaluate("[...document.querySelectorAll('[href]')].map((each) => each.href)")
    assert not [link for link in links if link.lower().startswith(("javascript:", "data:", "vbscript:"))]
    assert await page.evaluate("window.ran ?? 0") == 0
    assert await page.locator("main").first.is_visible()


@pytest.mark.nightly
async def test_forty_payloads_run_nowhere(tmp_path: Path) -> None:
    (tmp_path / "payloads.json").write_text(json.dumps(PAYLOADS))
    addon = tmp_path / "show.py"
    addon.write_text(ADDON)
    bad = json.dumps(PAYLOADS[2])
    persona = (
        f"---\nname: {bad}\nabout: {json.dumps(PAYLOADS[4])}\n"
        f"commands: [send, note, react, show]\ntools: [look]\ndatabases: [evil]\n"
        f"---\n\nYou are {PAYLOADS[0]}.\n"
    )
    (tmp_path / "databases" / "evil").mkdir(parents=True)
    (tmp_path / "databases" / "evil" / "<img src=x onerror=pwned()>.md").write_text("\n\n".join(PAYLOADS))
    replies = []
    for number, payload in enumerate(PAYLOADS):
        said = f"[NOTE: {written(payload)}]\n[REACT: 🥞]\n[SEND: {written(payload)}]\n[SHOW: {number}]"
        replies += [said, *([said] if number % 8 == 0 else [])]
    async with (
        serving_pages(
            tmp_path,
            *replies,
            config="[studio]\nprivate = true\n",
            personas={"kit": persona},
            addons=(addon,),
        ) as here,
        aiohttp.ClientSession() as http,
        browsing(here.url) as (context, watched),
    ):
        await talk(here, http)
        await context.add_init_script("window.pwned = () => { window.ran = (window.ran ?? 0) + 1; };")
        page = await context.new_page()
        page.on("dialog", lambda dialog: watched.errors.append(f"dialog {dialog.message}"))
        page.on("popup", lambda popup: watched.errors.append(f"popup {popup.url}"))

        await page.goto(f"{here.url}/?persona=kit")
        await expect(page.get_by_role("textbox", name="Message")).to_be_editable()
        await is_calm(page)
        await page.goto(f"{here.url}/?persona=kit&talk=evil")
        await expect(page.locator(".said").last).to_be_visible()
        for _ in range(30):
            await page.locator(".log").evaluate("each => each.scrollTo(0, 0)")
            await page.wait_for_timeout(50)
        assert await page.locator(".card").count() > 20
        await is_calm(page)

        await page.goto(here.link)
        await expect(page.get_by_role("navigation")).to_be_visible()
        turn = max(each.id for each in await here.house.store.turns(await address(here, http), 5))
        places = ["live", "talks", "people", "memory", "queue", "databases", "usage", "health", "persona"]
        places += ["persona/kit", f"why/{turn}", f"talks/{quote(await address(here, http), safe='')}"]
        places += ["databases?q=script", "databases/evil"]
        for place in places:
            await page.goto(f"{here.url}/studio/{place}")
            await page.wait_for_timeout(500)
            await is_calm(page)


async def address(here: Here, http: aiohttp.ClientSession) -> str:
    """The address of the talk in which the payloads were said."""
    from pixi.channels.http.access import address_of

    return address_of("web:local", "kit", "evil")
