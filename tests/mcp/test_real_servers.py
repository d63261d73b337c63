"""Servers that others wrote: of the time, of fetching, and the reference server, each way it is reached.

They are slow to start: the quick suite starts the reference server once.
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.core.message import Image
from pixi.mcp.offers import Broken, CallFailed, CallResult, NetworkServer, Program
from tests.mcp.scene import EVERYTHING, SECONDS, Kept, installed, kept, with_everything
from tests.waiting import until

STDIO = Program(str(EVERYTHING), ("stdio",))


@pytest.mark.nightly
async def test_the_time(tmp_path: Path) -> None:
    async with kept(tmp_path, installed("mcp-server-time"), name="time") as it:
        tools = {tool.name: tool for tool in (await it.ready()).tools}
        assert set(tools) == {"get_current_time", "convert_time"}
        assert tools["get_current_time"].reads
        assert not tools["get_current_time"].destroys
        assert tools["get_current_time"].schema["required"] == ["timezone"]
        called = await it.server.call("get_current_time", {"timezone": "Europe/Oslo"}, SECONDS)
        assert str(called).count("Europe/Oslo") == 1  # the value is not told twice
        with pytest.raises(CallFailed, match=r"time could not do it: .*Nowhere"):
            await it.server.call("get_current_time", {"timezone": "Nowhere/Land"}, SECONDS)


@pytest.mark.nightly
async def test_fetching(tmp_path: Path) -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><body><h1>Lemon sugar</h1><p>Thin and hot, said the cook.</p></body></html>"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    site = await asyncio.start_server(page, "127.0.0.1", 0)
    port = site.sockets[0].getsockname()[1]
    program = installed("mcp-server-fetch")
    program = Program(program.command, ("--ignore-robots-txt", "--allow-private-ips"))
    async with site, kept(tmp_path, program, name="fetch") as it:
        assert [tool.name for tool in (await it.ready()).tools] == ["fetch"]
        called = await it.server.call("fetch", {"url": f"http://127.0.0.1:{port}/"}, SECONDS)
        assert "Thin and hot" in str(called)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def listening(way: str, port: int) -> AsyncGenerator[None, None]:
    """The reference server on a port."""
    process = await asyncio.create_subprocess_exec(
        str(EVERYTHING),
        way,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def checked(it: Kept) -> None:
    """See that all kinds of results come through."""
    await it.ready()

    async def called(tool: str, **arguments: object) -> CallResult:
        return await it.server.call(tool, arguments, SECONDS)

    assert await called("echo", message="hi 🥞") == "Echo: hi 🥞"
    shown = await called("get-tiny-image")
    assert isinstance(shown, list)
    before, picture, after = shown
    assert isinstance(before, str)
    assert isinstance(picture, Image)
    assert isinstance(after, str)
    assert picture.media_type == "image/png"
    assert picture.data.startswith(b"\x89PNG")
    structured = str(await called("get-structured-content", location="New York"))
    assert set(json.loads(structured)) == {"temperature", "conditions", "humidity"}
    links = await called("get-resource-links", count=2)
    assert "\n(a link: Text Resource 2, demo://resource/dynamic/text/2, text/plain)" in links
    text = await called("get-resource-reference", resourceType="Text", resourceId=1)
    assert "\n(demo://resource/dynamic/text/1)\nResource 1: This is a plaintext resource" in text
    blob = await called("get-resource-reference", resourceType="Blob", resourceId=1)
    assert "\n(a file: demo://resource/dynamic/blob/1, text/plain, " in blob
    with pytest.raises(CallFailed, match=r"everything could not do it: .*[Ii]nvalid arguments for tool echo"):
        await called("echo")


@with_everything
async def test_the_reference_server_as_a_program(tmp_path: Path) -> None:
    async with kept(tmp_path, STDIO, name="everything") as it:
        await checked(it)


@pytest.mark.nightly
@with_everything
@pytest.mark.parametrize(("way", "path"), [("streamableHttp", "mcp"), ("sse", "sse")])
async def test_the_reference_server_on_the_network(tmp_path: Path, way: str, path: str) -> None:
    port = free_port()
    where = NetworkServer(f"http://127.0.0.1:{port}/{path}", sse=way == "sse")
    async with listening(way, port), kept(tmp_path, where, name="everything") as it:
        await checked(it)


@pytest.mark.nightly
@with_everything
async def test_it_is_reached_once_it_is_there_and_again_when_it_was_away(tmp_path: Path) -> None:
    port = free_port()
    async with kept(tmp_path, NetworkServer(f"http://127.0.0.1:{port}/mcp"), name="everything") as it:
        await it.until(lambda server: isinstance(server.state, Broken))
        assert "it cannot be reached; is it running there, and `url` right?" in it.said
        for word in ("first", "second"):
            async with listening("streamableHttp", port):
                await it.ready()
                called = await it.server.call("echo", {"message": word}, SECONDS)
                assert called == f"Echo: {word}"
            with pytest.raises(CallFailed, match="everything"):
                await it.server.call("echo", {"message": "away"}, SECONDS)
            await it.until(lambda server: isinstance(server.state, Broken))


@pytest.mark.nightly
@with_everything
async def test_keys_of_ours_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "DISCORD_TOKEN", "PIXI_MODEL__API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")
    program = Program(STDIO.command, STDIO.args, {"OWN": "pancake"})
    async with kept(tmp_path, program, name="everything") as it:
        await it.ready()
        told = str(await it.server.call("get-env", {}, SECONDS))
    assert "pancake" in told
    assert "PATH" in told
    assert "canary" not in told


@pytest.mark.nightly
@with_everything
async def test_a_server_that_is_killed_comes_back(tmp_path: Path) -> None:
    from tests.mcp.scene import alive

    async with kept(tmp_path, STDIO, name="everything") as it:
        await it.ready()
        children = [int(each) for each in _children()]
        (process,) = [each for each in children if b"mcp-server-everything" in _command(each)]
        os.kill(process, 9)
        await it.until(lambda server: isinstance(server.state, Broken))
        assert "it was ended by signal 9" in it.said
        await it.ready()
        assert await it.server.call("echo", {"message": "1"}, SECONDS) == "Echo: 1"
        await until(lambda: not alive(process))


def _children() -> list[str]:
    folder = Path(f"/proc/{os.getpid()}/task")
    if not folder.is_dir():
        pytest.skip("this system does not tell of processes")
    return [child for task in folder.iterdir() for child in (task / "children").read_text().split()]


def _command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()
