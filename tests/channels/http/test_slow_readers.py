"""Clients that open a stream and stop reading it cost nobody anything, and are let go."""

import asyncio
import errno
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from pixi.channels.http import feed, streams
from pixi.core.llm import Text
from pixi.core.spending import Limits
from tests.channels.http.served import served
from tests.waiting import until

PIECE = "x" * 50_000
PIECES = 110  # more than the two sockets hold between them: 4 MB, as a rule
LONG = [Text("[SEND: "), *[Text(PIECE)] * PIECES, Text("]")]
DROPPED = "Events were dropped: read the messages, and follow anew."
LONG_LIMITS = Limits(argument_characters=10**8, reply_characters=10**8)


@asynccontextmanager
async def silent_client(url: URL, path: str, body: object) -> AsyncGenerator[socket.socket, None]:
    """A client that asks for a stream, and reads nothing of it."""
    told = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nAccept: text/event-stream\r\n"
    sized = f"Content-Type: application/json\r\nContent-Length: {len(told)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, (url.host, url.port))
        await loop.sock_sendall(client, f"{head}{sized}{told}".encode())
        yield client


async def test_who_stops_reading_is_let_go_and_the_reply_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr(feed, "RING", 10**6)  # all is kept for the client, and it does not take it
    async with served(LONG, "[SEND: to another]") as here:
        engine = here.backend.engine
        engine.settings.limits = LONG_LIMITS
        asked = {"message": "hi", "conversation": "a"}
        async with silent_client(URL(here.url), "/api/chat", asked) as client:
            await until(lambda: here.model.requests)
            assert (await here.say("ho", conversation="b"))["text"] == "to another"
            await engine.settled()
            _, told = await here.get("/api/chat/a/messages")
            assert told["messages"][-1]["text"] == PIECE * PIECES
            # The server does not wait until the client takes what lies there: it resets the connection.
            await until(lambda: client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET)


async def test_who_falls_behind_is_told_so_and_reads_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RING", 100)
    async with served(LONG) as here:
        engine = here.backend.engine
        engine.settings.limits = LONG_LIMITS
        asked = {"message": "hi", "conversation": "a"}
        async with silent_client(URL(here.url), "/api/chat", asked) as client:
            await until(lambda: here.model.requests)
            await engine.settled()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
            told = b""
            while DROPPED.encode() not in told[-1_000:]:
                told += (read := await asyncio.get_running_loop().sock_recv(client, 2**20))
                assert read, "the stream ended without a word"
        _, kept = await here.get("/api/chat/a/messages")
        assert kept["messages"][-1]["text"] == PIECE * PIECES
