"""Stills of the pages: a talk in a browser, and the same talk live in the studio."""

import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from playwright.async_api import expect

from tests.page.browsing import browsing, serving_pages

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


def _check_fonts() -> None:
    """End the program if no font has the name of 老秦, who stands in the list of personas."""
    listed = which("fc-list")
    if listed and not subprocess.run([listed, ":lang=zh"], capture_output=True, check=True).stdout:
        sys.exit("These pictures need a font with Chinese characters, such as the package fonts-wqy-zenhei.")


async def main(folder: Path) -> None:
    """Write `talk-*.png` and `live-*.png`."""
    _check_fonts()
    with TemporaryDirectory() as home, chdir(home):
        replies = [reply for _, reply in _TALK]
        async with serving_pages(Path(home), *replies) as here:
            look = {"viewport": {"width": 1000, "height": 690}, "device_scale_factor": 1.5}
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
                    await page.screenshot(path=folder / f"talk-{theme}.png")
                    if theme == "dark":
                        continue
                    await page.set_viewport_size({"width": 1000, "height": 600})
                    await page.goto(here.link)
                    await expect(page.get_by_role("article")).to_have_count(2)
                    for each in ("light", "dark"):
                        await page.emulate_media(color_scheme=each)
                        await page.wait_for_timeout(2000)  # until no command shines any more
                        await page.screenshot(path=folder / f"live-{each}.png")
