"""Fetching within limits: of bytes, packed and unpacked, of time, of headers, and of kinds."""

import asyncio
import gzip
import re
import socket
import threading
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import zstandard
from aiohttp import web

from pixi.fetching.guard import is_public
from pixi.fetching.web import Unpacker, Web, WebError
from tests.servers.model_faults import speaking_tls, trusting
from tests.servers.staged_web import Handler, Stage, StagedWeb, served
from tests.waiting import LIMIT, within

Writes = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw(write: Writes) -> AsyncIterator[str]:
    """A server that writes whatever it likes; gives its address."""

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await write(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked is gone, or the test has ended
        finally:
            writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def giving(body: bytes, **headers: str) -> Handler:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers=named)

    return handler


async def test_gives_what_is_there() -> None:
    page = giving("Pfannkuchen für alle".encode("latin-1"), Content_Type="Text/HTML; charset=ISO-8859-1")
    async with served({"/page": page}) as port, Web() as fetching:
        fetched = await fetching.get(f"http://127.0.0.1:{port}/page#part", trusted=True)
    assert fetched.url == f"http://127.0.0.1:{port}/page"
    assert (fetched.status, fetched.content_type, fetched.charset) == (200, "text/html", "iso8859-1")
    assert fetched.body.decode(fetched.charset) == "Pfannkuchen für alle"


async def test_says_politely_who_asks_and_nothing_more() -> None:
    asked: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return web.Response(text="", headers={"Set-Cookie": "who=you"})

    async with served({"/": handler}) as port, Web() as fetching:
        for _ in range(2):
            await fetching.get(f"http://127.0.0.1:{port}/", trusted=True, accept="text/html")
    for request in asked:
        assert request.headers["User-Agent"].startswith("pixi-persona/")
        assert set(request.headers) == {"Host", "Accept", "Accept-Encoding", "User-Agent"}
        assert request.headers["Accept"] == "text/html"


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"pancakes " * 100)),
        ("x-gzip", gzip.compress(b"pancakes " * 60) + gzip.compress(b"pancakes " * 40)),
        ("identity", b"pancakes " * 100),
    ],
    ids=["gzip", "two members", "identity"],
)
async def test_unpacks(encoding: str, packed: bytes) -> None:
    async with served({"/": giving(packed, Content_Encoding=encoding)}) as port, Web() as fetching:
        fetched = await fetching.get(f"http://127.0.0.1:{port}/", trusted=True)
    assert fetched.body == b"pancakes " * 100


def bomb(opening: "zlib._Compress", megabytes: int) -> bytes:
    zeros = bytes(1_000_000)
    return b"".join(opening.compress(zeros) for _ in range(megabytes)) + opening.flush()


@pytest.fixture(scope="module")
def gigabyte() -> bytes:
    """A megabyte of which a gigabyte would come: more cannot be packed so."""
    return bomb(zlib.compressobj(9, wbits=31), 20) * 50


@pytest.mark.parametrize("cut", [False, True])
async def test_gzip_bomb_is_stopped_early(
    gigabyte: bytes, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    assert len(gigabyte) < 1_100_000
    unpacked, real = 0, Unpacker.unpacked

    def counted(it: Unpacker, data: bytes) -> Iterator[bytes]:
        nonlocal unpacked
        for piece in real(it, data):
            unpacked += len(piece)
            yield piece

    monkeypatch.setattr(Unpacker, "unpacked", counted)
    async with served({"/": giving(gigabyte, Content_Encoding="gzip")}) as port, Web() as fetching:
        tracemalloc.start()
        try:
            url = f"http://127.0.0.1:{port}/"
            if cut:
                fetched = await fetching.get(url, trusted=True, most_bytes=2_000_000, cut=True, seconds=LIMIT)
                assert len(fetched.body) == 2_000_000
            else:
                with pytest.raises(WebError, match="larger than 2 MB"):
                    await fetching.get(url, trusted=True, most_bytes=2_000_000, seconds=LIMIT)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert 2_000_000 <= unpacked < 3_000_000
    assert most < 16_000_000


@pytest.mark.parametrize("size", [2**18 - 1, 2**18, 2**18 + 1, 2**18 + 258, 2**20 + 73])
def test_nothing_of_it_is_left_in_the_unpacker(size: int) -> None:
    packed = gzip.compress(b"a" * size)
    for step in (len(packed), 97):
        unpacker = Unpacker("gzip")
        pieces = [packed[start : start + step] for start in range(0, len(packed), step)]
        assert sum(len(out) for piece in pieces for out in unpacker.unpacked(piece)) == size


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "pancake"])
async def test_what_was_not_asked_for_is_not_unpacked(encoding: str) -> None:
    packed = zstandard.compress(bytes(100_000_000))
    async with served({"/": giving(packed, Content_Encoding=encoding)}) as port, Web() as fetching:
        with pytest.raises(WebError, match="packs its pages in a way"):
            await fetching.get(f"http://127.0.0.1:{port}/", trusted=True)


@pytest.mark.parametrize(
    "body", [b"no such thing", gzip.compress(b"a" * 100)[:-20] + b"xyz" * 20], ids=["none", "broken off"]
)
async def test_broken_packing_is_told(body: bytes) -> None:
    async with served({"/": giving(body, Content_Encoding="gzip")}) as port, Web() as fetching:
        with pytest.raises(WebError, match="came broken"):
            await fetching.get(f"http://127.0.0.1:{port}/", trusted=True)


async def test_thousands_of_tiny_members_are_too_many() -> None:
    body = gzip.compress(b"") * 20_000
    async with served({"/": giving(body, Content_Encoding="gzip")}) as port, Web() as fetching:
        with pytest.raises(WebError, match="came broken"):
            await fetching.get(f"http://127.0.0.1:{port}/", trusted=True)


async def test_large_body_is_refused_before_it_comes() -> None:
    sent = 0

    async def write(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        await writer.drain()
        sent += 1
        await asyncio.sleep(60)

    async with raw(write) as url, Web() as fetching:
        with pytest.raises(WebError, match="larger than 5 MB"):
            await fetching.get(url, trusted=True)
    assert sent == 1


async def test_body_without_a_length_is_cut_off() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
            await writer.drain()

    async with raw(write) as url, Web() as fetching:
        with pytest.raises(WebError, match="larger than 1 MB"):
            await fetching.get(url, trusted=True, most_bytes=1_000_000)
        fetched = await fetching.get(url, trusted=True, most_bytes=1_000_000, cut=True)
    assert len(fetched.body) == 1_000_000


async def _nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _slow_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _slow_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(120):
        writer.write(b"X-More: 1\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _endless_hints(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0)


async def _tiny_chunks(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\na\r\n")
        await writer.drain()
        await asyncio.sleep(0)


@pytest.mark.parametrize("write", [_nothing, _slow_body, _slow_headers, _endless_hints, _tiny_chunks])
async def test_time_is_up_whatever_trickles_in(write: Writes) -> None:
    async with raw(write) as url, Web() as fetching, within("the end: it would trickle on for ever"):
        with pytest.raises(WebError, match=r"took longer than 0\.1 seconds"):
            await fetching.get(url, trusted=True, seconds=0.1)


async def _endless_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(b"X-%d: %b\r\n" % (number, b"a" * 1_000))
        await writer.drain()


async def _long_header(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(1_000):
        writer.write(b"a" * 65_536)
        await writer.drain()


async def _endless_trailers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n")
    for _ in range(100_000):
        writer.write(b"X-More: " + b"a" * 1_000 + b"\r\n")
        await writer.drain()


async def _endless_beginnings(writer: asyncio.StreamWriter) -> None:
    for _ in range(3):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.write(b"nonsense\r\n\r\n" * 100)
    await writer.drain()


@pytest.mark.parametrize("write", [_endless_headers, _long_header, _endless_trailers, _endless_beginnings])
async def test_floods_of_headers_are_cut_off(write: Writes) -> None:
    async with raw(write) as url, Web() as fetching:
        tracemalloc.start()
        try:
            with pytest.raises(WebError, match="could not be reached"):
                await fetching.get(url, trusted=True, seconds=LIMIT)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most < 8_000_000


async def test_types_are_looked_at_before_the_body() -> None:
    async with served({"/": giving(b"\x89PNG", Content_Type="image/png")}) as port, Web() as fetching:
        url = f"http://127.0.0.1:{port}/"
        assert (await fetching.get(url, trusted=True, types=["image/*"])).body == b"\x89PNG"
        with pytest.raises(WebError, match="of the type image/png, which is not read"):
            await fetching.get(url, trusted=True, types=["text/*", "application/json"])


async def test_servers_are_told_who_asks_and_where_that_one_is_found() -> None:
    agents: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        agents.append(request.headers["User-Agent"])
        return web.Response(text="x")

    async with served({"/": handler}) as port, Web() as fetching:
        for contact in ("", "mo@example.org"):
            fetching.contact = contact
            await fetching.get(f"http://127.0.0.1:{port}/", trusted=True)
    plain, reached = agents
    assert re.fullmatch(r"pixi-persona/\S+ \([^()@]+\)", plain)
    assert reached == f"{plain[:-1]}; mo@example.org)"


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "wants a login"),
        (403, "does not give this to everybody"),
        (404, "no such page"),
        (429, "asked too often"),
        (500, "has a fault just now"),
        (418, "refused"),
    ],
)
async def test_refusal_is_told_in_words(status: int, says: str) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="Just so.", headers={"Retry-After": "30"})

    async with served({"/": handler}) as port, Web() as fetching:
        with pytest.raises(WebError, match=says) as refused:
            await fetching.get(f"http://127.0.0.1:{port}/?key=hidden-word", trusted=True)
    assert (refused.value.status, refused.value.body) == (status, b"Just so.")
    assert refused.value.retry_after == 30
    assert "hidden-word" not in str(refused.value)


async def test_nobody_there() -> None:
    async with StagedWeb(Stage()) as fetching:
        with pytest.raises(WebError, match="it does not answer"):
            await fetching.get("http://127.0.0.1:1/?key=hidden-word", trusted=True)
        with pytest.raises(WebError, match="there is no host of that name"):
            await fetching.get("http://nobody.pixi-web.net/")


async def test_a_name_server_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty names are looked up, and none is answered: everything else that needs a thread has one."""
    answered, real = threading.Event(), socket.getaddrinfo

    def hang(host: str, *arguments: object, **named: object) -> object:
        if host.endswith("pixi-web.net"):
            answered.wait(LIMIT)
            raise OSError
        return real(host, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    async with Web() as fetching:
        try:
            asked = [fetching.get(f"http://n{n}.pixi-web.net/", seconds=0.1) for n in range(20)]
            failed = await asyncio.gather(*asked, return_exceptions=True)
            assert all(re.search("took longer", str(each)) for each in failed)
            async with within("a thread that is free"):
                assert await asyncio.to_thread(lambda: "free") == "free"
        finally:
            answered.set()


async def test_the_name_of_a_secure_server_is_verified_though_its_address_is_dialled() -> None:
    stage = Stage(tls=trusting("named"))
    async with served({"/": giving(b"safe")}, speaking_tls("named")) as port:
        right = stage.put("pages.pixi-web.net", port, as_port=443)
        wrong = stage.put("others.pixi-web.net", port, as_port=443)
        async with StagedWeb(stage) as fetching:
            assert (await fetching.get(right)).body == b"safe"
            with pytest.raises(WebError, match="its certificate is not valid"):
                await fetching.get(wrong)
        async with StagedWeb(Stage(stage.hosts, stage.ways)) as fetching:
            with pytest.raises(WebError, match="its certificate is not valid"):
                await fetching.get(right)


async def test_closing_twice_does_no_harm_and_ends_it() -> None:
    fetching = Web()
    await fetching.close()
    await fetching.close()
    with pytest.raises(WebError, match="the program ends"):
        await fetching.get("http://127.0.0.1:1/", trusted=True)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808"]
)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", ["", "8.8.8", "008.8.8.8", "1.2.3.4.5", "a", "::1%lo", "8.8.8.8 "])
def test_no_address_is_not_public(address: str) -> None:
    assert not is_public(address)
