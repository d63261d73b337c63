"""`[GIF: …]` in `chat`: drawn where somebody sits, told on a pipe, events as JSON."""

import json
import sys
from pathlib import Path

import pytest

from pixi.app import command_integrations
from tests.end_to_end.program import chat, on_terminal
from tests.servers.scripted_gifs import KEY, gif_services, moving
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream

REPLY = stream("[GIF: excited cat]\n[SEND: me]", finish())


def words(home: Path, server: ScriptedOpenAI, **settings: str) -> tuple[str, ...]:
    """How `chat` is started, with these settings of `[gifs]`."""
    lines = "".join(f'{key} = "{value}"\n' for key, value in settings.items())
    (home / "pixi.toml").write_text(f"[gifs]\n{lines}", encoding="utf-8")
    (home / "gifs").mkdir(exist_ok=True)
    (home / "gifs" / "excited cat.gif").write_bytes(moving())
    return ("--model", "scripted", "--base-url", server.base_url, "--user", "mo")


async def test_on_a_pipe_a_picture_is_a_line(tmp_path: Path) -> None:
    async with ScriptedOpenAI(REPLY) as server:
        ended = await chat(tmp_path, "hi\n", *words(tmp_path, server, engine="folder"))
    assert (ended.code, ended.out) == (0, "[picture: excited cat]\nme\n")


async def test_as_json_a_picture_is_an_event_and_its_command_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gif_services() as services, ScriptedOpenAI(REPLY) as server:
        given = words(tmp_path, server, engine="klipy", api_key=KEY)
        monkeypatch.setitem(command_integrations.GIF_BASES, "klipy", services.base)
        ended = await chat(tmp_path, "hi\n", "--json", *given)
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert [event["event"] for event in events] == ["turn_start", "picture", "command", "send", "turn_end"]
    picture, command = events[1:3]
    assert picture["link"].startswith("https://klipy.com/gifs/cat-")
    assert picture["service"] == "KLIPY"
    assert picture["text"].startswith("excited cat")
    assert (command["name"], command["argument"]) == ("gif", "excited cat")
    assert KEY not in ended.out + ended.err


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as POSIX has it")
async def test_who_sits_at_the_terminal_sees_it_drawn(tmp_path: Path) -> None:
    async with (
        ScriptedOpenAI(REPLY) as server,
        on_terminal(tmp_path, "chat", *words(tmp_path, server, engine="folder")) as terminal,
    ):
        await terminal.shows("mo ›")
        terminal.type("hi\r")
        await terminal.shows("╭ excited cat ")
        await terminal.shows("▀▀▀▀▀▀▀▀")
        await terminal.shows("Pixi › me")


async def test_without_a_key_the_start_is_refused_in_one_line(tmp_path: Path) -> None:
    async with ScriptedOpenAI(REPLY) as server:
        ended = await chat(tmp_path, "hi\n", *words(tmp_path, server, engine="giphy"))
    assert ended.code == 2
    assert "PIXI_GIFS__API_KEY=" in ended.err
    assert "Traceback" not in ended.err
