"""Transports to an MCP server: over the pipes of a program that is run for it, or over the network.

A program runs in a process group of its own, so that all that it started is ended with it.
"""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import httpx2
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from msgspec import Struct, field

from pixi.core.untrusted import clipped, prompt_name
from pixi.mcp.offers import NetworkServer, NotStarted, Program
from pixi.mcp.wire import LARGE, MOST_BYTES, ConnectionLog, FilteredStream, LoggedStream, shallow

_CHUNK = 64 * 1024
_POLITE_SECONDS = 1.5  # for a program to leave by itself, once its standard input is closed
_FIRM_SECONDS = 1.0  # more, once it was asked to
_LOOK_SECONDS = 0.01
_STDERR_PAUSE = 0.01  # after a full chunk of standard error, which bounds how fast it is read
_STDERR_TAIL = 2_000  # bytes that are kept of it, the last ones
_PIPE_BYTES = 256 * 1024

_END_BYTES = 512  # of a line that is too long: there its number is looked for
_LONGEST_LINE = 32 * MOST_BYTES  # read and dropped; then the line is taken to have no end
_MOST_WAITING = 2**20  # bytes on the way to a program that does not read
_EXIT_SECONDS = 0.3  # to wait for the end of a program whose output has ended
_LONGEST_LAST_WORDS = 300

_NUMBER = re.compile(rb'"id"\s*:\s*"?(\d{1,18})\b')


class RunningProgram(Struct):
    """A program that runs, with the last bytes of its standard error."""

    process: Process
    stderr_tail: bytearray = field(default_factory=bytearray)

    @property
    def last_line(self) -> str:
        """The last line of its standard error that is not blank; "" where there is none."""
        lines = [line.strip() for line in self.stderr_tail.decode("utf-8", "replace").splitlines()]
        return next(filter(None, reversed(lines)), "")


@asynccontextmanager
async def run_program(program: Program) -> AsyncGenerator[RunningProgram, None]:
    """Run a program as long as the block lasts.

    Raises:
        NotStarted: it cannot be.
    """
    process = await _start(program)
    running = RunningProgram(process)
    reading_stderr = asyncio.create_task(_read_stderr(running))
    try:
        yield running
    finally:
        try:
            await _let_exit(process)
        finally:
            reading_stderr.cancel()
            await _kill(process)
            await asyncio.wait([reading_stderr])


async def _start(program: Program) -> Process:
    starting = asyncio.ensure_future(_spawn(program))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Half started, it would be left behind.
        with suppress(NotStarted):
            await _kill(await starting)
        raise


async def _spawn(program: Program) -> Process:
    path = program.executable()
    try:
        return await asyncio.create_subprocess_exec(
            path,
            *program.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=program.environment,
            cwd=program.folder,
            limit=_PIPE_BYTES,
            start_new_session=sys.platform != "win32",
        )
    except (OSError, ValueError) as error:  # ValueError: a zero byte among the arguments
        why = error.strerror if isinstance(error, OSError) else error
        raise NotStarted(f"{program.command!r} cannot be run ({why}); mend `command`") from None


async def _read_stderr(program: RunningProgram) -> None:
    """Read the program's standard error to its end, and keep the last of it."""
    stream = program.process.stderr
    assert stream is not None
    while chunk := await stream.read(_CHUNK):
        program.stderr_tail += chunk
        del program.stderr_tail[:-_STDERR_TAIL]
        if len(chunk) == _CHUNK:
            await asyncio.sleep(_STDERR_PAUSE)


async def _let_exit(process: Process) -> None:
    """Close the program's input and give it time to end; then ask it to."""
    if process.stdin is not None:
        process.stdin.close()
    if not await has_ended(process, _POLITE_SECONDS):
        _signal(process, signal.SIGTERM)
        await has_ended(process, _FIRM_SECONDS)


async def has_ended(process: Process, seconds: float) -> bool:
    """Wait for a process to end; return False where it still runs after so many seconds."""
    # Not `process.wait()`: that waits for its pipes too, which a child of it may hold open.
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _kill(process: Process) -> None:
    """End the program and all that it started, at once."""
    _signal(process, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    try:
        await has_ended(process, _FIRM_SECONDS)  # else its end is told to a loop that is closed by then
    finally:
        _close_pipes(process)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, number)  # it leads its group, which may outlive it


def _close_pipes(process: Process) -> None:
    # A child that outlived it may hold them open. Nothing public closes what asyncio reads from.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


@asynccontextmanager
async def over_pipes(
    program: Program, wire: ConnectionLog
) -> AsyncGenerator[tuple[FilteredStream, LoggedStream]]:
    """Run a program, and give the streams from it and to it.

    Raises:
        NotStarted: it cannot be run.
    """
    async with run_program(program) as running:
        incoming = _Incoming(running, wire)
        try:
            yield FilteredStream(incoming, wire), LoggedStream(_Outgoing(running), wire)
        except (MCPError, ExceptionGroup):  # it may have ended before anything came from it
            if not wire.ended.is_set() and await has_ended(running.process, _EXIT_SECONDS):
                await incoming.note_end()
            raise


class _TooLong(Struct, frozen=True):
    """A line that was dropped: where it began and where it ended."""

    head: bytes
    tail: bytes


class _Incoming(ObjectReceiveStream[SessionMessage | Exception]):
    def __init__(self, program: RunningProgram, wire: ConnectionLog) -> None:
        assert program.process.stdout is not None
        self._program = program
        self._output = program.process.stdout
        self._wire = wire
        self._buffer = bytearray()  # read, and not yet given out as lines
        self._searched = 0  # bytes of it in which there is no end of a line

    async def aclose(self) -> None:
        """Do nothing: the program is ended by whoever runs it."""

    async def receive(self) -> SessionMessage | Exception:
        while True:
            line = await self._line()
            await asyncio.sleep(0)  # what is there already is read without waiting: let others run
            if line is None:
                await self.note_end()
                raise anyio.EndOfStream
            if isinstance(line, _TooLong):
                if refusal := self._refusal(line):
                    return refusal
            elif line.strip():
                return await _message(line)

    async def _line(self) -> bytes | _TooLong | None:
        """Return the next line; None at the end."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > MOST_BYTES:
                return await self._dropped()
            chunk = await self._output.read(_CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    async def _dropped(self) -> _TooLong | None:
        """Read on to the end of a line that is too long, and keep none of it."""
        head = bytes(self._buffer[:_END_BYTES])
        dropped, end = 0, -1
        while end < 0:
            dropped += max(0, len(self._buffer) - _END_BYTES)
            del self._buffer[:-_END_BYTES]
            if dropped > _LONGEST_LINE:
                self._wire.end("it writes a line without end")
                return None
            chunk = await self._output.read(_CHUNK)
            await asyncio.sleep(0)
            if not chunk:
                return None
            self._buffer += chunk
            end = self._buffer.find(b"\n", len(self._buffer) - len(chunk))
        tail = bytes(self._buffer[max(0, end - _END_BYTES) : end])
        del self._buffer[: end + 1]
        self._searched = 0
        return _TooLong(head, tail)

    def _refusal(self, line: _TooLong) -> SessionMessage | None:
        """Return an error in place of an answer that is too long; None if it answers nothing we asked."""
        told = f"the answer has more than {MOST_BYTES // 2**20} MB, which is refused"
        numbers = [*_NUMBER.findall(line.head), *reversed(_NUMBER.findall(line.tail))]
        asked = [int(number) for number in numbers if int(number) in self._wire.asked]
        if not asked and len(self._wire.asked) == 1:
            asked = [number for number in self._wire.asked if isinstance(number, int)]
        if not asked:
            self._wire.remark = "it sends a message that is too long"
            return None
        error = ErrorData(code=INTERNAL_ERROR, message=told)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=asked[0], error=error))

    async def note_end(self) -> None:
        """Say how the program ended, where it did."""
        await has_ended(self._program.process, _EXIT_SECONDS)
        match self._program.process.returncode:
            case None:
                ended = "it closed its output"
            case status if status < 0:
                ended = f"it was ended by signal {-status}"
            case status:
                ended = f"it ended with status {status}"
        said = one_line_of(self._program.last_line) or self._wire.remark
        self._wire.end(f"{ended}: {said}" if said else ended)


def one_line_of(text: str) -> str:
    """Put a stranger's text on one line, harmless and not too long."""
    visible = "".join(c if c.isprintable() else " " for c in text)
    return clipped(" ".join(visible.split()), _LONGEST_LAST_WORDS)


async def _message(line: bytes) -> SessionMessage | Exception:
    try:
        if len(line) > LARGE:
            return SessionMessage(await asyncio.to_thread(_parsed, line))
        return SessionMessage(_parsed(line))
    except ValueError:
        return ValueError(prompt_name(line[:80].decode("utf-8", "replace")))


def _parsed(line: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(shallow(line), by_name=False)


class _Outgoing(ObjectSendStream[SessionMessage]):
    def __init__(self, program: RunningProgram) -> None:
        assert program.process.stdin is not None
        self._input = program.process.stdin

    async def aclose(self) -> None:
        """Do nothing: see `_Incoming`."""

    async def send(self, item: SessionMessage) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if self._input.is_closing():
            raise anyio.BrokenResourceError
        self._input.write(data)
        if self._input.transport.get_write_buffer_size() > _MOST_WAITING:
            try:
                await self._input.drain()
            except ConnectionError:
                raise anyio.BrokenResourceError from None


_SECONDS = 20.0  # to reach it, and to be rid of what we send. What it sends is waited for by whoever asked.
_GOODBYE = {"connect": 1.0, "read": 1.0, "write": 1.0, "pool": 1.0}


class RefusedAnswer(httpx2.StreamError):
    """An answer that we do not read."""


@asynccontextmanager
async def over_network(
    address: NetworkServer, wire: ConnectionLog
) -> AsyncGenerator[tuple[FilteredStream, LoggedStream]]:
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
        yield FilteredStream(incoming, wire), LoggedStream(outgoing, wire)


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
