"""Server-sent events: their frames, and streams that outlive a silence and end for slow readers."""

import asyncio
import json
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec
from aiohttp import web

from pixi.channels.http.feed import KEEP_ALIVE_SECONDS, SILENCE
from pixi.core.errors import PixiError

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
"""Nothing on the way may keep a stream back: no cache, no compression, no buffer of a proxy."""

DONE = b"data: [DONE]\n\n"
"""Ends a stream of OpenAI's and of AI SDK's."""

TAKE_SECONDS = 60.0
"""Seconds in which a client must receive what was written to it."""

_COMMENT = b": \n\n"  # a sign of life

_TAKEN_AT_ONCE = 8_192
"""Bytes that wait to be sent, up to which a connection takes more without a wait; a loop pauses it later."""


def frame(value: Mapping[str, Any], place: str = "") -> bytes:
    """Return one event. A lone surrogate, which UTF-8 cannot hold, becomes a question mark.

    Args:
        value: its data.
        place: its id, by which a reader resumes behind it; "": it has none.
    """
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "replace")
    return b"id: %b\ndata: %b\n\n" % (place.encode(), data) if place else b"data: %b\n\n" % data


class Face(Protocol):
    """Turns events into the bytes of a protocol."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the answer."""
        ...

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; none for an event that is not shown."""
        ...

    def close(self, problem: str = "") -> bytes:
        """Return the bytes that end the stream."""
        ...


class PlainStream:
    """Writes each object as it is, as a server-sent event without an id."""

    headers = HEADERS

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an object."""
        return frame(event)

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream; a problem is told as an object of its own."""
        return frame({"error": problem}) if problem else b""


Events = AsyncGenerator[Sequence[Mapping[str, Any]], None]
"""Events as they come; events that come together are written together."""

Decorate = Callable[[Any], Mapping[str, Any]]
"""Returns an event as the client is told it."""


async def write_stream(
    request: web.Request, face: Face, events: Events, decorate: Decorate = lambda event: event
) -> web.StreamResponse:
    """Write events through a face as they come; events that come together are written at once.

    A client that goes away ends the stream, and nothing else.

    Raises:
        Problem: before the first event: the events cannot be had.
    """
    async with aclosing(events):
        first = await anext(events, ())  # a refusal comes before the head, and has a status of its own
        response = web.StreamResponse(headers=face.headers)
        try:
            await response.prepare(request)
            problem = ""
            try:
                await _write(request, response, _piece(face, first, decorate))
                async for some in events:
                    await _write(request, response, _piece(face, some, decorate))
            except PixiError as error:  # e.g. the client took the events too slowly
                problem = str(error)
            await _write(request, response, face.close(problem))
            await response.write_eof()
        except ConnectionError:
            pass
        except TimeoutError:
            _reset(request)
        return response


async def kept_alive(objects: AsyncGenerator[Mapping[str, Any], None], closing: asyncio.Event) -> Events:
    """Yield objects as they come, and `SILENCE` first and after long silences, until the server closes."""
    yield (SILENCE,)
    closed = asyncio.ensure_future(closing.wait())
    coming: asyncio.Future[Mapping[str, Any]] | None = None  # the next object
    try:
        while not closing.is_set():
            coming = coming or asyncio.ensure_future(anext(objects))
            waited: set[asyncio.Future[Any]] = {coming, closed}
            await asyncio.wait(waited, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                came, coming = coming, None
                try:
                    yield (came.result(),)
                except StopAsyncIteration:
                    return
            elif not closing.is_set():
                yield (SILENCE,)
    finally:
        closed.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await objects.aclose()


def _reset(request: web.Request) -> None:
    """Drop a connection at once. If it were closed, it would be kept until the client took the rest."""
    if (transport := request.transport) is not None:
        at_once = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        transport.abort()


def _piece(face: Face, events: Sequence[Mapping[str, Any]], decorate: Decorate) -> bytes:
    """Return the bytes of events that are written together."""
    return b"".join(_COMMENT if event is SILENCE else face.feed(decorate(event)) for event in events)


async def _write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Write bytes; wait only where the client takes them slowly.

    Raises:
        TimeoutError: the client takes them too slowly.
    """
    transport = request.transport
    if not data:
        return
    if transport is not None and transport.get_write_buffer_size() + len(data) < _TAKEN_AT_ONCE:
        await response.write(data)  # waits for nobody
        return
    async with asyncio.timeout(TAKE_SECONDS):
        await response.write(data)
