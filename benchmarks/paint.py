"""How soon the pages show something: the first paint, in a real Chromium, beside a page of one line.

Each page is opened anew in the same browser, nothing kept: what a newcomer sees. The figure is the browser's
own first-contentful-paint, counted from the navigation; and when the field for a message takes words.
"""

import asyncio
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from benchmarks.processes import WorkerFailed
from benchmarks.report import Figure, progress

GOAL_MS = 200
_PAINTED = """() => new Promise((told) => new PerformanceObserver((list) => {
  const first = list.getEntriesByName("first-contentful-paint")[0];
  if (first) told(first.startTime);
}).observe({type: "paint", buffered: true}))"""
_WRITABLE = """addEventListener("DOMContentLoaded", () => {
  const look = () => {
    if (!document.querySelector("textarea:not([disabled], [readonly])")) return false;
    window.writable ??= performance.now();
    return true;
  };
  if (!look()) new MutationObserver((_, self) => look() && self.disconnect())
    .observe(document.body, {subtree: true, childList: true, attributes: true});
})"""
_FIELD = "the field"
TALK, FLOOR = "the talk", "a page of one line, bare aiohttp"


@asynccontextmanager
async def _one_line() -> AsyncIterator[str]:
    """Serve a page of one line; gives its address."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>x</title><p>Hello", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def _measure(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds to the first paint of each page, a value a round."""
    try:
        from tests.page.browsing import CHROMIUM, browsing, serving_pages
    except ImportError as error:
        raise WorkerFailed(f"needs what `make test` installs: {error}") from error
    if CHROMIUM is None:
        raise WorkerFailed("no Chromium: apt install chromium, or what your system has for it")
    found: dict[str, list[float]] = {TALK: [], FLOOR: [], _FIELD: []}
    with TemporaryDirectory() as home:
        before = Path.cwd()
        os.chdir(home)
        try:
            async with serving_pages(Path(home), "[SEND: hi]") as here, _one_line() as floor:
                pages = {TALK: f"{here.url}/", FLOOR: floor}
                async with browsing(here.url, floor) as (first, _):
                    browser = first.browser
                    assert browser is not None  # it is open
                    for turn in range(rounds + 1):
                        for name in sorted(pages, reverse=bool(turn % 2)):
                            context = await browser.new_context()
                            await context.add_init_script(_WRITABLE)
                            page = await context.new_page()
                            await page.goto(pages[name])
                            took = await page.evaluate(_PAINTED)
                            field = 0.0
                            if name == TALK:
                                await page.wait_for_function("() => window.writable")
                                field = await page.evaluate("() => window.writable")
                            await context.close()
                            if turn:  # the first round warms the browser
                                found[name].append(took)
                                if name == TALK:
                                    found[_FIELD].append(field)
        finally:
            os.chdir(before)
    return found


def run(quick: bool) -> list[Figure]:
    """Measure the first paint."""
    progress("opening pages in Chromium")
    found = asyncio.run(_measure(2 if quick else 15))
    medians = {name: statistics.median(values) for name, values in found.items()}
    worst = max(found[TALK])
    ratio = statistics.median(a / b for a, b in zip(found[TALK], found[FLOOR], strict=True))
    return [
        Figure(
            "First paint of the talk in a browser that has never seen it; its field takes words",
            f"first paint ≤ {GOAL_MS} ms",
            f"{medians[TALK]:.0f} ms; {medians[_FIELD]:.0f} ms",
            floors={FLOOR: f"{medians[FLOOR]:.0f} ms"},
            ratios={"first paint, Pixi / floor": f"{ratio:.1f}"},
            met=None if quick else medians[TALK] <= GOAL_MS,
            note=f"at most {worst:.0f} ms; browser and server share the machine",
        )
    ]
