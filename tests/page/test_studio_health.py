"""The screen Health in a browser: findings and lines of the log as they come, consent to what was seen."""

import json
import logging
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from pixi.app.cluster.state import RunningProcess
from pixi.app.doctor.servers import Finding
from pixi.app.studio import health
from pixi.app.studio.health import ClusterForm, QueueForm
from pixi.mcp.offers import Ready
from tests.mcp.scene import ROGUE
from tests.page.browsing import Here, at_page, needs_chromium, serving_pages
from tests.waiting import until

pytestmark = [needs_chromium, pytest.mark.nightly]

PAYLOAD = '<img src=x onerror="document.title=1">'


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def check_tea(settings: object) -> Any:
        yield Finding(True, "tea", "two pots")
        yield Finding(False, "cups", f"broken {PAYLOAD}")

    monkeypatch.setattr(health, "checks", lambda: (check_tea,))


@asynccontextmanager
async def screen(folder: Path, config: str = "") -> AsyncGenerator[tuple[Page, Here], None]:
    async with serving_pages(folder, config=config) as here, at_page(here.url, here.link) as page:
        await page.get_by_role("link", name="Health").click()
        yield page, here


async def test_findings_and_lines_come_by_themselves(tmp_path: Path) -> None:
    log = logging.getLogger("pixi.tests")
    async with screen(tmp_path) as (page, _):
        await expect(page.get_by_text("two pots")).to_be_visible()
        await expect(page.get_by_text(f"broken {PAYLOAD}")).to_be_visible()
        await expect(page.get_by_text("1 to mend")).to_be_visible()
        await expect(page.get_by_text("Open turns")).to_be_visible()
        lines = page.locator(".log")
        log.warning("a pot fell %s", PAYLOAD)
        await expect(lines).to_contain_text(f"a pot fell {PAYLOAD}")
        log.error("and a cup")
        await expect(lines).to_contain_text("and a cup")
        await page.get_by_label("Least level").select_option("error")
        await expect(lines).not_to_contain_text("a pot fell")
        await page.get_by_label("Least level").select_option("info")
        await page.get_by_role("searchbox").fill("POT")
        await expect(lines).not_to_contain_text("and a cup")
        await page.get_by_role("button", name="Check again").click()
        await expect(page.get_by_text("two pots")).to_have_count(1)
        assert await page.title() == "Health · Pixi"


async def test_all_processes_are_shown_with_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(url: str) -> ClusterForm:
        gateway = RunningProcess("gateway", "1.2.3", "0-3/16", time.time() - 7_200, 2.0, 0)
        worker = RunningProcess("worker", "1.2.2", "", time.time() - 60, 40.0, 12)
        return ClusterForm([gateway, worker], QueueForm(2, 8.4, 1))

    monkeypatch.setattr(health, "is_postgres", lambda url: True)
    monkeypatch.setattr(health, "_cluster", asked)
    async with screen(tmp_path) as (page, _):
        shown = page.get_by_role("region", name="Processes")
        await expect(shown.get_by_role("row", name="gateway 0-3/16 1.2.3 2 hours ago")).to_be_visible()
        await expect(shown.get_by_role("row", name="worker 1.2.2")).to_contain_text("12")
        await expect(shown.locator(".late")).to_have_text(re.compile("seconds ago"))
        await expect(page.get_by_text("2 talks wait for a worker, the oldest for 8 sec")).to_be_visible()
        await expect(page.get_by_text("The worker of 1 talk has died.")).to_be_visible()


async def test_consent_is_given_to_what_was_seen(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("Say it again.\n")

    def config(*more: str) -> str:
        args = json.dumps(["-I", "-S", str(ROGUE), "described", str(words), *more])
        return f'[mcp.baker]\ncommand = "{sys.executable}"\nargs = {args}\n'

    async with serving_pages(tmp_path, config=config()) as here:
        await until(lambda: isinstance(here.service.integrations.mcp_servers["baker"].state, Ready))
    async with screen(tmp_path, config("again")) as (page, here):
        await expect(page.get_by_text("waits for consent").first).to_be_visible()
        await page.get_by_role("button", name="See what changed").click()
        await expect(page.locator(".diff")).to_contain_text("words again")
        await page.get_by_role("button", name="Approve just this").click()
        await until(lambda: isinstance(here.service.integrations.mcp_servers["baker"].state, Ready))
        await expect(page.locator(".badge", has_text="ready")).to_be_visible()
