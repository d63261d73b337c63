"""Servers on the network that are none, or answer too much; and what is sent to them."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pixi.mcp.offers import Broken, CallFailed, NetworkServer, Ready
from pixi.mcp.transports import _Events
from tests.mcp.scene import SECONDS, kept

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """What is answered."""

    status: int = 200
    kind: str = "application/json"
    body: bytes = b""
    headers: tuple[str, ...] = ()
    goes_on: bool = False  # it stays open behind the body until the client leaves


Chooses = Callable[[Asked], Answer]


@asynccontextmanager
async def site(choose: Chooses) -> AsyncGenerator[tuple[str, list[Asked]], None]:
    """An HTTP server that answers as it is told; gives its address, and what it was asked."""
    seen: list[Asked] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(first.split()[0], headers, json.loads(body or b"null"))
            seen.append(asked)
            answer = choose(asked)
            head = f"HTTP/1.1 {answer.status} X\r\nContent-Type: {answer.kind}\r\nConnection: close\r\n"
            head += "".join(f"{line}\r\n" for line in answer.headers)
            size = len(answer.body) + answer.goes_on
            writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode() + answer.body)
            await writer.drain()
            if answer.goes_on:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", seen


def result(asked: Asked, **value: object) -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": asked.body["id"], "result": value})
    return Answer(body=body.encode())


def well(asked: Asked) -> Answer:
    """A server of one tool, as plain as it can be."""
    match asked.method, asked.body:
        case "POST", {"method": "initialize", "params": params}:
            version, server = params["protocolVersion"], {"name": "site", "version": "1"}
            return result(asked, protocolVersion=version, capabilities={"tools": {}}, serverInfo=server)
        case "POST", {"method": "tools/list"}:
            return result(asked, tools=[ECHO])
        case "POST", {"method": "tools/call"}:
            return result(asked, content=[{"type": "text", "text": "hi"}])
        case "POST", {"method": "notifications/initialized"}:
            return Answer(202)
        case _:
            return Answer(404)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Answer(200, "text/html", b"<html>"), "it answers 'Unexpected content type: text/html'"),
        (lambda: Answer(401), "it answers with HTTP 401; mend `headers`"),
        (lambda: Answer(404), "it answers with HTTP 404; mend `url` or `type`"),
        (lambda: Answer(500, body=b"{}"), "it answers with HTTP 500"),
        (lambda: Answer(body=b"[1, 2"), "Failed to parse JSON response"),
        (lambda: Answer(307, headers=("Location: http://example.org/",)), "not followed"),
        (
            lambda: Answer(body=gzip.compress(b" " * 2**12), headers=("Content-Encoding: gzip",)),
            "it packs its answers, which it was asked not to do",
        ),
        (lambda: Answer(body=b" " * (9 * 2**20)), "the answer has more than 8 MB, which is refused"),
    ],
    ids=["html", "401", "404", "500", "no JSON", "elsewhere", "packed", "9 MB"],
)
@pytest.mark.parametrize("sse", [False, True])
async def test_what_is_no_server_is_named(
    tmp_path: Path, make: Callable[[], Answer], why: str, sse: bool
) -> None:
    answer = make()
    async with site(lambda _: answer) as (url, _), kept(tmp_path, NetworkServer(url, sse=sse)) as it:
        await it.until(lambda _: any(isinstance(state, Broken) for state in it.states))
        told = next(state.why for state in it.states if isinstance(state, Broken))
        if not sse or answer.status >= 400:
            assert why in told
        elif answer.status == 200 and answer.kind == "text/html":
            assert "its stream of events cannot be read: Expected" in told
        assert "\n" not in told
        assert "Traceback" not in it.said


async def test_headers_are_sent_and_never_told(tmp_path: Path) -> None:
    async with site(well) as (url, seen):
        where = NetworkServer(f"{url}?key=canary", headers={"Authorization": "Bearer canary"})
        async with kept(tmp_path, where) as it:
            await it.ready()
            assert await it.server.call("echo", {}, SECONDS) == "hi"
    posts = [asked for asked in seen if asked.method == "POST"]
    assert {asked.headers["authorization"] for asked in posts} == {"bearer canary"}
    assert {asked.headers["accept-encoding"] for asked in posts} == {"identity"}
    assert "canary" not in it.said + repr(where) + where.shown
    assert "canary" not in (tmp_path / "mcp.lock.json").read_text()


async def test_a_result_that_is_too_long(tmp_path: Path) -> None:
    def choose(asked: Asked) -> Answer:
        if asked.body and asked.body["method"] == "tools/call":
            return result(asked, content=[{"type": "text", "text": "x" * (9 * 2**20)}])
        return well(asked)

    async with site(choose) as (url, _), kept(tmp_path, NetworkServer(url)) as it:
        await it.ready()
        with pytest.raises(CallFailed, match="the answer has more than 8 MB, which is refused"):
            await it.server.call("echo", {}, SECONDS)
        assert isinstance(it.server.state, Ready)


@pytest.mark.parametrize("events", [False, True])
async def test_a_tool_with_an_abyss_for_a_schema_costs_no_other_tool(tmp_path: Path, events: bool) -> None:
    abyss = '{"type":"object","properties":{"a":' * 800 + "{}" + "}}" * 800

    def choose(asked: Asked) -> Answer:
        if asked.body is None or asked.body.get("method") != "tools/list":
            return well(asked)
        body = result(asked, tools=[{"name": "deep", "inputSchema": "ABYSS"}, ECHO]).body
        body = body.replace(b'"ABYSS"', abyss.encode())
        if not events:
            return Answer(body=body)
        return Answer(kind="text/event-stream", body=b"event: message\r\ndata: " + body + b"\r\n\r\n")

    async with site(choose) as (url, _), kept(tmp_path, NetworkServer(url)) as it:
        assert [tool.name for tool in (await it.ready()).tools] == ["deep", "echo"]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_an_event_is_read_before_its_stream_ends(tmp_path: Path, end: bytes) -> None:
    def choose(asked: Asked) -> Answer:
        answer = well(asked)
        if asked.method != "POST" or not answer.body:
            return answer
        lines = (b"event: message", b"data: " + answer.body, b"", b"")
        return Answer(kind="text/event-stream", body=end.join(lines), goes_on=True)

    async with site(choose) as (url, _), kept(tmp_path, NetworkServer(url)) as it:
        assert [tool.name for tool in (await it.ready()).tools] == ["echo"]


async def test_lines_of_events_end_alike_wherever_a_stream_is_cut() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    for whole in (b"data: 1\r\rdata: 2\r\ndata: 3\r\n\r\n", b"data: 1\n\ndata: 2\ndata: 3\n\n"):
        for size in (1, 2, 3, 8, 9, len(whole)):
            pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
            told = [piece async for piece in _Events(Stream())]
            assert b"".join(told) == b"data: 1\n\ndata: 2\ndata: 3\n\n"


async def test_a_server_that_was_started_anew_is_greeted_again(tmp_path: Path) -> None:
    forgotten = False

    def choose(asked: Asked) -> Answer:
        nonlocal forgotten
        if asked.body and asked.body["method"] == "initialize":
            forgotten = False
            answer = well(asked)
            return Answer(body=answer.body, headers=("Mcp-Session-Id: 1",))
        return Answer(404) if forgotten else well(asked)

    async with site(choose) as (url, _), kept(tmp_path, NetworkServer(url)) as it:
        await it.ready()
        forgotten = True
        with pytest.raises(CallFailed, match=r"rogue was restarted\. Try again in a moment"):
            await it.server.call("echo", {}, SECONDS)
        await it.until(lambda server: isinstance(server.state, Broken))
        await it.ready()
        assert await it.server.call("echo", {}, SECONDS) == "hi"
