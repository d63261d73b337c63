"""MCP servers: what five of them cost a start, one of them dead; and what Pixi adds to a call of a tool."""

import asyncio
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.processes import ROOT, WorkerFailed, model_server
from benchmarks.report import Figure
from benchmarks.rounds import interleave
from pixi.core.events import ToolAnswered, ToolCalled, TurnEvent
from pixi.core.llm import ToolCall
from pixi.testing import RecordingChannel, ScriptedModel

GOAL_SECONDS = 1.5
"""More than a start without servers: a second that it waits for those that are quick, and their own work."""
GOAL_RATIO = 2.0

ZONE = {"timezone": "Europe/Oslo"}
PATIENCE = 60.0


def _time_server() -> str:
    """The server of the time, as it was installed.

    Raises:
        WorkerFailed: it was not.
    """
    beside = Path(sys.executable).with_name("mcp-server-time")
    path = str(beside) if beside.exists() else shutil.which("mcp-server-time")
    if path is None or importlib.util.find_spec("mcp") is None:
        raise WorkerFailed("it needs the packages mcp and mcp-server-time")
    return path


def _settings(folder: Path, servers: int) -> None:
    """Settings with so many servers; the last of them never says a word."""
    folder.mkdir()
    sections = [f'[mcp.time{number}]\ncommand = "{_time_server()}"' for number in range(1, servers)]
    if servers:
        sections.append('[mcp.dead]\ncommand = "sleep"\nargs = ["1000"]')
    (folder / "pixi.toml").write_text("\n".join(sections), encoding="utf-8")


def _first_answer(folder: Path, base_url: str) -> float:
    """Seconds from the start of `chat` to the first line that it says."""
    before = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pixi", "chat", "--base-url", base_url, "--model", "benchmark"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hi\n")
        process.stdin.flush()
        line = process.stdout.readline()
        spent = time.perf_counter() - before
        process.stdin.close()
        process.wait(PATIENCE)
    if not line:
        raise WorkerFailed("chat said nothing")
    return spent


def _start(quick: bool) -> Figure:
    with model_server(None) as server, tempfile.TemporaryDirectory() as folder:
        none, five = Path(folder, "none"), Path(folder, "five")
        _settings(none, 0)
        _settings(five, 5)
        base_url = server.fast(1)
        for home in (none, five):  # the first start ever reads the shipped documents, and records the servers
            _first_answer(home, base_url)
        rounds = interleave(
            {"none": lambda: _first_answer(none, base_url), "five": lambda: _first_answer(five, base_url)},
            rounds=1 if quick else 7,
        )
    above = rounds.median("five") - rounds.median("none")
    return Figure(
        name="Start of `chat` to the first answer with five MCP servers, one of them dead",
        goal=f"≤ {GOAL_SECONDS:g} s more than with none",
        ours=f"{rounds.median('five'):.2f} s",
        floors={"no MCP server": f"{rounds.median('none'):.2f} s"},
        ratios={"five / none": f"{rounds.ratio('five', 'none'):.1f}"},
        met=above <= GOAL_SECONDS,
        note=f"{above:.2f} s more; the dead one never answers, and is waited for by nobody",
    )


class _Clock(RecordingChannel):
    """A channel that notes how long each call of a tool took, from the model's asking to its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: list[float] = []
        self._asked = 0.0

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, ToolCalled):
            self._asked = time.perf_counter()
        elif isinstance(event, ToolAnswered):
            if not event.ok:
                raise WorkerFailed(f"the call failed: {event.result}")
            self.spent.append(time.perf_counter() - self._asked)


async def _calls(count: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each call: by the bare SDK, by our connection alone, and through the whole engine.

    They take turns, each with a server of its own.
    """
    from mcp import Client, StdioServerParameters

    from pixi import Engine, Persona
    from pixi.addons.mcp import register
    from pixi.mcp.offers import LockFile, Program
    from pixi.mcp.server import McpServer
    from pixi.settings import McpSettings

    command = _time_server()
    sdk: list[float] = []
    ours: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        lock = LockFile(Path(folder, "mcp.lock.json"))
        server = McpServer("time", Program(command), lock, tell=lambda _: None)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(StdioServerParameters(command=command)))
            await client.list_tools()
            server.start()
            stack.push_async_callback(server.close)
            await server.settled()
            call = ToolCall("1", "time_get_current_time", json.dumps(ZONE))
            model = ScriptedModel()
            engine = Engine(model=model, persona=Persona("Pixi", "You are Pixi."))
            register(server.tools, server, engine.tools, McpSettings())
            await stack.enter_async_context(engine)
            channel = _Clock()
            for number in range(count):
                before = time.perf_counter()
                await client.call_tool("get_current_time", ZONE)
                sdk.append(time.perf_counter() - before)
                before = time.perf_counter()
                await server.call("get_current_time", ZONE, PATIENCE)
                ours.append(time.perf_counter() - before)
                model.add([call], "[SEND: so.]")
                await engine.receive(channel.message(str(number)), channel)
                await engine.settled()
    return sdk, ours, channel.spent


def overhead(quick: bool) -> Figure:
    """What a call of a tool takes, beside the same call by the SDK alone."""
    count = 5 if quick else 300
    sdk, ours, engine = asyncio.run(_calls(count))
    floor, path, whole = (statistics.median(each) * 1e3 for each in (sdk, ours, engine))
    ratio = statistics.median(above / below for above, below in zip(engine, sdk, strict=True))
    return Figure(
        name="A call of an MCP tool, from the model's asking to its answer",
        goal=f"≤ {GOAL_RATIO:g} times a bare call of the SDK",
        ours=f"{whole:.2f} ms",
        floors={"bare SDK `call_tool`": f"{floor:.2f} ms", "our connection alone": f"{path:.2f} ms"},
        ratios={"Pixi / SDK": f"{ratio:.2f}"},
        met=ratio <= GOAL_RATIO,
        note=f"{(whole - floor) * 1e3:+,.0f} µs; the SDK checks answers by the server's own schema, Pixi "
        "checks arguments, keeps limits, masks secrets and records the turn",
    )


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    return [_start(quick), overhead(quick)]
