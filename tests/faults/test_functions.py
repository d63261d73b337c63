"""Commands and tools that others wrote: they raise, block, hang, say too much, or lean on what dies."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.core.spending import Limits
from pixi.toolbox.addon import Addon
from pixi.toolbox.commands import CommandRegistry
from pixi.toolbox.context import Context
from pixi.toolbox.tools import Toolbox
from tests.faults.promise import QUICK, SORRY, in_turn, the_promise_is_kept, trouble
from tests.servers.scripted_openai import Reply, Seen, Wait, call, finish, stream

pytestmark = pytest.mark.nightly

SECRET = "sk-canary-1234567890"
DONE = stream("[SEND: done]", finish())


def asks_for(name: str, *, first: str = "") -> Callable[[Seen], Reply]:
    """A model that calls the tool, and says so when it is told of it."""
    return in_turn(stream(first, call(name, "{}", index=0), finish("tool_calls")), DONE)


# What raises.

RAISED: Mapping[str, BaseException] = {
    "an error": ValueError(SECRET),
    "a broken connection": ConnectionResetError(SECRET),
    "a time-out of its own": TimeoutError(SECRET),
    "an end of the program": SystemExit(1),
    "an end of its own task": asyncio.CancelledError(SECRET),
    "too deep a recursion": RecursionError(SECRET),
    "no memory": MemoryError(),
}


@pytest.mark.parametrize("name", RAISED)
async def test_a_command_that_raises(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def wave(context: Context) -> None:
            """wave"""
            raise RAISED[name]

    reply = stream("[SEND: one]\n[WAVE]\n[SEND: two]", finish())
    async with trouble(tmp_path, in_turn(reply), addons=[setup]) as scene:
        await the_promise_is_kept(
            scene, said=["one", "two"], notice="^command 'wave' ", asked=1, remembered=["one"], goes_on=True
        )
        assert "[WAVE]" not in str(await scene.said_before())  # nobody saw it
        assert SECRET not in str(scene.channel.events) + caplog.text


@pytest.mark.parametrize("name", RAISED)
async def test_a_tool_that_raises(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def look(context: Context) -> str:
            """Look."""
            raise RAISED[name]

    async with trouble(tmp_path, asks_for("look"), addons=[setup], tools=("look",)) as scene:
        await the_promise_is_kept(scene, said=["done"], asked=2, remembered=["done"])
        (told,) = [line for line in scene.server.requests[1].json()["messages"] if line["role"] == "tool"]
        assert "look" in told["content"]
        assert SECRET not in str(scene.server.requests[1].json()) + caplog.text


# What takes too long, or says too much.


async def test_a_command_that_hangs(tmp_path: Path) -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def wait(context: Context) -> None:
            """wait"""
            await asyncio.Event().wait()

    reply = stream("[SEND: one]\n[WAIT]\n[SEND: two]", finish())
    async with trouble(tmp_path, in_turn(reply), addons=[setup], limits=Limits(tool_seconds=0.2)) as scene:
        await the_promise_is_kept(
            scene, said=["one", "two"], notice="took longer than 0.2", asked=1, goes_on=True
        )


async def test_a_tool_that_hangs(tmp_path: Path) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool(timeout=0.2)
        async def look(context: Context) -> str:
            """Look."""
            await asyncio.Event().wait()
            return ""

    async with trouble(tmp_path, asks_for("look"), addons=[setup], tools=("look",)) as scene:
        await the_promise_is_kept(scene, said=["done"], asked=2)
        assert "took longer than 0.2 seconds" in str(scene.server.requests[1].json())


async def test_a_tool_that_answers_with_fifty_megabytes(tmp_path: Path) -> None:
    def setup(addon: Addon) -> None:
        @addon.tool
        async def look(context: Context) -> str:
            """Look."""
            return "na " * 17_000_000

    async with trouble(tmp_path, asks_for("look"), addons=[setup], tools=("look",)) as scene:
        await the_promise_is_kept(scene, said=["done"], asked=2)
        assert len(scene.server.requests[1].body) < 40_000


# What holds the loop up, and with it everybody.


@pytest.mark.parametrize("kind", ["command", "tool"])
async def test_a_function_that_blocks_everybody(tmp_path: Path, kind: str) -> None:
    def setup(addon: Addon) -> None:
        @addon.command
        async def wave(context: Context) -> None:
            """wave"""
            time.sleep(2 * QUICK.gap)  # noqa: ASYNC251 - that is the fault

        @addon.tool
        async def look(context: Context) -> str:
            """Look."""
            time.sleep(2 * QUICK.gap)  # noqa: ASYNC251
            return "seen"

    waving = stream("[WAVE]\n", Wait(0.05), "[SEND: do", "ne]", finish())
    calling = asks_for("look", first="[NOTE: hm]")
    reply = in_turn(waving) if kind == "command" else calling
    async with trouble(tmp_path, reply, addons=[setup], tools=("look",)) as scene:
        await the_promise_is_kept(scene, said=["done"], asked=1 if kind == "command" else 2)


async def test_who_is_answered_elsewhere_does_not_pay_for_it(tmp_path: Path) -> None:
    """The server wrote on while nobody could read: it is not said to have been silent."""

    def setup(addon: Addon) -> None:
        @addon.command
        async def wave(context: Context) -> None:
            """wave"""
            time.sleep(2 * QUICK.gap)  # noqa: ASYNC251 - that is the fault

    def reply(seen: Seen) -> Reply:
        if "please wave" in str(seen.json()["messages"][-1]):
            return stream(Wait(0.1), "[WAVE]\n[SEND: done]", finish())
        return stream("[SEND: one]\n", Wait(0.3), "[SEND: two]\n", Wait(0.3), "[SEND: three]", finish())

    async with trouble(tmp_path, reply, addons=[setup]) as scene:
        from pixi.testing import RecordingChannel

        other = RecordingChannel("test:other")
        await scene.engine.receive(other.message("tell me a story"), other)
        await scene.ask("please wave")
        assert other.sent == ["one", "two", "three"]
        assert scene.channel.sent == ["done"]
        assert scene.notices == []
        await scene.lives_on("done")


def test_a_plain_function_is_refused_with_the_mend() -> None:
    addon = Addon(CommandRegistry(), Toolbox())

    def look(context: Context) -> str:
        """Look."""
        return ""

    for register in (addon.tool, addon.command):
        with pytest.raises(ConfigError, match="write it as `async def look"):
            register(look)  # type: ignore[arg-type]


# What leans on another program.

REMOTE = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    talking, _ = listening.accept()
    talking.recv(100)
    print("asked", flush=True)
"""


@asynccontextmanager
async def remote() -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A program that is asked over a socket, and never answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REMOTE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("when", ["before it is asked", "while it is asked"])
async def test_a_tool_whose_server_dies(tmp_path: Path, when: str) -> None:
    async with remote() as process:
        assert process.stdout
        output = process.stdout
        port = int(await output.readline())

        async def dies() -> None:
            process.kill()
            await process.wait()

        def setup(addon: Addon) -> None:
            @addon.tool
            async def weather(context: Context) -> str:
                """Tell the weather."""
                if when == "before it is asked":
                    await dies()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(b"?")
                    await output.readline()
                    await dies()
                    return (await reader.readexactly(1)).decode()
                finally:
                    writer.close()

        async with trouble(tmp_path, asks_for("weather"), addons=[setup], tools=("weather",)) as scene:
            await the_promise_is_kept(scene, said=["done"], asked=2, remembered=["done"])
            assert "tool 'weather' failed with" in str(scene.server.requests[1].json())


async def test_a_model_that_dies_while_a_tool_runs(tmp_path: Path) -> None:
    ran: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True)
        async def order(context: Context) -> str:
            """Order."""
            ran.append("once")
            return "ordered"

    def reply(seen: Seen) -> Reply:
        if len(seen.json()["messages"]) > 2:
            return Reply(())
        return stream(call("order", "{}", index=0), finish("tool_calls"))

    async with trouble(tmp_path, reply, addons=[setup], tools=("order",)) as scene:
        await the_promise_is_kept(scene, said=[SORRY], notice="sent no words", asked=2)
        assert ran == ["once"]
