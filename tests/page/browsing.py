"""A real Chromium on the pages of a real server: personas, store and engine as `pixi-persona serve` has them.

Each page is watched: scripts that fail, requests to other servers, and what the content security policy had
to stop are kept, and fail the test at its end.
"""

import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Route, async_playwright, expect

from pixi.app.service import BotService, open_service
from pixi.cli.serve import serve_http
from pixi.settings import load
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream
from tests.waiting import LIMIT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

expect.set_options(timeout=LIMIT * 1_000)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt install chromium, or what your system has for it"
)

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_CANARY = """
addEventListener("securitypolicyviolation", (event) =>
  console.error("CSP " + event.violatedDirective + " " + event.blockedURI + " " + event.sample));
"""


@dataclass
class Here:
    """A server with its pages.

    Attributes:
        url: of the server.
        link: that lets one browser into the studio.
        service: behind it.
        model: that answers; `model.requests` is what was asked.
        stack: closes what is open when the test ends.
    """

    url: str
    link: str
    service: BotService
    model: ScriptedOpenAI
    stack: AsyncExitStack


@dataclass
class Watched:
    """What went wrong in a page.

    Attributes:
        errors: of scripts, and what the content security policy stopped.
        foreign: addresses of other servers that were asked for.
    """

    own: tuple[str, ...]
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.text.startswith("CSP ") else None,
        )
        page.on("request", lambda request: self._ask(request.url))

    def _ask(self, url: str) -> None:
        if not url.startswith((*self.own, "blob:", "data:")):
            self.foreign.append(url)


@asynccontextmanager
async def serving_pages(
    home: Path,
    *replies: Any,
    choose: Callable[[Seen], Reply] | None = None,
    config: str = "",
    http: str = "",
    model_more: str = "",
    personas: dict[str, str] | None = None,
    addons: tuple[Path, ...] = (),
) -> AsyncGenerator[Here, None]:
    """Serve from a folder, with a model that follows a script.

    Args:
        home: an empty folder; the test must be in it (`monkeypatch.chdir`).
        replies: texts, or replies of `ScriptedOpenAI`.
        choose: gives the reply to a request, in their place.
        config: more of pixi.toml.
        http: more of its part `[http]`.
        model_more: more of its part `[model]`.
        personas: texts of persona files, by their names.
    """
    for name, text in (personas or {}).items():
        (home / "personas").mkdir(exist_ok=True)
        (home / "personas" / f"{name}.md").write_text(text, encoding="utf-8")
    script = [stream(each, finish()) if isinstance(each, str) else each for each in replies]
    async with ScriptedOpenAI(*script, choose=choose) as model, AsyncExitStack() as stack:
        toml = home / "pixi.toml"
        url = json.dumps(model.base_url)
        toml.write_text(
            f"{config}\n"
            f'[model]\nname = "scripted"\nbase_url = {url}\napi_key = "none"\n{model_more}\n'
            f"[http]\nport = 0\nrequests_per_minute = 100000\n{http}",
            encoding="utf-8",
        )
        settings = load(toml)
        service = await stack.enter_async_context(open_service(settings, addons=list(addons)))
        url, link = await serve_http(service, settings, stack, stack)
        yield Here(url, link, service, model, stack)


@asynccontextmanager
async def browsing(*own: str, **options: Any) -> AsyncIterator[tuple[BrowserContext, Watched]]:
    """Open a browser; what goes wrong in its pages fails at the end.

    Args:
        own: beginnings of the addresses that its pages may ask for.
        options: of the context, e.g. `locale`, `color_scheme`, `viewport`.
    """
    assert CHROMIUM is not None
    watched = Watched(own)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        context = await browser.new_context(**{"locale": "en-GB", **options})
        context.set_default_timeout(LIMIT * 1_000)
        await context.add_init_script(_CANARY)
        context.on("page", watched.watch)
        try:
            yield context, watched
        finally:
            await browser.close()
    assert watched.errors == [], watched.errors
    assert watched.foreign == [], watched.foreign


@asynccontextmanager
async def at_page(server: str, address: str, **options: Any) -> AsyncIterator[Page]:
    """Open one page of a server in a browser of its own."""
    async with browsing(server, **options) as (context, _):
        page = await context.new_page()
        await page.goto(address)
        yield page


async def intercept_once(page: Page, pattern: str, handle: Callable[[Route], Any]) -> None:
    """Give the first request for such an address to `handle`; let the others pass.

    Not by `times=1`: a request that is made while Chromium takes the interception away hangs for ever.
    """
    seen: list[Route] = []

    async def handle_first(route: Route) -> None:
        seen.append(route)
        await (handle(route) if len(seen) == 1 else route.continue_())

    await page.route(pattern, handle_first)
