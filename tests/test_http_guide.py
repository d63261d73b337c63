"""docs/http.md keeps its word: its lines are run with curl against a server that runs."""

import ast
import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pixi.channels.http.access import PROBLEM_TYPES, Problem, type_of
from tests.channels.http.served import Served, served
from tests.pages import ROOT, anchors, blocks, read_page
from tests.waiting import within

GUIDE = read_page(ROOT / "docs" / "http.md")
LINES = [line for block in blocks(GUIDE, "sh") for line in block.text.splitlines() if line.startswith("curl")]
REPLY = "[REACT: 🥞]\n[SEND: hey]\n[SEND: you!]"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


async def run(here: Served, line: str, folder: Path | None = None) -> str:
    """What a line of the page prints, at this server."""
    process = await asyncio.create_subprocess_shell(
        line.replace("http://127.0.0.1:8642", here.url), stdout=asyncio.subprocess.PIPE, cwd=folder
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


def line(*words: str) -> str:
    (found,) = [each for each in LINES if all(word in each for word in words)]
    return found


def test_the_page_tells_of_each_kind_of_problem() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "pixi").rglob("*.py")]
    made = [
        call
        for source in sources
        if "Problem(" in source
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Problem"
    ]
    titles = {str(title.value) for call in made if isinstance(title := call.args[1], ast.Constant)}
    # A limit names what there was too much of; addons have titles of their own.
    assert len([call for call in made if not isinstance(call.args[1], ast.Constant)]) == 2
    marks = set(re.findall(r'<a id="([^"]+)"></a>', GUIDE))
    kinds = {type_of(title).removeprefix(PROBLEM_TYPES) for title in titles if title}
    assert marks == kinds | {"too-many-requests"}
    assert marks <= anchors(GUIDE)


async def test_every_line_does_as_the_page_says() -> None:
    async with served(REPLY, REPLY, REPLY) as here:
        told: dict[str, Any] = json.loads(await run(here, line('"hi"')))
        shown = json.loads(next(block.text for block in blocks(GUIDE, "json")))
        assert list(told) == list(shown)
        assert (told["text"], told["conversation"]) == (shown["text"], shown["conversation"])
        streamed = await run(here, line('"and you?"'))
        assert re.findall(r"^id: (\S+)$", streamed, re.MULTILINE)[0] == "2.0"
        assert '"event":"turn_end"' in streamed
        assert await run(here, line("Last-Event-ID")) != ""
        messages = json.loads(await run(here, line("/messages")))["messages"]
        assert [each["text"] for each in messages if each["role"] == "user"] == ["hi", "and you?"]
        assert json.loads(await run(here, line("/stop"))) == {"stopped": False}
        assert json.loads(await run(here, line("/reset"))) == {"done": True}
        assert len(json.loads(await run(here, line("/api/personas")))["personas"]) == 2
        once = json.loads(await run(here, line("Idempotency-Key")))
        assert json.loads(await run(here, line("Idempotency-Key")))["turn"] == once["turn"]


async def test_the_lines_about_files_do_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "recipe.txt").write_text("Flour, two eggs, half a litre of milk. Rest")
    async with served(REPLY) as here:
        told = json.loads(await run(here, line("recipe.txt"), tmp_path))
        shown = json.loads(blocks(GUIDE, "json")[1].text)
        assert list(told) == list(shown)
        assert (told["mediaType"], told["name"]) == (shown["mediaType"], shown["name"])
        await run(here, line("what is this?").replace("FILE-ID", told["id"]))
        asked = here.model.requests[0].lines[-1].text
        assert "Flour, two eggs" in asked
        assert '[file "note.txt":]\n> two eggs' in asked
        kept = await run(here, line("-s http", "files/FILE-ID").replace("FILE-ID", told["id"]))
        assert kept.startswith("Flour")
        assert json.loads(await run(here, line("DELETE").replace("FILE-ID", told["id"]))) == {"done": True}


async def test_a_page_says_things_follows_the_talk_and_goes_back() -> None:
    async with served(REPLY, "[SEND: other]", "[SEND: third]") as here:
        said = json.loads(await run(here, line("respond-async")))
        assert list(said) == ["conversation", "message", "place"]
        url = line("follow=talk").replace("http://127.0.0.1:8642", here.url).replace("=talk", "=talk&after=")
        following = await asyncio.create_subprocess_shell(
            f"exec {url.replace('&after=', '&after=' + said['place'])}", stdout=asyncio.subprocess.PIPE
        )
        assert following.stdout is not None
        told = ""
        async with within("the end of the turn"):
            while '"event":"turn_end"' not in told:
                told += (await following.stdout.readline()).decode()
        following.terminate()
        await following.wait()
        assert '"event":"said"' in told
        edited = await run(here, line("replaces").replace("MESSAGE-ID", said["message"]))
        assert json.loads(edited)["text"] == "other"
        assert json.loads(await run(here, line("/branch"))) == {"done": True}
        messages = json.loads(await run(here, line("/messages")))["messages"]
        assert [each["text"] for each in messages] == ["well?", "hey", "you!"]
        assert messages[0]["siblings"] == [1, 2]


def test_every_line_is_run() -> None:
    assert len(LINES) == 16


def test_every_status_that_is_told_stands_on_the_page() -> None:
    room = Path(ROOT / "pixi" / "channels" / "http")
    raised = {
        status
        for file in room.glob("*.py")
        for status in re.findall(r"Problem\(\s*(\d{3})", file.read_text(encoding="utf-8"))
    }
    assert issubclass(Problem, Exception)
    assert not {status for status in raised - {"500", "409", "404"} if f"`{status}`" not in GUIDE}
