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

from pixi.channels.http import requests, server
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


CHAT = ("POST", "/api/chat", JSON)
PACKED = ("POST", "/api/chat", {**JSON, "Content-Encoding": "gzip"})
HOSTILE: tuple[tuple[str, int, str, str, dict[str, str], bytes], ...] = (
    ("broken JSON", 400, *CHAT, b'{"message": '),
    ("not UTF-8", 400, *CHAT, b'{"message": "\xff"}'),
    ("lone surrogate", 400, *CHAT, b'{"message": "\\ud800"}'),
    ("empty", 400, *CHAT, b""),
    ("two values", 400, *CHAT, SAID + b"{}"),
    ("NaN", 400, *CHAT, b'{"message":NaN}'),
    ("a list", 422, *CHAT, b"[]"),
    ("unknown field", 422, *CHAT, b'{"message": "a", "admin": true}'),
    ("wrong type", 422, *CHAT, b'{"message": 7}'),
    ("nothing said", 422, *CHAT, b'{"message": ""}'),
    ("line break in a name", 422, *CHAT, b'{"message": "a", "conversation": "a\\r\\nSet-Cookie: x"}'),
    ("deep nesting", 422, *CHAT, b'{"message":' + b"[" * 400_000),
    ("deep nesting in an unknown field", 422, *CHAT, b'{"x":' + b"[" * 400_000 + b"]" * 400_000 + b"}"),
    ("too long", 413, *CHAT, b"[" * 1_000_001),
    ("no gzip", 400, *PACKED, SAID),
    ("no gzip at /v1", 400, "POST", "/v1/chat/completions", {**JSON, "Content-Encoding": "gzip"}, SAID),
    (
        "a body that unpacks to too much",
        413,
        *PACKED,
        gzip.compress(b'{"message": "' + b"a" * 20_000_000 + b'"}', 1),
    ),
    ("plain text", 415, "POST", "/api/chat", {"Content-Type": "text/plain"}, SAID),
    ("long key", 400, "POST", "/api/chat", {**JSON, "Idempotency-Key": "k" * 2_000}, SAID),
    ("traversal in a persona", 404, *CHAT, b'{"message": "a", "persona": "../../etc/passwd"}'),
    ("another user", 401, *CHAT, b'{"message": "a", "userId": "mo"}'),
    ("wrong method", 405, "DELETE", "/api/chat", {}, b""),
    ("unknown path", 404, "GET", "/api/nothing", {}, b""),
    ("traversal", 404, "GET", "/api/chat/..%2f..%2fetc%2fpasswd/messages", {}, b""),
    ("line break", 404, "GET", "/api/chat/a%0d%0aSet-Cookie:%20x/stream", {}, b""),
    ("NUL", 404, "GET", "/api/chat/a%00b/messages", {}, b""),
    ("a path that is not UTF-8", 404, "GET", "/api/chat/a%ffb/messages", {}, b""),
    ("a surrogate in a path", 404, "GET", "/api/chat/a%ed%a0%80/messages", {}, b""),
    ("odd persona", 400, "GET", f"{TALK}/messages?persona=%00%ff", {}, b""),
    ("odd user", 400, "GET", f"{TALK}/messages?userId=%ff%00", {}, b""),
    ("empty user", 400, "GET", f"/api/files/{'a' * 32}?userId=", {}, b""),
    ("negative number", 400, "GET", f"{TALK}/messages?limit=-1", {}, b""),
    ("Arabic digit", 400, "GET", f"{TALK}/messages?limit=%D9%A3", {}, b""),
    ("5,000 digits", 400, "GET", f"{TALK}/messages?limit={'0' * 19}1{'9' * 5_000}", {}, b""),
    ("long number", 400, "GET", f"{TALK}/messages?before={'0' * 19}1{'9' * 40}", {}, b""),
    ("odd event id", 204, "GET", f"{TALK}/stream", {"Last-Event-ID": "9" * 5_000}, b""),
    ("a turn that is a text", 422, "POST", f"{TALK}/stop", JSON, b'{"turn": "1"}'),
    ("nobody asked", 404, "POST", f"{TALK}/approvals/x", JSON, b'{"approved": true}'),
    ("foreign host", 421, "GET", "/api/personas", {"Host": "evil.example"}, b""),
    ("no host", 421, "GET", "/api/personas", {"Host": ""}, b""),
    ("no port", 421, "GET", "/api/personas", {"Host": "localhost:evil.example"}, b""),
    ("behind a bracket", 421, "GET", "/api/personas", {"Host": "[::1]evil.example"}, b""),
    ("long name of a parameter", 400, "GET", f"/api/personas?{'x' * 5_000}", {}, b""),
    ("preflight elsewhere", 421, "OPTIONS", "/api/chat", {"Host": "evil.example"}, b""),
    ("foreign page", 403, "POST", "/api/chat", {**JSON, "Origin": "https://evil.example"}, SAID),
    ("page of no origin", 403, "POST", "/api/chat", {**JSON, "Origin": "null"}, SAID),
    ("forged key", 401, "GET", "/api/personas", {"Authorization": "Bearer pixi_sk_" + "A" * 43}, b""),
    ("Basic", 401, "GET", "/api/personas", {"Authorization": "Basic YTpi"}, b""),
    ("nesting at /v1", 400, "POST", "/v1/chat/completions", JSON, b"[" * 900_000),
    ("too long at /v1", 413, "POST", "/v1/chat/completions", JSON, b"[" * 1_000_001),
    ("wrong method at /v1", 405, "GET", "/v1/chat/completions", {}, b""),
)
"""Of each request a name, the status that it gets, method, path, headers and body."""


async def test_what_is_wrong_is_refused() -> None:
    rules = HttpRules(requests_per_minute=999)
    async with served("[SEND: hello]", "[SEND: still here]", rules=rules) as here:
        await here.say("hi", conversation="kitchen")
        for name, status, method, path, headers, body in HOSTILE:
            got, answer, text = await _told(here, method, path, headers, body)
            assert got == status, (name, text)
            assert len(here.model.requests) == 1, name
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


async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)
    async with served("[SEND: hello]") as here:
        url = URL(here.url)
        for path, form in (("/api/chat", b'"title"'), ("/v1/chat/completions", b'"error"')):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            try:
                head = f"POST {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
                writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode())
                async with within(f"the body is given up: {path}"):
                    assert b" 408 " in await reader.readline(), path
                    assert await reader.readuntil(form), path
            finally:
                writer.close()
        assert (await here.say("hi"))["text"] == "hello"


async def test_ten_megabytes_of_nesting_are_refused() -> None:
    async with served("[SEND: hello]", rules=HttpRules(max_body_bytes=20_000_000)) as here:
        for path in ("/api/chat", "/api/agui", "/v1/chat/completions"):
            status, _, text = await _told(here, "POST", path, JSON, _nested())
            assert status in (400, 422), (path, text)
        assert (await here.say("hi"))["text"] == "hello"


async def test_a_method_that_a_path_has_not_is_told_the_right_one() -> None:
    go_on = asyncio.Event()
    async with served([go_on, "[SEND: hello]"]) as here:
        asking = asyncio.create_task(here.say("hi", conversation="kitchen"))
        await until(lambda: here.model.streaming)
        for method, path, allowed in (("HEAD", f"{TALK}/stream", "GET"), ("PUT", "/api/chat", "POST")):
            status, answer, text = await _told(here, method, path, {}, b"")
            assert (status, answer.headers["Allow"], bool(text)) == (405, allowed, method == "PUT")
        go_on.set()
        await asking


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


NO_HTTP = {
    "no header": b"GET /api/personas HTTP/1.1\r\nHost: 127.0.0.1\r\nno header\r\n\r\n",
    "long header": b"GET /api/personas HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    "negative length": b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


async def test_what_is_no_http_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with served("[SEND: hello]") as here:
        url = URL(here.url)
        for name, sent in NO_HTTP.items():
            reader, writer = await asyncio.open_connection(url.host, url.port)
            try:
                writer.write(sent)
                async with within(f"it is answered, and the connection closed: {name}"):
                    told = await reader.read()
            finally:
                writer.close()
            assert told.startswith(b"HTTP/1."), name
            assert told.split()[1] == b"400", name
            assert not any(leak in told for leak in (b"Traceback", b".py", b"<html")), name
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
