"""Tools in `chat`: a card as people see it and as programs read it, and a person's yes at the terminal."""

import json
import sys
from pathlib import Path

import pytest

from tests.end_to_end.program import chat, on_terminal
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, call, finish, stream, usage

ENTER, CTRL_C = "\r", "\x03"

TOOLS = '''
from pathlib import Path

from pixi.core.message import Card, Field


def setup(addon):
    @addon.tool
    async def recipe(context, name: str) -> Card:
        """Look a recipe up."""
        return Card(name, "Thin and hot.\\x1b[2J", (Field("Time", "20 minutes"),), None, "https://example.org/l")

    @addon.tool(writes=True, approval=True)
    async def send_email(context, to: str) -> str:
        """Send an email."""
        Path("outbox").write_text(to)
        return "It is sent."
'''

PERSONA = """\
---
name: Pixi
pace: off
tools: [recipe, send_email]
---

You are Pixi.
"""


def calls(tool: str, **arguments: str) -> Reply:
    return stream(
        call(tool, json.dumps(arguments), index=0, call_id="call_1"), finish("tool_calls"), usage(10, 5)
    )


RECIPE = calls("recipe", name="Lemon sugar")
EMAIL = calls("send_email", to="ana@example.org")
DONE = stream("[SEND: all done]", finish())


def words(home: Path, server: ScriptedOpenAI) -> tuple[str, ...]:
    """How `chat` is started with these tools."""
    (home / "tools.py").write_text(TOOLS, encoding="utf-8")
    (home / "baker.md").write_text(PERSONA, encoding="utf-8")
    model = ("--model", "scripted", "--base-url", server.base_url, "--user", "mo")
    return (*model, "--persona", "baker.md", "--addon", "tools.py")


async def test_a_card_is_lines_on_a_pipe(tmp_path: Path) -> None:
    async with ScriptedOpenAI(RECIPE, DONE) as server:
        ended = await chat(tmp_path, "how?\n", *words(tmp_path, server))
    assert (ended.code, ended.out.split("\n")) == (
        0,
        [
            "Lemon sugar",
            "Thin and hot.[2J",
            "Time: 20 minutes",
            "https://example.org/l",
            "all done",
            "",
        ],
    )


async def test_a_card_is_an_event_as_json(tmp_path: Path) -> None:
    async with ScriptedOpenAI(RECIPE, DONE) as server:
        ended = await chat(tmp_path, "how?\n", "--json", *words(tmp_path, server))
    events = [json.loads(line) for line in ended.out.splitlines()]
    (card,) = [event for event in events if event["event"] == "card"]
    shown = card["fallback"]
    assert (shown["title"], shown["fields"]) == ("Lemon sugar", [{"name": "Time", "value": "20 minutes"}])
    assert [event["event"] for event in events][-2:] == ["send", "turn_end"]


async def test_through_a_pipe_nobody_says_yes(tmp_path: Path) -> None:
    async with ScriptedOpenAI(EMAIL, DONE) as server:
        ended = await chat(tmp_path, "invite Ana\n", *words(tmp_path, server))
    assert not (tmp_path / "outbox").exists()
    assert ended.out == "all done\n"
    assert "send_email wants somebody's yes" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as POSIX has it")
@pytest.mark.parametrize(
    ("keys", "told"),
    [("y" + ENTER, "allowed"), pytest.param(CTRL_C, "not allowed", marks=pytest.mark.nightly)],
)
async def test_who_sits_at_the_terminal_is_asked_in_place(tmp_path: Path, keys: str, told: str) -> None:
    async with (
        ScriptedOpenAI(EMAIL, DONE) as server,
        on_terminal(tmp_path, "chat", *words(tmp_path, server)) as terminal,
    ):
        await terminal.shows("mo ›")
        terminal.type("invite Ana" + ENTER)
        await terminal.shows("? Pixi wants to use send_email: Send an email.")
        await terminal.shows('to: "ana@example.org"')
        await terminal.shows("Allow it? (y/n)")
        # The last figures of 119 seconds; what is typed before one could read the question is no answer.
        await terminal.shows("19")
        terminal.type(keys)
        await terminal.shows(f"send_email: {told}")
        await terminal.shows("Pixi › all done")
        assert (tmp_path / "outbox").exists() == (told == "allowed")


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as POSIX has it")
async def test_a_card_stands_in_a_frame(tmp_path: Path) -> None:
    async with (
        ScriptedOpenAI(RECIPE, DONE) as server,
        on_terminal(tmp_path, "chat", *words(tmp_path, server)) as terminal,
    ):
        await terminal.shows("mo ›")
        terminal.type("how?" + ENTER)
        await terminal.shows("╭ Lemon sugar ")
        await terminal.shows("│ Thin and hot.[2J")
        await terminal.shows("Time  20 minutes")
        await terminal.shows("Pixi › all done")
        assert "hot.\x1b[2J" not in terminal.raw
