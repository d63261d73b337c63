"""What strangers send: each is refused in the form of the path, and nothing is lost or told by it."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from yarl import URL

from pixi.channels.http import server, streams
from pixi.settings.rules import HttpRules
from tests.channels.http.served import Served, served
from tests.waiting import until, within

JSON = {"Content-Type": "application/json"}
SAID = b'{"message": "hi"}'
TALK = "/api/chat/kitchen"


async def _nested() -> AsyncIterator[bytes]:
    yield b'{"messages":'
    for _ in range(10):
        yield b"[" * 1_000_000


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield b"[" * 65_536


async def _told(
    here: Served, method: str, path: str, headers: dict[str, str], body: Any
) -> tuple[int, aiohttp.ClientResponse, str]:
    target = URL(here.url + path, encoded=True)
    async with here.http.request(method, target, headers=headers, data=body or None) as answer:
        return answer.status, answer, await answer.text()


@pytest.mark.parametrize(
    ("status", "method", "path", "headers", "body"),
    [
        pytest.param(400, "POST", "/api/chat", JSON, b'{"message": ', id="broken JSON"),
        pytest.param(400, "POST", "/api/chat", JSON, b'{"message": "\xff"}', id="not UTF-8"),
        pytest.param(400, "POST", "/api/chat", JSON, b'{"message": "\\ud800"}', id="lone surrogate"),
        pytest.param(400, "POST", "/api/chat", JSON, b"", id="empty"),
        pytest.param(400, "POST", "/api/chat", JSON, SAID + b"{}", id="two values"),
        pytest.param(400, "POST", "/api/chat", JSON, b'{"message":NaN}', id="NaN"),
        pytest.param(422, "POST", "/api/chat", JSON, b"[]", id="a list"),
        pytest.param(422, "POST", "/api/chat", JSON, b'{"message": "a", "admin": true}', id="unknown field"),
        pytest.param(422, "POST", "/api/chat", JSON, b'{"message": 7}', id="wrong type"),
        pytest.param(422, "POST", "/api/chat", JSON, b'{"message": ""}', id="nothing said"),
        pytest.param(
            422,
            *("POST", "/api/chat", JSON),
            b'{"message": "a", "conversation": "a\\r\\nSet-Cookie: x"}',
            id="line break in a name",
        ),
        pytest.param(422, "POST", "/api/chat", JSON, b'{"message":' + b"[" * 400_000, id="deep nesting"),
        pytest.param(
            *(422, "POST", "/api/chat", JSON),
            b'{"x":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
            id="deep nesting in an unknown field",
        ),
        pytest.param(413, "POST", "/api/chat", JSON, b"[" * 1_000_001, id="too long"),
        pytest.param(400, "POST", "/api/chat", {**JSON, "Content-Encoding": "gzip"}, SAID, id="no gzip"),
        pytest.param(
            *(400, "POST", "/v1/chat/completions", {**JSON, "Content-Encoding": "gzip"}),
            SAID,
            id="no gzip at /v1",
        ),
        pytest.param(
            *(413, "POST", "/api/chat", {**JSON, "Content-Encoding": "gzip"}),
            gzip.compress(b'{"message": "' + b"a" * 20_000_000 + b'"}', 1),
            id="a body that unpacks to too much",
        ),
        pytest.param(415, "POST", "/api/chat", {"Content-Type": "text/plain"}, SAID, id="plain text"),
        pytest.param(400, "POST", "/api/chat", {**JSON, "Idempotency-Key": "k" * 2_000}, SAID, id="long key"),
        pytest.param(
            *(404, "POST", "/api/chat", JSON),
            b'{"message": "a", "persona": "../../etc/passwd"}',
            id="traversal in a persona",
        ),
        pytest.param(401, "POST", "/api/chat", JSON, b'{"message": "a", "userId": "mo"}', id="another user"),
        pytest.param(405, "DELETE", "/api/chat", {}, b"", id="wrong method"),
        pytest.param(404, "GET", "/api/nothing", {}, b"", id="unknown path"),
        pytest.param(404, "GET", "/api/chat/..%2f..%2fetc%2fpasswd/messages", {}, b"", id="traversal"),
        pytest.param(404, "GET", "/api/chat/a%0d%0aSet-Cookie:%20x/stream", {}, b"", id="line break"),
        pytest.param(404, "GET", "/api/chat/a%00b/messages", {}, b"", id="NUL"),
        pytest.param(404, "GET", "/api/chat/a%ffb/messages", {}, b"", id="a path that is not UTF-8"),
        pytest.param(404, "GET", "/api/chat/a%ed%a0%80/messages", {}, b"", id="a surrogate in a path"),
        pytest.param(400, "GET", f"{TALK}/messages?persona=%00%ff", {}, b"", id="odd persona"),
        pytest.param(400, "GET", f"{TALK}/messages?userId=%ff%00", {}, b"", id="odd user"),
        pytest.param(400, "GET", f"/api/files/{'a' * 32}?userId=", {}, b"", id="empty user"),
        pytest.param(400, "GET", f"{TALK}/messages?limit=-1", {}, b"", id="negative number"),
        pytest.param(400, "GET", f"{TALK}/messages?limit=%D9%A3", {}, b"", id="Arabic digit"),
        pytest.param(
            400, "GET", f"{TALK}/messages?limit={'0' * 19}1{'9' * 5_000}", {}, b"", id="5,000 digits"
        ),
        pytest.param(400, "GET", f"{TALK}/messages?before={'0' * 19}1{'9' * 40}", {}, b"", id="long number"),
        pytest.param(204, "GET", f"{TALK}/stream", {"Last-Event-ID": "9" * 5_000}, b"", id="odd event id"),
        pytest.param(422, "POST", f"{TALK}/stop", JSON, b'{"turn": "1"}', id="a turn that is a text"),
        pytest.param(404, "POST", f"{TALK}/approvals/x", JSON, b'{"approved": true}', id="nobody asked"),
        pytest.param(421, "GET", "/api/personas", {"Host": "evil.example"}, b"", id="foreign host"),
        pytest.param(421, "GET", "/api/personas", {"Host": ""}, b"", id="no host"),
        pytest.param(421, "GET", "/api/personas", {"Host": "localhost:evil.example"}, b"", id="no port"),
        pytest.param(421, "GET", "/api/personas", {"Host": "[::1]evil.example"}, b"", id="behind a bracket"),
        pytest.param(400, "GET", f"/api/personas?{'x' * 5_000}", {}, b"", id="long name of a parameter"),
        pytest.param(421, "OPTIONS", "/api/chat", {"Host": "evil.example"}, b"", id="preflight elsewhere"),
        pytest.param(
            403, "POST", "/api/chat", {**JSON, "Origin": "https://evil.example"}, SAID, id="foreign page"
        ),
        pytest.param(403, "POST", "/api/chat", {**JSON, "Origin": "null"}, SAID, id="page of no origin"),
        pytest.param(
            *(401, "GET", "/api/personas", {"Authorization": "Bearer pixi_sk_" + "A" * 43}),
            b"",
            id="forged key",
        ),
        pytest.param(401, "GET", "/api/personas", {"Authorization": "Basic YTpi"}, b"", id="Basic"),
        pytest.param(400, "POST", "/v1/chat/completions", JSON, b"[" * 900_000, id="nesting at /v1"),
        pytest.param(413, "POST", "/v1/chat/completions", JSON, b"[" * 1_000_001, id="too long at /v1"),
        pytest.param(405, "GET", "/v1/chat/completions", {}, b"", id="wrong method at /v1"),
    ],
)
async def test_what_is_wrong_is_refused(
    status: int, method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    async with served("[SEND: hello]", "[SEND: still here]") as here:
        await here.say("hi", conversation="kitchen")
        got, answer, text = await _told(here, method, path, headers, body)
        assert got == status, text
        assert len(here.model.requests) == 1
        _is_well_told(answer, path, text)
        assert (await here.say("and now?", conversation="kitchen"))["text"] == "still here"


def _is_well_told(answer: aiohttp.ClientResponse, path: str, text: str) -> None:
    """Check that an error has a form, and tells nothing of the machine."""
    assert "Set-Cookie" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    if answer.status == 204:
        return
    assert "Traceback" not in text
    assert ".py" not in text
    told = json.loads(text)
    if path.startswith("/v1"):
        assert told["error"]["message"]
    else:
        assert answer.content_type == "application/problem+json"
        assert told["status"] == answer.status
        assert told["detail"]


async def test_a_body_without_a_length_is_cut_off_where_it_is_too_long() -> None:
    async with served("[SEND: hello]", rules=HttpRules(max_body_bytes=100_000)) as here:
        try:
            async with within("the rest of the body is not waited for"):
                status, _, _ = await _told(here, "POST", "/api/chat", JSON, _endless())
            assert status == 413
        except aiohttp.ClientConnectionError:
            pass  # the connection may be closed while the rest is still sent
        assert (await here.say("hi"))["text"] == "hello"


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_allowed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BODY_SECONDS", 0.05)
    async with served("[SEND: hello]") as here:
        url = URL(here.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            head = f"POST {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode())
            async with within("the body is given up"):
                assert b" 408 " in await reader.readline()
        finally:
            writer.close()
        assert (await here.say("hi"))["text"] == "hello"


@pytest.mark.parametrize("path", ["/api/chat", "/api/agui", "/v1/chat/completions"])
async def test_ten_megabytes_of_nesting_are_refused(path: str) -> None:
    async with served("[SEND: hello]", rules=HttpRules(max_body_bytes=20_000_000)) as here:
        status, _, text = await _told(here, "POST", path, JSON, _nested())
        assert status in (400, 422), text
        assert (await here.say("hi"))["text"] == "hello"


async def test_a_stream_is_not_written_where_an_answer_has_no_body() -> None:
    go_on = asyncio.Event()
    async with served([go_on, "[SEND: hello]"]) as here:
        asking = asyncio.create_task(here.say("hi", conversation="kitchen"))
        await until(lambda: here.model.streaming)
        status, answer, text = await _told(here, "HEAD", f"{TALK}/stream", {}, b"")
        assert (status, answer.headers["Allow"], text) == (405, "GET", "")
        go_on.set()
        await asking


async def test_a_wrong_method_is_told_the_right_one() -> None:
    async with served() as here:
        _, answer, _ = await _told(here, "PUT", "/api/chat", {}, b"")
        assert answer.headers["Allow"] == "POST"


async def test_a_page_that_is_allowed_asks_without_a_key_before_it_calls() -> None:
    page = {"Origin": "https://shop.example"}
    rules = HttpRules(local=False, allowed_origins=("https://shop.example",))
    async with served(rules=rules) as here:
        status, answer, _ = await _told(here, "OPTIONS", "/api/chat", page, b"")
        assert status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
        assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
        assert answer.headers["Vary"] == "Origin"
        status, answer, _ = await _told(here, "GET", "/api/personas", page, b"")
        assert status == 401
        assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /api/personas HTTP/1.1\r\nHost: 127.0.0.1\r\nno header\r\n\r\n",
        b"GET /api/personas HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["no header", "long header", "negative length", "two lengths", "TLS"],
)
async def test_what_is_no_http_is_refused(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served("[SEND: hello]") as here:
        url = URL(here.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(sent)
            async with within("it is answered, and the connection closed"):
                told = await reader.read()
        finally:
            writer.close()
        assert told.startswith(b"HTTP/1.")
        assert told.split()[1] == b"400"
        assert not any(leak in told for leak in (b"Traceback", b".py", b"<html"))
        assert (await here.say("hi"))["text"] == "hello"
        assert caplog.text == ""  # else strangers could fill the log


async def test_a_body_that_cannot_be_unpacked_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as here:
        headers = {**JSON, "Content-Encoding": "gzip"}
        status, _, text = await _told(here, "POST", "/api/chat", headers, SAID)
        assert (status, "Content-Encoding" in text, caplog.text) == (400, True, "")


async def test_a_connection_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENT_SECONDS", 0.01)
    ready = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    async with served() as here:
        url = URL(here.url)

        async def answered() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(ready)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b'{"ok":true}')
                return reader, writer
            return None  # on a busy machine even this was too slow

        found = await until(answered)
        assert found is not None
        reader, kept = found
        for sent in (b"", ready[:30]):
            silent, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(sent)
            async with within("its end"):
                with suppress(ConnectionError):
                    assert await silent.read() == b""
            writer.close()
        kept.write(ready)
        assert (await reader.readuntil(b'{"ok":true}')).startswith(b"HTTP/1.1 200")
        kept.close()
