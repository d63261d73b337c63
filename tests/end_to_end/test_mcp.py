"""`chat` with MCP servers of the settings, as somebody runs it of an evening."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from pixi.app import open_engine
from pixi.core.events import ToolAnswered
from pixi.core.persona import Persona
from pixi.settings import load
from pixi.testing import RecordingChannel
from tests.end_to_end.program import chat, piped
from tests.mcp.scene import ROGUE, alive, eventually, installed, started
from tests.servers.scripted_openai import ScriptedOpenAI, call, finish, stream

ASKS = stream(
    call("time_get_current_time", '{"timezone": "Europe/Oslo"}', index=0, call_id="1"), finish("tool_calls")
)
DONE = stream("[SEND: It is late.]", finish())


def settings_of(home: Path, server: ScriptedOpenAI, more: str) -> None:
    text = f'[model]\nname = "scripted"\nbase_url = "{server.base_url}"\n[store]\nurl = "sqlite:///{home}/pixi.db"\n{more}'
    (home / "pixi.toml").write_text(text, encoding="utf-8")


async def test_the_time_of_a_real_server_reaches_the_model(tmp_path: Path) -> None:
    command = installed("mcp-server-time").command
    async with ScriptedOpenAI(ASKS, DONE) as server:
        settings_of(tmp_path, server, f'[mcp.time]\ncommand = "{command}"\n')
        settings = load(environ={}, folder=tmp_path)
        lines: list[str] = []
        channel = RecordingChannel()
        async with open_engine(settings, Persona("Pixi", "You are Pixi."), report=lines.append) as engine:
            await eventually(lambda: engine.tools.get("time_get_current_time") is not None)
            await engine.receive(channel.message("what time is it?"), channel)
            await engine.settled()
        asked, answered = (request.json() for request in server.requests)
    (event,) = [event for event in channel.events if isinstance(event, ToolAnswered)]
    assert event.ok
    assert json.loads(event.result)["timezone"] == "Europe/Oslo"
    assert "time_get_current_time" in [tool["function"]["name"] for tool in asked["tools"]]
    assert answered["messages"][-1]["role"] == "tool"
    assert channel.sent == ["It is late."]
    assert lines == [f"MCP server time is used for the first time: {shlex.quote(command)}"]


async def test_in_a_pipe_with_one_that_is_dead_beside(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    args = json.dumps(["-I", "-S", str(ROGUE), "deaf", str(notes)])
    async with ScriptedOpenAI(DONE) as server:
        settings_of(
            tmp_path,
            server,
            f'[mcp.deaf]\ncommand = "{sys.executable}"\nargs = {args}\n'
            '[mcp.gone]\ncommand = "nonesuch-server"\n',
        )
        ended = await chat(tmp_path, "hi\n")
    assert (ended.code, ended.out) == (0, "It is late.\n")
    assert "MCP server gone: there is no program 'nonesuch-server' here; install it or mend" in ended.err
    assert "Traceback" not in ended.err
    await eventually(lambda: not any(map(alive, started(notes))))


@pytest.mark.nightly
async def test_nothing_is_left_when_the_program_is_ended(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    args = json.dumps(["-I", "-S", str(ROGUE), "with-child", str(notes)])
    async with ScriptedOpenAI(DONE) as server:
        settings_of(tmp_path, server, f'[mcp.baker]\ncommand = "{sys.executable}"\nargs = {args}\n')
        async with piped(tmp_path, "chat") as program:
            await program.say("hi")
            assert await program.hear() == "It is late."
            await eventually(lambda: len(started(notes, "child")) == 1)
            program.process.terminate()
            assert await program.process.wait() != 0
    processes = started(notes) + started(notes, "child")
    await eventually(lambda: not any(map(alive, processes)))
    assert len(processes) == 2
