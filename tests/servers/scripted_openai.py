"""An OpenAI-compatible server that answers as a test says, over real sockets and down to the byte.

    async with ScriptedOpenAI(stream("Hel", "lo", finish())) as server:
        model = ServerModel("scripted", base_url=server.base_url)
        ...
        assert server.requests[0].json()["model"] == "scripted"

A reply is a list of steps: bytes (each one write of its own), `Wait`, `Later`, `Until`, `Tell`, `Hang`,
`Stall`, `Close`, `Reset`, `Flood`. The builders `stream`, `answer` and `page` make the usual ones. The
replies are given in their order and the last one is given again and again; or a function chooses:
`ScriptedOpenAI(choose=lambda request: ...)`. Questions about itself (`ABOUT`) are no requests for it: it
knows no such paths, unless `about` answers them. What servers do wrong stands in `model_faults`.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.waiting import put_forward

Json = dict[str, Any]

ABOUT = ("/props", "/api/show", "/v1/models", "/healthz")
"""What servers of one's own are asked about their models. A list of models is asked for by others, too.

Whether somebody is well is asked by other tests, of a program that had this port before.
"""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Do nothing until the test says so, or the client goes."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the test that it has come so far: all before it was read, but for some hundred kilobytes."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Hang:
    """Do nothing until the client goes."""


@dataclass(frozen=True, slots=True)
class Later:
    """Let so many seconds pass on the loop's clock, without waiting for them."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Do nothing until the client goes, while time passes quickly on the loop's clock."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection in an orderly way."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection off, with a reset."""


@dataclass(frozen=True, slots=True)
class Flood:
    """Write a piece again and again, so many times or until the client goes."""

    piece: bytes
    times: int


Step = bytes | Wait | Later | Until | Tell | Hang | Stall | Close | Reset | Flood


@dataclass(frozen=True, slots=True)
class Reply:
    """What is done on the connection after a request."""

    steps: tuple[Step, ...]

    def then(self, *steps: Step) -> "Reply":
        """The same with more steps after it."""
        return Reply((*self.steps, *steps))

    def bytewise(self) -> "Reply":
        """The same with each byte written by itself."""
        cut: list[Step] = []
        for step in self.steps:
            cut += [bytes([byte]) for byte in step] if isinstance(step, bytes) else [step]
        return Reply(tuple(cut))


@dataclass(slots=True)
class Seen:
    """A request that came. `gone` is set when its client has closed the connection."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    connection: int
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def json(self) -> Json:
        """The body."""
        fields: Json = json.loads(self.body)
        return fields


def content(text: str, **fields: Any) -> Json:
    """A chunk with a piece of the reply."""
    return chunk({"content": text}, **fields)


def chunk(delta: Json, *, finish_reason: str | None = None, **fields: Any) -> Json:
    """A chunk as servers send them."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000}
    return {**head, "model": "scripted", "choices": [choice], **fields}


def call(
    name: str | None = None,
    arguments: str | None = None,
    *,
    index: int | None = None,
    call_id: str | None = None,
) -> Json:
    """A chunk with a piece of a tool call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece: Json = {"type": "function", "function": function}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece["id"] = call_id
    return chunk({"tool_calls": [piece]})


def finish(reason: str = "stop") -> Json:
    """The chunk that says why the reply ended."""
    return chunk({}, finish_reason=reason)


def usage(prompt: int, completion: int, **more: Any) -> Json:
    """The last chunk, which has no choices."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"object": "chat.completion.chunk", "choices": [], "usage": {**counts, **more}}


def event(payload: Json | str) -> bytes:
    """A server-sent event."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def head(status: int = 200, content_type: str = "text/event-stream", **headers: str) -> bytes:
    """The head of a response; `retry_after="1"` makes the header `retry-after: 1`."""
    lines = [f"HTTP/1.1 {status} Scripted", f"content-type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode()


def stream(
    *items: str | Json | Step, done: bool = True, end: bool = True, content_type: str = "text/event-stream"
) -> Reply:
    """A streamed reply, each item one write and one HTTP chunk.

    Args:
        items: a str is a piece of content, a dict an event's payload, bytes raw event-stream text.
        done: `[DONE]` comes last.
        end: the HTTP body is ended as it should be; if not, the connection is closed in its middle.
    """
    steps: list[Step] = [head(content_type=content_type, transfer_encoding="chunked")]
    for item in (*items, event("[DONE]")) if done else items:
        if isinstance(item, str):
            steps.append(_framed(event(content(item))))
        elif isinstance(item, dict):
            steps.append(_framed(event(item)))
        elif isinstance(item, bytes):
            steps.append(_framed(item))
        else:
            steps.append(item)
    return Reply((*steps, b"0\r\n\r\n" if end else Close()))


def answer(status: int, payload: Json | str, content_type: str = "application/json", **headers: str) -> Reply:
    """An answer that is whole: an error, a list of models, a web page."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    body = text.encode()
    return Reply((head(status, content_type, content_length=str(len(body)), **headers) + body,))


def error(status: int, message: str, *, code: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words them."""
    fields = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return answer(status, {"error": fields}, **headers)


def page(status: int = 200) -> Reply:
    """A web page."""
    return answer(status, "<!doctype html><title>Welcome</title>", "text/html; charset=utf-8")


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class LoopbackServer:
    """A server on a free port of 127.0.0.1: an async context manager. A subclass serves a connection."""

    _tls: ssl.SSLContext | None = None
    """With what connections begin to speak TLS."""

    def __init__(self) -> None:
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class ScriptedOpenAI(LoopbackServer):
    """The server: an async context manager that listens on a free port of 127.0.0.1.

    Args:
        replies: what is answered.
        choose: chooses the answer to each request instead.
        about: answers the questions about itself, by their paths, each with its replies in turn.
        tls: with what it speaks TLS; None: it does not.

    Attributes:
        requests: those that came, in their order.
        questions: those about itself.
        connections: how many were made.
        asked: set when the first request has come.
    """

    def __init__(
        self,
        *replies: Reply,
        choose: Callable[[Seen], Reply] | None = None,
        about: Mapping[str, Sequence[Reply]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self.requests: list[Seen] = []
        self.questions: list[Seen] = []
        self._about = {path: list(replies) for path, replies in (about or {}).items()}
        self.connections = 0
        self.asked = asyncio.Event()
        self._replies = list(replies)
        self._choose = choose or self._next
        self._tls = tls

    @property
    def base_url(self) -> str:
        """What a model is given."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    def _reply_to(self, seen: Seen) -> Reply:
        path = seen.path.partition("?")[0]
        if path not in ABOUT or (path == "/v1/models" and path not in self._about):
            self.requests.append(seen)
            self.asked.set()
            return self._choose(seen)
        self.questions.append(seen)
        replies = self._about.get(path, [answer(404, {})])
        return replies[0] if len(replies) == 1 else replies.pop(0)

    def _next(self, _: Seen) -> Reply:
        return self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        if self._tls is None:  # whose own buffer is never quite empty
            # What was written has been read, but for a little: nothing gathers here or in the kernel.
            writer.transport.set_write_buffer_limits(high=0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        try:
            while True:
                seen = await self._read_request(reader, number)
                for step in self._reply_to(seen).steps:
                    await self._do(step, seen, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client, or the script, broke the connection off.
            pass
        finally:
            for request in (*self.requests, *self.questions):
                if request.connection == number:
                    request.gone.set()
            writer.close()

    async def _read_request(self, reader: asyncio.StreamReader, connection: int) -> Seen:
        raw = await reader.readuntil(b"\r\n\r\n")
        first, *rest = raw.decode("latin-1").split("\r\n")[:-2]
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(method, path, headers, body, asyncio.get_running_loop().time(), connection)

    async def _do(
        self, step: Step, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
                # A turn of the loop, so that the client has a chance to read this piece by itself.
                await asyncio.sleep(0)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Later(seconds):
                await _later(seconds)
            case Until(event):
                if not await _comes_first(event, reader):
                    seen.gone.set()
                    raise ConnectionResetError
            case Tell(event):
                event.set()
            case Hang():
                await reader.read(1)
                seen.gone.set()
                raise ConnectionResetError
            case Stall():
                gone = asyncio.ensure_future(reader.read(1))
                while not gone.done():
                    # In small steps: of a great one, a deadline would take it that this loop stood still.
                    await _later(0.2)
                seen.gone.set()
                raise ConnectionResetError
            case Flood(piece, times):
                for _ in range(times):
                    writer.write(piece)
                    await writer.drain()
            case Close():
                raise ConnectionResetError
            case Reset():
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                raise ConnectionResetError


async def _later(seconds: float) -> None:
    put_forward(seconds)
    # Not 0: what is on its way through the kernel arrives before more time passes.
    await asyncio.sleep(0.001)


async def _comes_first(event: asyncio.Event, reader: asyncio.StreamReader) -> bool:
    """Whether an event is set before the client goes."""
    told = asyncio.ensure_future(event.wait())
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({told, gone}, return_when=asyncio.FIRST_COMPLETED)
        return told.done()
    finally:
        told.cancel()
        gone.cancel()
        await asyncio.gather(told, gone, return_exceptions=True)
