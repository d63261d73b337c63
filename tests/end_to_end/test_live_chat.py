"""`chat` on a terminal, as a person sees it, against a server with a script."""

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.end_to_end.program import Terminal, on_terminal
from tests.servers.scripted_openai import Hang, ScriptedOpenAI, error, finish, stream
from tests.waiting import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as POSIX has it")

ENTER, CTRL_C, CTRL_D, ALT_ENTER, UP = "\r", "\x03", "\x04", "\x1b\r", "\x1b[A"
PASTE = "\x1b[200~{}\x1b[201~"

HELLO = stream("[NOTE: they say hi]", "[SEND: omg hi]", "[REACT: 🥞]", finish())
UNENDING = stream("[SEND: alpha ", "beta", Hang())
GAMMA = stream("[SEND: gamma]", finish())


@asynccontextmanager
async def talk(
    home: Path, server: ScriptedOpenAI, *words: str, user: str = "mo", **environ: str
) -> AsyncGenerator[Terminal, None]:
    words = ("chat", "--model", "scripted", "--base-url", server.base_url, "--user", user, *words)
    async with on_terminal(home, *words, **environ) as terminal:
        await terminal.shows(f"{user} ›")
        yield terminal


async def test_a_talk_and_the_commands_of_the_terminal(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO, HELLO, GAMMA) as server, talk(tmp_path, server) as terminal:
        greeting = " ".join(terminal.text.partition("mo ›")[0].split())
        assert greeting.startswith("Pixi")
        assert f"scripted at {server.base_url.split('/')[2]}" in greeting
        terminal.type("xylophones" + ENTER)
        await terminal.shows("mo › xylophones   🥞")
        await terminal.shows("Pixi › omg hi")
        assert "they say hi" not in terminal.text
        terminal.type("/notes" + ENTER)
        await terminal.shows("Notes are shown now.")
        terminal.type("//me waves" + ENTER)
        await terminal.shows("mo › /me waves")
        await terminal.shows("· they say hi")
        await terminal.shows("omg hi")
        terminal.type("/usage" + ENTER)
        await terminal.shows("Today: ")
        await terminal.shows("with no limit (month_dollars).")
        await terminal.shows("? stands for what no price is known of: tell the model's under [prices]")
        terminal.type("/nonsense" + ENTER)
        await terminal.shows("There is no /nonsense; /help shows what there is.")
        terminal.type("/help" + ENTER)
        await terminal.shows("/reset      forget this conversation")
        terminal.type("/reset" + ENTER)
        await terminal.shows("The conversation is forgotten.")
        terminal.type("who am i?" + ENTER)
        await terminal.shows("gamma")
        assert [b"xylophones" in request.body for request in server.requests] == [True, True, False]
        terminal.type("/persona edda" + ENTER)
        await terminal.shows("Edda · a lighthouse keeper")
        await terminal.shows("mo ›")
        terminal.type("/quit" + ENTER)
        assert await terminal.ended() == 0


@pytest.mark.nightly
async def test_what_was_said_last_is_answered_anew_and_taken_out(tmp_path: Path) -> None:
    other = stream("[REACT: 🐈]", "[SEND: gamma]", finish())  # once more is said, a line can change no longer
    async with ScriptedOpenAI(HELLO, other) as server:
        async with talk(tmp_path, server) as terminal:
            terminal.type("xylophones" + ENTER)
            await terminal.shows("omg hi")
            terminal.type("/retry" + ENTER)
            await terminal.shows("xylophones   🐈")  # so what came before is said
            terminal.type("/undo" + ENTER)
            await terminal.shows("taken out with its answer: xylophones")
            terminal.type("/quit" + ENTER)
            assert await terminal.ended() == 0
        assert b"omg hi" not in server.requests[1].body
        async with talk(tmp_path, server) as terminal:
            terminal.type("/branches" + ENTER)
            await terminal.shows("xylophones · Pixi › gamma")
            assert "Your talk goes on" not in terminal.text


async def test_a_message_is_seen_growing_and_ctrl_c_stops_it_and_not_the_program(tmp_path: Path) -> None:
    async with ScriptedOpenAI(UNENDING, GAMMA) as server, talk(tmp_path, server) as terminal:
        terminal.type("hi" + ENTER)
        await terminal.shows("alpha")
        await terminal.shows("beta")
        terminal.type(CTRL_C)
        async with within("the end of the request"):
            await server.requests[0].gone.wait()
        await terminal.shows("alpha beta … (stopped)")
        assert "Ctrl-C stops" in terminal.text
        terminal.type("again" + ENTER)
        await terminal.shows("Pixi › gamma")


async def test_ctrl_c_at_an_empty_line_says_how_to_leave_and_then_leaves(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server, talk(tmp_path, server) as terminal:
        terminal.type("half a mess")
        await terminal.shows("half a mess")
        terminal.type(CTRL_C)
        terminal.type(CTRL_C)
        await terminal.shows("Ctrl-C again, or Ctrl-D, leaves.")
        terminal.type(CTRL_C)
        assert await terminal.ended() == 0
        assert server.requests == []


@pytest.mark.nightly
async def test_one_may_type_while_a_reply_is_written(tmp_path: Path) -> None:
    slow = stream("[SEND: alpha]", "[SEND: be", Hang())
    async with ScriptedOpenAI(slow, GAMMA) as server, talk(tmp_path, server) as terminal:
        terminal.type("hi" + ENTER)
        await terminal.shows("alpha")
        await terminal.shows("be")
        terminal.type("wait" + ENTER)
        await terminal.shows("mo › wait")
        await terminal.shows("gamma")


@pytest.mark.nightly
async def test_lines_can_be_broken_pasted_and_brought_back(tmp_path: Path) -> None:
    async with ScriptedOpenAI(HELLO) as server, talk(tmp_path, server) as terminal:
        terminal.type("one" + ALT_ENTER + "two" + PASTE.format(" three\nfour") + ENTER)
        await terminal.shows("omg hi")
        assert b"one\\n> two three\\n> four" in server.requests[0].body
        terminal.type("/quit" + ENTER)
        assert await terminal.ended() == 0
    async with ScriptedOpenAI(HELLO) as server, talk(tmp_path, server) as terminal:
        await terminal.shows("one two three four")  # where the talk goes on
        await terminal.shows_on(UP, "four")
        terminal.type(ENTER)
        await terminal.shows("omg hi")
        assert b"one\\n> two three\\n> four" in server.requests[0].body


@pytest.mark.nightly
async def test_a_model_that_fails_is_told_and_the_talk_goes_on(tmp_path: Path) -> None:
    wrong_key = error(401, "Incorrect API key provided", code="invalid_api_key")
    async with ScriptedOpenAI(wrong_key, GAMMA) as server, talk(tmp_path, server) as terminal:
        terminal.type("hi" + ENTER)
        await terminal.shows("key")
        terminal.type("again" + ENTER)
        await terminal.shows("gamma")


async def test_what_a_model_writes_does_not_drive_the_terminal_and_without_colour_there_is_none(
    tmp_path: Path,
) -> None:
    evil = stream("[SEND: a\x1b(0b\x07c\x9b2Jd\x1bce]", finish())
    async with ScriptedOpenAI(evil) as server, talk(tmp_path, server, NO_COLOR="1") as terminal:
        terminal.type("hi" + ENTER)
        await terminal.shows("Pixi › a(0bc2Jdce")
        for sequence in ("\x1b(0", "\x07", "\x9b", "\x1bc"):
            assert sequence not in terminal.raw
        assert not any(
            f"\x1b[{reset}{colour}m" in terminal.raw for reset in ("", "0;") for colour in (31, 32, 35)
        )


@pytest.mark.nightly
async def test_a_terminal_that_can_do_nothing_gets_plain_lines(tmp_path: Path) -> None:
    words = ("chat", "--model", "scripted")
    async with (
        ScriptedOpenAI(HELLO) as server,
        on_terminal(tmp_path, *words, "--base-url", server.base_url, TERM="dumb") as terminal,
    ):
        await terminal.shows("> ")
        terminal.type("hi\n")
        await terminal.shows("omg hi")
        await terminal.shows("> ")
        assert "\x1b" not in terminal.raw
        terminal.type(CTRL_D)
        assert await terminal.ended() == 0


@pytest.mark.nightly
async def test_a_closed_window_gives_the_terminal_back(tmp_path: Path) -> None:
    async with ScriptedOpenAI(UNENDING) as server, talk(tmp_path, server) as terminal:
        terminal.type("hi" + ENTER)
        await terminal.shows("beta")
        terminal.process.send_signal(signal.SIGHUP)
        assert await terminal.ended() == 128 + signal.SIGHUP
        assert "\x1b[?2004l" in terminal.raw  # bracketed paste is switched off
        assert "Traceback" not in terminal.text


@pytest.mark.nightly
async def test_what_cannot_be_opened_ends_it_with_its_reason(tmp_path: Path) -> None:
    words = ("chat", "--model", str(tmp_path / "gone.gguf"))
    async with on_terminal(tmp_path, *words) as terminal:
        await terminal.shows("pixi-persona: ")
        await terminal.shows("gone.gguf")
        assert await terminal.ended() == 2
        assert "Traceback" not in terminal.text


async def test_without_a_model_it_is_asked_which_and_ctrl_c_leaves_all_as_it_was(tmp_path: Path) -> None:
    async with on_terminal(tmp_path, "chat") as terminal:
        await terminal.shows("Which model answers?")
        await terminal.shows("The tiny included one")
        terminal.type(CTRL_C)
        assert await terminal.ended() == 130
    assert not (tmp_path / "pixi.toml").exists()
    assert not (tmp_path / "pixi.db").exists()
