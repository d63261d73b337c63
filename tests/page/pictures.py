"""Draw the pictures of the pages that the README shows: `python -m tests.page.pictures`.

The replies are a script, so that the pictures are the same each time. Server, pages and browser are the real
ones.
"""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import expect

from tests.page.browsing import browsing, serving_pages

_FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
_TALK = (
    (
        "do you know a good breakfast?",
        "[NOTE: breakfast!! finally somebody asks]\n[REACT: 🥞]\n[SEND: blueberry pancakes. no contest]\n"
        "[SEND: the trick is to let the batter rest for **ten minutes**]",
    ),
    (
        "and when it rains?",
        "[NOTE: rain means the ferry is late, so there is time]\n[SEND: then you make twice as many]\n"
        "[SEND: and wait for the ferry at the window]\n[REACT: 🌧]",
    ),
)


async def main() -> None:
    """Draw them."""
    with TemporaryDirectory() as home:
        os.chdir(home)
        replies = [reply for _, reply in _TALK]
        async with serving_pages(Path(home), *replies) as here:
            look = {"viewport": {"width": 1000, "height": 640}, "device_scale_factor": 1.5}
            for theme in ("light", "dark"):
                async with browsing(here.url, color_scheme=theme, **look) as (context, _):
                    page = await context.new_page()
                    await page.goto(f"{here.url}/?talk=breakfast&persona=pixi")
                    for said, _ in _TALK if theme == "light" else ():
                        field = page.get_by_role("textbox", name="Message")
                        await expect(field).to_be_editable()
                        await field.fill(said)
                        await field.press("Enter")
                        await expect(page.get_by_role("button", name="Again").last).to_be_visible()
                    await expect(page.locator(".said .words")).to_have_count(6)
                    await page.wait_for_timeout(800)  # until what moves has come to rest
                    await page.screenshot(path=_FOLDER / f"talk-{theme}.png")
                    if theme == "dark":
                        continue
                    await page.goto(here.link)
                    await expect(page.get_by_role("article")).to_have_count(2)
                    for each in ("light", "dark"):
                        await page.emulate_media(color_scheme=each)
                        await page.wait_for_timeout(800)
                        await page.screenshot(path=_FOLDER / f"live-{each}.png")


if __name__ == "__main__":
    asyncio.run(main())
