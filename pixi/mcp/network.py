"""Messages to and from a server on the network; no answer is too long for us, however long it is."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from pixi.mcp.where import NetworkServer
from pixi.mcp.wire import LARGE, MOST_BYTES, ConnectionLog, NotedStream, Sieve, shallow

_SECONDS = 20.0  # to reach it, and to be rid of what we send. What it sends is waited for by whoever asked.
_GOODBYE = {"connect": 1.0, "read": 1.0, "write": 1.0, "pool": 1.0}


class RefusedAnswer(httpx2.StreamError):
    """An answer that we do not read."""


@asynccontextmanager
async def reached(address: NetworkServer, wire: ConnectionLog) -> AsyncGenerator[tuple[Sieve, NotedStream]]:
    """Reach a server, and give the streams from it and to it."""

    def client(
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(address, wire)

    async with AsyncExitStack() as stack:
        if address.sse:
            transport = sse_client(address.url, httpx_client_factory=client)
        else:
            http = await stack.enter_async_context(client())
            transport = streamable_http_client(address.url, http_client=http, max_sse_event_size=MOST_BYTES)
        incoming, outgoing = await stack.enter_async_context(transport)
        yield Sieve(incoming, wire), NotedStream(outgoing, wire)


def _client(address: NetworkServer, wire: ConnectionLog) -> httpx2.AsyncClient:
    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE":  # of the session, as we leave: no answer is worth a wait
            request.extensions["timeout"] = _GOODBYE

    async def after(response: httpx2.Response) -> None:
        if response.status_code >= 400 and (address.sse or response.request.method == "POST"):
            wire.remark = f"it answers with HTTP {response.status_code}{_mend(response.status_code)}"
        if response.headers.get("content-encoding", "identity") != "identity":
            raise RefusedAnswer("it packs its answers, which it was asked not to do")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Events(response.stream) if events else _Bounded(response.stream)

    return httpx2.AsyncClient(
        headers={**address.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_SECONDS, read=None),
        event_hooks={"request": [before], "response": [after]},
    )


def _mend(status: int) -> str:
    match status:
        case 401 | 403:
            return "; mend `headers`"
        case 404 | 405:
            return "; mend `url` or `type`"
        case _:
            return ""


class _Body(httpx2.AsyncByteStream):
    """A body, of which the SDK reads what it can and no more."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(_Body):
    """An answer of which no more is read than it may have, and nothing that is nested too deeply."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = bytearray()
        async for chunk in self._inner:
            whole += chunk
            if len(whole) > MOST_BYTES:
                raise RefusedAnswer(f"the answer has more than {MOST_BYTES // 2**20} MB, which is refused")
        yield await _shallow(bytes(whole))


class _Events(_Body):
    """A stream of events, in whole lines, and nothing in one that is nested too deeply.

    Each line is handed on with `\\n` at its end, whether the server wrote that, `\\r` or `\\r\\n`: the SDK
    waits behind a `\\r` for what comes next, which may be nothing for long.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun: list[bytes] = []  # pieces of a line whose end has not come
        size = 0
        returned = False  # the chunk before ended with `\r`
        async for came in self._inner:
            chunk = came.removeprefix(b"\n") if returned else came
            returned = chunk.endswith(b"\r")
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if end:
                lines = b"".join((*begun, chunk[:end])).splitlines()
                yield b"".join([await _shallow(line) + b"\n" for line in lines])
                begun, size = [], 0
            begun.append(chunk[end:])
            size += len(chunk) - end
            if size > MOST_BYTES:  # which the SDK refuses by itself
                yield b"".join(begun)
                begun, size = [], 0
        if size:
            yield b"".join(begun)


async def _shallow(message: bytes) -> bytes:
    return await asyncio.to_thread(shallow, message) if len(message) > LARGE else shallow(message)
