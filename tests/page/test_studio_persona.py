"""The screens Persona and Databases in a browser: what is typed is checked, tried and saved."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from pixi.app.reload import reloading
from pixi.settings import load
from tests.page.browsing import Here, at_page, needs_chromium, serving_pages
from tests.servers.scripted_openai import finish, stream, usage
from tests.waiting import until

pytestmark = [needs_chromium, pytest.mark.nightly]

TEXT = "---\nname: Wren\nabout: pushes a trolley\n---\n\nYou are Wren.\n"
PAYLOAD = '<img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def desk(
    folder: Path, *replies: Any, text: str = TEXT, **options: Any
) -> AsyncGenerator[tuple[Page, Here, Path], None]:
    """The studio at the list of personas, watched for changes on the disk."""
    async with (
        serving_pages(folder, *replies, personas={"wren": text}) as here,
        reloading(here.service, lambda: load(folder / "pixi.toml"), folder),
        at_page(here.url, here.link, **options) as page,
    ):
        await page.get_by_role("link", name="Personas").click()
        yield page, here, folder / "personas" / "wren.md"


def committed(folder: Path, subject: str) -> None:
    """Make a commit of the personas, in a work tree of git."""
    for words in (("init",), ("add", "personas"), ("commit", "-m", subject)):
        names = ("-c", "user.name=Mo", "-c", "user.email=mo@example.org")
        subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


async def test_a_text_is_checked_while_it_is_written_and_live_once_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as (page, here, file):
        await page.get_by_role("link", name="Wren").click()
        await expect(page.get_by_text("Nothing is wrong")).to_be_visible()
        editor = page.get_by_label("Text of wren")
        await editor.fill(TEXT.replace("about", "abuot"))
        await expect(page.get_by_text("not saved")).to_be_visible()
        problem = page.get_by_role("button", name="do you mean `about`?")
        await expect(problem).to_be_visible()
        await problem.click()
        chosen = "e => e.value.slice(e.selectionStart, e.selectionEnd)"
        assert await editor.evaluate(chosen) == "abuot: pushes a trolley"
        await editor.fill(TEXT.replace("trolley", "cart"))
        await expect(page.get_by_text("Nothing is wrong")).to_be_visible()
        assert file.read_text() == TEXT
        await editor.press("Control+s")
        await expect(page.get_by_text("Saved, and live")).to_be_visible()
        assert file.read_text() == TEXT.replace("trolley", "cart")
        assert here.service.personas["wren"].about == "pushes a cart"
        await editor.fill(TEXT.replace("about", "abuot"))
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_text("not live")).to_be_visible()
        await expect(page.get_by_role("alert")).to_contain_text("unknown key `abuot`")
        assert here.service.personas["wren"].about == "pushes a cart"


async def test_what_is_not_saved_answers_beside(tmp_path: Path) -> None:
    reply = stream("[NOTE: a stranger]\n[SEND: Hi from the draft.]\n[REACT: 🫖]", finish(), usage(900, 12))
    async with desk(tmp_path, reply) as (page, here, file):
        await page.get_by_role("link", name="Wren").click()
        await page.get_by_label("Text of wren").fill(TEXT + "You hum.\n")
        await page.get_by_role("tab", name="Test talk").click()
        await page.get_by_label("Say something to Wren").fill("hello")
        await page.keyboard.press("Enter")
        said = page.get_by_role("log")
        await expect(said).to_contain_text("Hi from the draft.")
        await expect(said).to_contain_text("a stranger")
        await expect(said).to_contain_text("900 tokens read, 12 written")
        assert "You hum." in str(here.model.requests[-1].json()["messages"][0]["content"])
        assert file.read_text() == TEXT
        await page.get_by_role("button", name="Begin anew").click()
        await expect(said).not_to_contain_text("Hi from the draft.")


async def test_a_change_on_the_disk_is_shown_and_not_overwritten(tmp_path: Path) -> None:
    async with desk(tmp_path) as (page, _, file):
        await page.get_by_role("link", name="Wren").click()
        editor = page.get_by_label("Text of wren")
        await editor.fill(TEXT.replace("trolley", "cart"))
        file.write_text(TEXT.replace("trolley", "wagon"))
        await editor.press("Control+s")
        shown = page.get_by_role("alert")
        await expect(shown).to_contain_text("- about: pushes a wagon")
        await expect(shown).to_contain_text("+ about: pushes a cart")
        await expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        assert "wagon" in file.read_text()
        await page.get_by_role("button", name="Keep mine").click()
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_text("Saved, and live")).to_be_visible()
        assert "cart" in file.read_text()


async def test_what_was_not_saved_outlives_a_walk_to_another_screen(tmp_path: Path) -> None:
    async with desk(tmp_path) as (page, _, _):
        await page.get_by_role("link", name="Wren").click()
        await page.get_by_label("Text of wren").fill(TEXT + "More.\n")
        await page.get_by_role("link", name="Usage").click()
        await page.get_by_role("link", name="Personas").click()
        await expect(page.get_by_text("not saved")).to_be_visible()
        await page.get_by_role("link", name="Wren").click()
        await expect(page.get_by_label("Text of wren")).to_have_value(TEXT + "More.\n")


async def test_one_that_came_with_pixi_is_copied_and_a_new_one_made(tmp_path: Path) -> None:
    async with desk(tmp_path) as (page, _, file):
        await page.get_by_role("link", name="Edda").click()
        await expect(page.get_by_label("Text of edda")).not_to_be_editable()
        await page.get_by_role("button", name="Copy to my personas").click()
        await expect(page.get_by_label("Text of edda")).to_be_editable()
        assert file.with_name("edda.md").is_file()
        await page.locator("main").get_by_role("link", name="Personas").click()
        await page.get_by_role("button", name="New persona").click()
        name = page.get_by_label("Name of the file")
        await name.fill("../owl")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("alert")).to_contain_text("letters, digits and hyphens")
        await name.fill("night-owl")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("heading", name="Night Owl")).to_be_visible()
        assert file.with_name("night-owl.md").is_file()


async def test_the_history_of_a_file_is_read(tmp_path: Path) -> None:
    async with desk(tmp_path) as (page, _, file):
        for number, text in enumerate((TEXT, TEXT.replace("trolley", "cart"))):
            file.write_text(text)
            committed(tmp_path, f"Number {number}")
        await page.get_by_role("link", name="Wren").click()
        await page.get_by_role("tab", name="History").click()
        await page.get_by_role("button", name="Number 1").click()
        await expect(page.locator(".diff .new").last).to_have_text("+about: pushes a cart\n")


async def test_nothing_in_a_file_runs(tmp_path: Path) -> None:
    text = f"---\nname: {PAYLOAD!r}\nabout: {PAYLOAD!r}\ntools: [{PAYLOAD!r}]\n---\n{PAYLOAD}\n\n{{{{x}}}}\n"
    async with desk(tmp_path, f"[SEND: {PAYLOAD}]", text=text.replace("tools", "likes")) as (page, _, _):
        await page.locator(".entry").first.click()
        await page.get_by_label("Text of wren").fill(text)
        await expect(page.get_by_text("no tool")).to_be_visible()
        await page.get_by_role("tab", name="Prompt").click()
        await page.locator("summary").first.click()
        await page.get_by_label("Text of wren").fill(text.replace("tools", "likes"))
        await page.get_by_role("tab", name="Test talk").click()
        await page.locator(".composer textarea").fill(PAYLOAD)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("log").get_by_text("tokens read")).to_be_visible()
        assert await page.title() == "Personas · Pixi"


async def test_a_telephone_shows_one_part_at_a_time(tmp_path: Path) -> None:
    size = {"width": 360, "height": 740}
    async with (
        serving_pages(tmp_path, personas={"wren": TEXT}) as here,
        at_page(here.url, here.link, viewport=size) as page,
    ):
        await page.get_by_role("button", name="Menu").click()
        await page.get_by_role("link", name="Personas").click()
        await page.get_by_role("link", name="Wren").click()
        editor = page.get_by_label("Text of wren")
        await expect(editor).to_be_visible()
        await editor.fill(TEXT.replace("about", "abuot"))
        await page.get_by_role("tab", name="Problems").click()
        await expect(editor).to_be_hidden()
        await page.get_by_role("button", name="do you mean `about`?").click()
        await expect(editor).to_be_focused()
        wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wider)


async def test_a_database_is_searched_as_a_model_does(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "trolley"
    folder.mkdir(parents=True)
    (folder / "teas.md").write_text(f"# Ginger tea\n\nGinger steeps for seven minutes. {PAYLOAD}\n")
    (folder / "old.pdf").write_bytes(b"%PDF-1.4 nothing")
    async with desk(tmp_path) as (page, here, _):
        await page.get_by_role("link", name="Databases").click()
        await page.get_by_role("link", name="trolley").click()
        await expect(page.get_by_text("1 file set aside").first).to_be_visible()
        await until(lambda: here.service.library.databases["trolley"].state.finished)
        await page.get_by_role("searchbox").fill("gingr")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_text("“gingr” was read as “ginger”.")).to_be_visible()
        await expect(page.locator(".hits")).to_contain_text("seven minutes")
        assert await page.title() == "Databases · Pixi"
