"""`pixi-persona mcp --http`: where it listens, whom it answers, and how much strangers can make it hold."""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from mcp.client import Client
from mcp.server.lowlevel.server import Server

from pixi.app.mcp_server import server as serving_module
from pixi.app.mcp_server.server import Endpoint, resolve, serve_http, web_app
from pixi.core.errors import ConfigError
from tests.cli.conftest import Program
from tests.waiting import until, within

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def server() -> Server[Any]:
    return Server("test")


@asynccontextmanager
async def serving(endpoint: Endpoint | None = None) -> AsyncGenerator[str, None]:
    """The address of a server that runs in this process."""
    told: list[str] = []
    task = asyncio.create_task(serve_http(server(), endpoint or resolve("127.0.0.1", 0), told.append))
    try:
        await until(lambda: told, "the address")
        (line,) = told
        address = re.fullmatch(r"serving at (http://\S+/mcp) until Ctrl-C\.", line)
        assert address
        yield address[1]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# Where it listens.

EVERYWHERE = [
    *("0.0.0.0", "0", "00", "0x0", "0.0", "0.0.0", "0x0.0", "000.000.000.000", "⓪", "０", "0.0.0.0x0"),
    *("::", "[::]", "0::0", "0:0:0:0:0:0:0:0", "::0.0.0.0", "::ffff:0.0.0.0", "[::ffff:0:0]", ""),
]


@pytest.mark.parametrize("host", EVERYWHERE)
def test_it_does_not_listen_everywhere_however_that_is_spelled(program: Program, host: str) -> None:
    code, out, err = program("mcp", "--http", f"{host}:8765")
    assert (code, out) == (2, "")
    assert "would listen on every network, and there is no password" in err


def test_a_name_is_judged_by_all_that_it_is_resolved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo("127.0.0.1", 0, type=socket.SOCK_STREAM)
    for number in ("0.0.0.0", "::"):
        found = [*real, *socket.getaddrinfo(number, 0, type=socket.SOCK_STREAM)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        with pytest.raises(ConfigError, match="would listen on every network"):
            resolve("box.lan", 0)


async def test_what_was_judged_is_what_is_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look would lead elsewhere."""
    looks = [socket.getaddrinfo(number, 0, type=socket.SOCK_STREAM) for number in ("127.0.0.1", "0.0.0.0")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: looks.pop(0))
    endpoint = resolve("box.lan", 0)
    monkeypatch.undo()
    with serving_module._listening(endpoint) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "a..b"])
def test_a_host_that_cannot_be_looked_up_is_told_in_a_line(program: Program, host: str) -> None:
    code, out, err = program("mcp", "--http", f"{host}:8765")
    assert (code, out) == (2, "")
    assert f"--http {host}:8765: cannot listen there (" in err
    assert err.count("\n") == 1


# Whom it answers.


async def test_it_answers_only_who_calls_it_by_its_own_name_and_port() -> None:
    """A page in somebody's browser is refused, by whatever name it found the port (DNS rebinding)."""
    async with serving() as address, httpx.AsyncClient(headers=ACCEPT) as browser:
        own = urlsplit(address).netloc
        port = own.rpartition(":")[2]
        refused = [
            *({"host": name} for name in ("127.0.0.1", "localhost", f"evil.example:{port}", "127.0.0.1:80")),
            *({"host": f"{own}.evil.example"}, {"host": f"localhost:{port}1"}, {"host": f"127.0.0.2:{port}"}),
            {"host": f"localhost:{port}@evil.example"},
            *(
                {"origin": name}
                for name in ("https://evil.example", "null", f"https://{own}", "http://localhost")
            ),
            *({"origin": f"http://{own}.evil.example"}, {"origin": "http://127.0.0.1:1"}),
        ]
        refused += [{**refused[at], "mcp-protocol-version": "2026-07-28"} for at in (0, -1)]
        for headers in refused:
            answer = await browser.post(address, json=HELLO, headers=headers)
            assert answer.status_code == (421 if "host" in headers else 403), headers
        for headers in (
            {},
            {"host": f"localhost:{port}"},
            {"host": f"[::1]:{port}"},
            {"origin": f"http://{own}"},
        ):
            answer = await browser.post(address, json=HELLO, headers=headers)
            assert answer.status_code == 200, headers
        # A form of a page can send this without asking the browser first.
        answer = await browser.post(address, content=b"{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 400


def test_the_names_of_an_address() -> None:
    loopback = {"127.0.0.1", "localhost", "[::1]"}
    assert resolve("127.1", 0).names() == loopback | {"127.1"}
    assert resolve("LOCALHOST", 0).names() == loopback
    inet = socket.AddressFamily.AF_INET
    assert Endpoint("bücher.lan", inet, ("10.0.0.7", 80)).names() == {
        "bücher.lan",
        "xn--bcher-kva.lan",
        "10.0.0.7",
    }
    inet6 = socket.AddressFamily.AF_INET6
    assert Endpoint("fd00::7", inet6, ("fd00::7", 80, 0, 0)).names() == {"[fd00::7]"}


async def test_at_port_80_the_port_may_be_left_out() -> None:
    app = web_app(server(), Endpoint("127.0.0.1", socket.AddressFamily.AF_INET, ("127.0.0.1", 80)), 80)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=ACCEPT) as client,
    ):
        for host, status in (("127.0.0.1", 200), ("127.0.0.1:80", 200), ("127.0.0.1:81", 421)):
            answer = await client.post("http://127.0.0.1/mcp", json=HELLO, headers={"host": host})
            assert answer.status_code == status


async def test_the_sdks_own_client_is_answered() -> None:
    async with serving() as address:
        for mode in ("legacy", "auto"):
            async with Client(address, mode=mode) as client:
                assert client.server_info is None or client.server_info.name == "test"


# How much strangers can make it hold.


async def test_sessions_end_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is the test's: nothing waits a quarter of an hour."""
    loop, passed = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + passed)
    monkeypatch.setattr(serving_module, "MOST_SESSIONS", 5)
    none_kept = httpx.Limits(max_keepalive_connections=0)
    async with (
        serving() as address,
        httpx.AsyncClient(headers=ACCEPT, timeout=None, limits=none_kept) as client,
    ):

        async def opened() -> tuple[int, dict[str, str]]:
            answer = await client.post(address, json=HELLO)
            return answer.status_code, {"mcp-session-id": answer.headers.get("mcp-session-id", "")}

        async def pinged(session: dict[str, str]) -> int:
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            return (await client.post(address, json=ping, headers=session)).status_code

        first, *others = [await opened() for _ in range(5)]
        assert {status for status, _ in (first, *others)} == {200}
        assert (await opened())[0] == 503
        await client.delete(address, headers=others.pop()[1])
        assert (await opened())[0] == 200  # the one that was ended made room

        passed += serving_module.IDLE_SECONDS * 0.9
        assert await pinged(first[1]) == 200
        passed += serving_module.IDLE_SECONDS * 0.9
        await asyncio.sleep(0)
        assert await pinged(first[1]) == 200  # it was used in between
        for _, session in others:
            assert await pinged(session) == 404
        assert (await opened())[0] == 200


async def slow(address: str, beginning: bytes, trickle: bytes) -> tuple[bytes, int]:
    """Send how a request begins, and more of it until the other side closes; return what it said."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    said, sent = bytearray(), 0

    async def hear() -> None:
        with suppress(OSError):  # piece by piece: what was heard before that stays
            while data := await reader.read(4096):
                said.extend(data)

    hearing = asyncio.create_task(hear())
    writer.write(beginning)
    async with within("the end of the connection"):
        while not hearing.done():
            writer.write(trickle)
            sent += 1
            with suppress(OSError):
                await writer.drain()
            await asyncio.wait([hearing], timeout=0.005)
    writer.close()
    return bytes(said), sent


@pytest.mark.parametrize(
    ("beginning", "trickle"),
    [
        (b"", b""),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"a"),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n"),
        (
            b"POST /mcp HTTP/1.1\r\nHost: {own}\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
            b"a",
        ),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nPOST /mcp HTTP/1.1\r\nX-Slow: ", b"a"),
        (
            b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nPOST /mcp HTTP/1.1\r\nHost: {own}\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
            b"",
        ),
    ],
    ids=["silence", "a header", "headers", "a body", "a second request", "a second request without its body"],
)
async def test_a_request_that_does_not_arrive_is_closed(
    monkeypatch: pytest.MonkeyPatch, beginning: bytes, trickle: bytes
) -> None:
    monkeypatch.setattr(serving_module, "REQUEST_SECONDS", 0.5)
    async with serving() as address:
        said, sent = await slow(
            address, beginning.replace(b"{own}", urlsplit(address).netloc.encode()), trickle
        )
    assert b" 200 " not in said
    assert sent > 2  # what trickles in does not prolong it
    assert said.startswith(b"HTTP/1.1 404") == beginning.startswith(b"GET")


@pytest.mark.parametrize("requests", [200, 2_000])  # answers of some KB, and of more than is buffered
async def test_who_takes_no_answers_is_closed(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    def listening(*args: Any, **more: Any) -> socket.socket:
        listener = create(*args, **more)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that few answers fill it
        return listener

    def is_gone() -> bool:
        try:
            client.send(b"a")
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    create = socket.create_server
    monkeypatch.setattr(socket, "create_server", listening)
    monkeypatch.setattr(serving_module, "ANSWER_SECONDS", 0.1)
    async with serving() as address:
        parts = urlsplit(address)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((parts.hostname, parts.port))
            client.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" * requests)
            client.setblocking(False)
            await until(is_gone, "the end of the connection")


async def test_a_stream_that_stays_open_is_no_slow_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(serving_module, "ANSWER_SECONDS", 0.1)
    async with serving() as address, httpx.AsyncClient(headers=ACCEPT, timeout=None) as client:
        session = (await client.post(address, json=HELLO)).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
        async with client.stream("GET", address, headers=headers) as events:
            assert events.status_code == 200
            await asyncio.sleep(0.3)
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert (await client.post(address, json=ping, headers=headers)).status_code == 200
            assert not events.is_closed


async def test_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "MOST_CONNECTIONS", 3)
    async with serving() as address:
        parts = urlsplit(address)
        held = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(4)]
        async with within("the end of one of the four"):
            await asyncio.wait(
                [asyncio.create_task(reader.read()) for reader, _ in held],
                return_when=asyncio.FIRST_COMPLETED,
            )
        held[0][1].close()
        async with httpx.AsyncClient(headers=ACCEPT, timeout=None) as client:
            async with within("an answer, as there is room again"):
                while True:
                    with suppress(httpx.TransportError):  # until the connection before is gone
                        answer = await client.post(address, json=HELLO)
                        break
            assert answer.status_code == 200
        for _, writer in held:
            writer.close()
