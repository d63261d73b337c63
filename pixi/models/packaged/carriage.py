"""Carries what a provider's own SDK asks over the connections that all doors here use.

The SDKs speak through httpx2. This is a transport for it on aiohttp: so proxies, certificates, redirects,
limits and the words for what goes wrong are the same behind every door, whichever package wrote the request.
Imported late: httpx2 comes with the SDKs.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import aiohttp
import httpx2
import msgspec
import yarl

from pixi.core.errors import ModelError
from pixi.models import faults
from pixi.models.asking import refusal_in
from pixi.models.complaint import ErrorField, complaint_of
from pixi.models.deadlines import Overdue
from pixi.models.faults import Server
from pixi.models.render import encoded
from pixi.models.reply import is_json
from pixi.models.sse import EventTooLong, SSEDecoder

_MOST_AT_ONCE = 16 * 1024 * 1024  # that is held until it is whole
_NOT_OURS = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
_UNPACKED = frozenset({"content-encoding", "content-length", "transfer-encoding"})

_carried: ContextVar[list[aiohttp.ClientResponse]] = ContextVar("carried")


@contextmanager
def noting() -> Iterator[list[aiohttp.ClientResponse]]:
    """Note the responses to what is asked within this block: an SDK may leave them open."""
    responses: list[aiohttp.ClientResponse] = []
    token = _carried.set(responses)
    try:
        yield responses
    finally:
        _carried.reset(token)


class Carriage(httpx2.AsyncBaseTransport):
    """A transport for an SDK's client. What goes wrong on the way is a `ModelError`, raised through the SDK.

    Args:
        server: whom errors are about.
        session: over which it goes; its owner closes it.
        proxy: on the way to the server.
    """

    def __init__(self, server: Server, session: aiohttp.ClientSession, proxy: str | None) -> None:
        self._server = server
        self._session = session
        self._proxy = proxy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make the request. The answer to a POST is a reply, and comes as `_Events`.

        Raises:
            ModelError: there is no answer, or it is a no.
        """
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_OURS}
        # A compressed stream would come in gulps.
        headers["Accept-Encoding"] = "identity"
        try:
            response = await self._session.request(
                request.method,
                yarl.URL(str(request.url), encoded=True),
                data=await request.aread() or None,
                headers=headers,
                proxy=self._proxy,
                allow_redirects=False,
            )
            if response.status != 200 or response.content_type == "text/html":
                async with response:
                    raise await refusal_in(response, self._server)
        except (aiohttp.ClientError, OSError) as error:
            raise faults.unreachable(self._server, error) from error
        if (responses := _carried.get(None)) is not None:
            responses.append(response)
        kept = [(name, value) for name, value in response.headers.items() if name.lower() not in _UNPACKED]
        body = (_Events if request.method == "POST" else _Body)(response, self._server)
        return httpx2.Response(200, headers=kept, stream=body, request=request)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, in the pieces in which it comes."""

    def __init__(self, response: aiohttp.ClientResponse, server: Server) -> None:
        self._response = response
        self._server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while data := await self._response.content.readany():
                yield data
        except Overdue as error:
            raise faults.overdue(self._server, error) from None
        except (aiohttp.ClientError, OSError) as error:
            raise faults.unreachable(self._server, error) from error

    async def aclose(self) -> None:
        self._response.close()


class _Seen(msgspec.Struct):
    """What is looked at of an event here."""

    error: ErrorField | str | None = None


class _Events(_Body):
    """The body of an answer as server-sent events, each with an object for its data and nothing besides.

    What is no object is left out: one broken event is no reason to lose the rest of a reply, and the SDKs
    have no mercy with it. An error is raised. An answer that is no stream counts as its only event.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder = SSEDecoder()
        whole: bytearray | None = None
        at_start = True
        try:
            async for data in super().__aiter__():
                if at_start:
                    at_start = False
                    whole = bytearray() if data.lstrip()[:1] in (b"{", b"[") else None
                if whole is None:
                    yield self._passed(self._payloads(decoder, data))
                else:
                    whole += data
                    if len(whole) > _MOST_AT_ONCE:
                        raise faults.endless(self._server, _MOST_AT_ONCE)
        except ModelError:
            if whole is None or not is_json(whole):
                raise  # else it is all there, and another length was declared than it has
        yield self._passed(_in_whole(bytes(whole)) if whole is not None else decoder.close())

    def _payloads(self, decoder: SSEDecoder, data: bytes) -> list[bytes]:
        try:
            return decoder.feed(data)
        except EventTooLong as error:
            raise faults.endless(self._server, error.limit) from error

    def _passed(self, payloads: list[bytes]) -> bytes:
        passed: list[bytes] = []
        for payload in map(_mended, payloads):
            try:
                seen = msgspec.json.decode(payload, type=_Seen)
            except (ValueError, RecursionError):
                continue
            if seen.error:
                raise faults.refusal(self._server, complaint_of(seen.error))
            # A line break in it stands between two values, where a blank does as well.
            passed.append(b"data: " + payload.replace(b"\n", b" ") + b"\n\n")
        return b"".join(passed)


def _mended(payload: bytes) -> bytes:
    """The payload with what is no Unicode in it as U+FFFD: halves of surrogate pairs, and broken UTF-8."""
    text = payload.decode("utf-8", "replace")
    if "\ufffd" not in text and "\\ud" not in text and "\\uD" not in text:
        return payload
    try:
        return encoded(json.loads(text))
    except (ValueError, RecursionError):
        return payload


def _in_whole(body: bytes) -> list[bytes]:
    """The events of an answer that is no stream: an object, or a list of them."""
    try:
        return [bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (ValueError, RecursionError):
        return [body]
