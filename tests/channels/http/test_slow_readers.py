"""Clients that open a stream and stop reading it cost nobody anything, and are let go."""

import asyncio
import json
import socket

import pytest
from yarl import URL

from pixi.channels.http import streams
from pixi.core.deltas import Text
from tests.channels.http.served import served
from tests.waiting import until, within

PIECE = "x" * 50_000
PIECES = 200


async def test_who_stops_reading_is_let_go_and_the_reply_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "TAKE_SECONDS", 0.05)
    taken = 0
    write = streams._write

    async def counted(*args: object) -> None:
        nonlocal taken
        await write(*args)  # type: ignore[arg-type]
        taken += len(args[1])  # type: ignore[arg-type]

    monkeypatch.setattr(streams, "_write", counted)
    long = [Text("[SEND: "), *[Text(PIECE)] * PIECES, Text("]")]
    async with served(long, "[SEND: to another]") as here:
        url = URL(here.url)
        with socket.socket() as quiet:
            quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            quiet.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(quiet, (url.host, url.port))
            body = json.dumps({"message": "hi", "conversation": "a"})
            head = f"POST /api/chat HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nAccept: text/event-stream\r\n"
            sized = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            await loop.sock_sendall(quiet, f"{head}{sized}{body}".encode())
            await until(lambda: here.model.requests)
            assert (await here.say("ho", conversation="b"))["text"] == "to another"
            await here.backend.engine.settled()
            _, told = await here.get("/api/chat/a/messages")
            assert told["messages"][-1]["text"] == PIECE * PIECES
            await asyncio.sleep(1)
            print("taken", taken)
            got = 0
            async with within("the server closes"):
                try:
                    while data := await loop.sock_recv(quiet, 65536):
                        got += len(data)
                except ConnectionError as e:
                    print(e)
            print(got)
            assert got < len(PIECE) * PIECES
        assert 0
