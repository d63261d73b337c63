"""`pixi-persona mcp`, as clients start it or find it: over pipes and over HTTP, by the SDK's own client."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from pixi.app.mcp_server import server as mcp_server
from pixi.cli import mcp as mcp_command
from tests.cli.conftest import Program
from tests.cli.test_secrets import LEAKY_ADDON
from tests.end_to_end.program import ROOT, environment, piped
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream
from tests.waiting import until, within

TROLLEY = {"PIXI_DATABASES__NAMES": '["trolley"]', "PIXI_PERSONA__DEFAULT": "wren"}
NOISY = """\
import os
from pixi.toolbox.addon import Addon

def setup(addon: Addon) -> None:
    print("an addon that prints")
    os.system("echo and one that runs programs")
"""


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


# Over standard input and output.


async def test_a_client_starts_it_searches_and_talks(trolley: Path) -> None:
    home = trolley.parent.parent
    (home / "noisy.py").write_text(NOISY)
    settings = home / "pixi.toml"
    settings.write_text('addons = ["noisy.py"]\n' + settings.read_text())
    async with ScriptedOpenAI(stream("[SEND: all aboard!]", finish())) as model:
        more = {"PIXI_MODEL__NAME": "scripted", "PIXI_MODEL__BASE_URL": model.base_url}
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "pixi", "mcp", "--user", "Mo"],
            cwd=home,
            env=environment(home, **more, **TROLLEY),
        )
        async with Client(started) as client:
            found = await client.call_tool("search_trolley_database", {"keyword": "ginger tea"})
            assert "ginger" in text_of(found).lower()
            assert model.requests == []
            answer = await client.call_tool("talk_to", {"persona": "wren", "message": "hello"})
            assert text_of(answer) == "all aboard!"


async def test_it_ends_with_its_input_and_says_nothing_but_the_protocol(trolley: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    async with piped(trolley.parent.parent, "mcp", environ=TROLLEY) as program:
        await program.say("this is no message")
        await program.say("x" * 5_000_000)
        await program.say(json.dumps(hello))
        lines = [json.loads(await program.hear())]
        while lines[-1].get("id") != 1:
            lines.append(json.loads(await program.hear()))
        ended = await program.end()
    assert lines[-1]["result"]["serverInfo"]["name"] == "pixi"
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.nightly
async def test_ctrl_c_ends_it_though_its_input_stays_open(trolley: Path) -> None:
    async with piped(trolley.parent.parent, "mcp", environ=TROLLEY) as program:
        ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        await program.say(json.dumps(ask))
        await program.hear()
        program.process.send_signal(signal.SIGINT)
        async with within("its end"):
            assert await program.process.wait() == 0


@pytest.mark.nightly
async def test_a_client_that_takes_no_answer_is_read_no_further_and_holds_nobody_up(trolley: Path) -> None:
    async with piped(trolley.parent.parent, "mcp", environ=TROLLEY) as program:
        stdin, stdout = program.process.stdin, program.process.stdout
        assert stdin
        assert stdout
        for number in range(6_000):
            ask = {"jsonrpc": "2.0", "id": number, "method": "ping", "params": {"_meta": {"x": "y" * 400}}}
            stdin.write(json.dumps(ask).encode() + b"\n")
        await until(lambda: stdout._paused, "all that we take")  # type: ignore[attr-defined]
        assert stdin.transport.get_write_buffer_size() > 2**20
        program.process.terminate()
        # `wait` would wait for what was written to be read, too.
        await until(lambda: program.process.returncode is not None, "its end")
        await stdout.read()
        assert program.process.returncode == 0


@pytest.mark.nightly
async def test_a_client_that_stops_listening_ends_it_without_a_traceback(trolley: Path) -> None:
    reading, writing = os.pipe()
    async with piped(trolley.parent.parent, "mcp", stdout=writing, environ=TROLLEY) as program:
        os.close(writing)
        os.close(reading)
        await program.say(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        assert program.process.stderr
        async with within("its end"):
            said = await program.process.stderr.read()
            await program.process.wait()
    assert "Traceback" not in said.decode()


# Over HTTP.


@asynccontextmanager
async def web(home: Path, *words: str, **environ: str) -> AsyncGenerator[str, None]:
    """The address of the program, which ends by Ctrl-C."""
    async with piped(home, "mcp", "--http", "127.0.0.1:0", *words, environ=environ) as program:
        assert program.process.stderr
        async with within("its address"):
            line = (await program.process.stderr.readline()).decode()
        address = re.fullmatch(
            r"pixi-persona: serving at (http://127\.0\.0\.1:\d+/mcp) until Ctrl-C\.\n", line
        )
        assert address, line
        yield address[1]
        program.process.send_signal(signal.SIGINT)
        ended = await program.end()
    assert (ended.code, ended.out) == (0, "")
    # Of the shipped personas some know databases that the settings leave out.
    told = [line for line in ended.err.splitlines() if not line.startswith("pixi-persona: persona '")]
    (addon,) = told
    assert addon.startswith("pixi-persona: addon leaky.py is left out: RuntimeError: no answer with *** from")
    assert "canary" not in addon


@pytest.mark.nightly
async def test_over_http_each_session_has_a_talk_of_its_own_and_no_secret_is_printed(trolley: Path) -> None:
    home = trolley.parent.parent
    (home / "leaky.py").write_text(LEAKY_ADDON)
    settings = home / "pixi.toml"
    settings.write_text('addons = ["leaky.py"]\n' + settings.read_text())
    async with ScriptedOpenAI(stream("[SEND: ok]", finish())) as model:
        more = {"PIXI_MODEL__NAME": "scripted", "PIXI_MODEL__BASE_URL": model.base_url}
        more |= {"KITCHEN_API_KEY": "canary-of-an-addon"}
        async with web(home, **more, **TROLLEY) as address:
            async with Client(address, mode="legacy") as one, Client(address, mode="legacy") as other:
                found = await one.call_tool("search_trolley_database", {"keyword": "ginger tea"})
                assert "ginger" in text_of(found).lower()
                secret = {"persona": "wren", "message": "it is a blue door"}
                await one.call_tool("talk_to", secret)
                await other.call_tool("talk_to", {"persona": "wren", "message": "what is it?"})
                await one.call_tool("talk_to", {"persona": "wren", "message": "what is it?"})
            heard = ["blue door" in str(seen.json()) for seen in model.requests]
            assert heard == [True, False, True]


# What people are told.


@pytest.mark.parametrize("word", ["8000x", "localhost", "127.0.0.1:99999", "a:b"])
def test_an_address_that_is_none_is_told(program: Program, word: str) -> None:
    code, _, err = program("mcp", "--http", word)
    assert code == 2
    assert f"'{word}' is no address; write it as 127.0.0.1:8765" in err


def test_a_port_that_is_taken_is_told_in_a_line(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, out, err = program("mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (2, "")
    assert (
        "cannot listen there (another program does, perhaps another Pixi); choose another port or address."
        in err
    )
    assert err.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "find_spec", lambda _: None)
    said = 'pixi-persona: `pixi-persona mcp` needs the MCP SDK: pip install "pixi-persona[mcp]"'
    for prefix, more in (("/usr", ""), (str(ROOT / ".venv"), " (here: make extra-mcp)")):
        monkeypatch.setattr("sys.prefix", prefix)
        code, _, err = program("mcp")
        assert (code, err) == (2, f"{said}{more}\n")


def test_a_folder_that_is_not_there_is_told(program: Program, home: Path) -> None:
    (home / "pixi.toml").write_text('[databases]\nfolder = "databasez"\n')
    code, out, err = program("mcp")
    assert (code, out) == (2, "")
    assert "databasez" in err


def test_a_port_alone_is_one_of_this_computer() -> None:
    assert mcp_command._address("8765") == ("127.0.0.1", 8765)
    assert mcp_command._address("[::1]:8765") == ("::1", 8765)


def test_help_tells_how_a_client_starts_it(program: Program) -> None:
    code, out, _ = program("mcp", "--help")
    assert code == 0
    assert '"command": "pixi-persona"' in out
