"""docs/clients.md keeps its word: its blocks are run as they stand, by the clients that they are for.

Each talks to a server with personas, store and engine as `pixi-persona serve` has them.
"""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from playwright.async_api import Page, expect

from pixi.channels.http.access import digest_of
from pixi.store.kept import ApiKey
from tests.clients.client import HERE as CLIENTS
from tests.clients.client import with_node
from tests.page.browsing import Here, browsing, needs_chromium, serving_pages
from tests.pages import ROOT, blocks, read_page, section
from tests.waiting import within

GUIDE = read_page(ROOT / "docs" / "clients.md")
SERVER = "http://127.0.0.1:8642"
SECRET = "pixi_sk_" + "c" * 40
PUBLIC = "pixi_pk_" + "c" * 40
REPLY = "[NOTE: early]\n[REACT: 🥞]\n[SEND: Good morning.]\n[SEND: Tea?]"
SPOKEN = "Good morning.\n\nTea?"


def block(heading: str, kind: str) -> str:
    (found,) = blocks(section(GUIDE, heading), kind)
    return found.text


@asynccontextmanager
async def serving(home: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> AsyncGenerator[Here, None]:
    """A server with the persona of the page."""
    monkeypatch.chdir(home)
    mathilde = "---\nname: Mathilde\n---\nYou are Mathilde.\n"
    async with serving_pages(home, REPLY, personas={"mathilde": mathilde}, **more) as here:
        yield here


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Here, None]:
    async with serving(tmp_path, monkeypatch) as served:
        yield served


async def said_in(here: Here, person: str = "web:local") -> list[str]:
    """The names of somebody's talks with Mathilde."""
    return [talk.name for talk in await here.service.store.talks(person, "mathilde", 10)]


async def ask(here: Here, text: str, headers: dict[str, str]) -> str:
    """Ask as a chat program does, with headers of its own; gives the answer."""
    body = {"model": "mathilde", "messages": [{"role": "user", "content": text}]}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{here.url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        content: str = (await answer.json())["choices"][0]["message"]["content"]
        return content


# Chat programs, which are told by their settings.


async def test_the_headers_of_open_webui_name_the_talk_the_user_and_the_task(here: Here) -> None:
    await here.service.store.add_key(ApiKey("webui", digest_of(SECRET), ("chat", "chat:on-behalf"), ()))
    templates: dict[str, str] = json.loads(block("Open WebUI", "json"))

    def filled(**values: str) -> dict[str, str]:
        told = {name: values.get(value.strip("{}"), "") for name, value in templates.items()}
        return {"Authorization": f"Bearer {SECRET}", **told}

    ann = {"CHAT_ID": "c-1", "USER_ID": "u-1", "USER_NAME": "Ann"}
    assert await ask(here, "hi", filled(**ann)) == SPOKEN
    assert await said_in(here, "web:webui:u-1") == ["c-1"]
    assert "Ann" in str(await here.service.store.export("web:webui:u-1"))
    assert await ask(here, "hi", filled(**ann, TASK="title_generation")) != SPOKEN
    assert len(here.model.requests) == 1


async def test_the_settings_of_librechat_reach_the_persona_and_name_the_talk(here: Here) -> None:
    (endpoint,) = yaml.safe_load(block("LibreChat", "yaml"))["endpoints"]["custom"]
    assert endpoint["baseURL"] == f"{SERVER}/v1"
    async with aiohttp.ClientSession() as http, http.get(f"{here.url}/v1/models") as answer:
        assert set(endpoint["models"]["default"]) <= {each["id"] for each in (await answer.json())["data"]}
    (header,) = endpoint["headers"]
    assert await ask(here, "hi", {header: "c-2"}) == SPOKEN
    assert await said_in(here) == ["c-2"]


async def test_every_address_on_the_page_is_served(here: Here) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{here.url}/openapi.json") as answer:
        paths = (await answer.json())["paths"]
    named = set(re.findall(rf"{SERVER}(/[\w/]*)", GUIDE)) | set(re.findall(r"`(?:GET|POST) (/\S+)`", GUIDE))
    shown = {re.sub(r"\{\w+\}", "breakfast", path) for path in paths}
    assert named - shown == {"/v1"}


# Clients in Python.


@pytest.mark.nightly
async def test_the_openai_sdk_prints_the_answer_and_names_the_talk(here: Here) -> None:
    printed: list[str] = []
    code = block("The openai SDK", "python").replace(SERVER, here.url)
    await asyncio.to_thread(exec, code, {"print": printed.append})
    assert printed == [SPOKEN]
    assert await said_in(here) == ["breakfast"]


@pytest.mark.nightly
async def test_llm_lists_personas_and_talks_to_them(here: Here, tmp_path: Path) -> None:
    pytest.importorskip("llm")
    environment = {
        **os.environ,
        "LLM_LOAD_PLUGINS": "",
        "LLM_USER_PATH": str(tmp_path),
        "OPENAI_API_KEY": "none",
    }
    models = block("llm", "yaml").replace(SERVER, here.url)
    (tmp_path / "extra-openai-models.yaml").write_text(models, encoding="utf-8")
    listing, once, chat = block("llm", "").replace(SERVER, here.url).splitlines()

    async def run(line: str, typed: str = "") -> str:
        command = f"{shlex.quote(sys.executable)} -m {line}"
        return await output_of(command, typed, env=environment)

    assert "mathilde" in await run(listing)
    assert SPOKEN in await run(once)
    assert SPOKEN in await run(chat, "Good morning\nquit\n")
    assert SPOKEN in await run('llm -m mathilde "Good morning"')


async def output_of(command: str, typed: str, **more: Any) -> str:
    """What a line of a shell prints."""
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, **more
    )
    async with within(f"the end of {command}"):
        out, _ = await process.communicate(typed.encode())
    assert process.returncode == 0
    return out.decode()


# Clients in JavaScript.


@with_node
@pytest.mark.nightly
@pytest.mark.parametrize("heading", ["The openai SDK", "AI SDK"])
async def test_a_program_in_javascript_prints_the_answer(here: Here, heading: str) -> None:
    code = block(heading, "js").replace(SERVER, here.url)
    assert await output_of("node --input-type=module -", code, cwd=CLIENTS) == SPOKEN


PRINTED = """
mathilde.addMessage({ id: "1", role: "user", content: "Good morning" });
await mathilde.runAgent();
process.stdout.write(mathilde.messages.slice(1).map((each) => each.content).join("\\n\\n"));
"""


@with_node
@pytest.mark.nightly
async def test_the_agent_for_copilotkit_is_the_persona(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIXI_KEY", "none")
    code = block("CopilotKit, and other clients of AG-UI", "ts").replace(SERVER, here.url)
    agent = re.sub("^import .*@copilotkit.*$", "", code.partition("const runtime")[0], flags=re.MULTILINE)
    assert await output_of("node --input-type=module -", agent + PRINTED, cwd=CLIENTS) == SPOKEN


THREAD = """
import { createRoot } from "react-dom/client";
import { ComposerPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";

const data = { Fallback: ({ name }) => <i>{name}</i> };
const Message = () => <p><MessagePrimitive.Parts components={{ data }} /></p>;
createRoot(document.getElementById("root")).render(
  <Talk>
    <ThreadPrimitive.Messages components={{ Message }} />
    <ComposerPrimitive.Root><ComposerPrimitive.Input /></ComposerPrimitive.Root>
  </Talk>,
);
"""
"""A page round the block of assistant-ui, which gives it the talk."""

ALONE = """
import { createRoot } from "react-dom/client";
createRoot(document.getElementById("root")).render(<Talk />);
"""


async def bundled(code: str) -> str:
    """A page in JavaScript as one script."""
    options = "--bundle --jsx=automatic --loader=jsx --log-level=error"
    command = f"node_modules/.bin/esbuild {options} '--define:process.env.NODE_ENV=\"production\"'"
    script = (await output_of(command, code, cwd=CLIENTS)).replace("</script", "<\\/script")
    return f'<div id="root"></div><script>{script}</script>'


@asynccontextmanager
async def opened(
    home: Path, monkeypatch: pytest.MonkeyPatch, body: str, *, fonts: str = ""
) -> AsyncGenerator[tuple[Page, Here], None]:
    """A page of another origin than the server's, in a browser.

    Args:
        body: of the page.
        fonts: address from which a client fetches fonts; it gets none.
    """
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    text = ""

    async def page_of_app(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html")

    app.router.add_get("/", page_of_app)
    app.router.add_static("/deep-chat", CLIENTS / "node_modules" / "deep-chat" / "dist")
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        allowed = f"allowed_origins = [{json.dumps(origin)}]"
        async with (
            serving(home, monkeypatch, http=allowed) as here,
            browsing(here.url, origin, *filter(None, [fonts])) as (context, _),
        ):
            key = ApiKey("page", digest_of(PUBLIC), (), (), (origin,), signs="5a" * 32)
            assert await here.service.store.add_key(key)
            text = f'<!doctype html><meta charset="utf-8"><title>A page</title>{body}'.replace(
                SERVER, here.url
            )
            text = text.replace("https://chat.example.org", here.url).replace("pixi_pk_…", PUBLIC)
            page = await context.new_page()
            if fonts:
                await page.route(f"{fonts}**", lambda route: route.abort())
            await page.goto(origin)
            yield page, here
    finally:
        await runner.cleanup()


async def talk_on(page: Page, here: Here) -> None:
    """Say something twice, in one talk."""
    field = page.get_by_role("textbox")
    for count, text in enumerate(["Good morning", "And again"], 1):
        await field.fill(text)
        await field.press("Enter")
        await expect(page.get_by_text("Tea?")).to_have_count(count)
    assert len(await said_in(here)) == 1


@with_node
@needs_chromium
@pytest.mark.nightly
@pytest.mark.parametrize(("heading", "around"), [("AI SDK", ALONE), ("assistant-ui", THREAD)])
async def test_a_page_with_react_talks_to_the_persona(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heading: str, around: str
) -> None:
    body = await bundled(block(heading, "jsx") + around)
    async with opened(tmp_path, monkeypatch, body) as (page, here):
        await talk_on(page, here)


@with_node
@needs_chromium
@pytest.mark.nightly
async def test_deep_chat_talks_to_the_persona(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = block("deep-chat", "html")
    async with opened(tmp_path, monkeypatch, body, fonts="https://fonts.googleapis.com/") as (page, here):
        await talk_on(page, here)


@needs_chromium
@pytest.mark.nightly
async def test_a_page_of_ones_own_lets_visitors_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path, monkeypatch, block("A page of your own", "html")) as (page, _):
        await page.get_by_role("textbox").fill("Good morning")
        await page.get_by_role("textbox").press("Enter")
        await expect(page.locator("li")).to_have_text(["Good morning", "Good morning.", "Tea?"])
