"""Serves Pixi to MCP clients, over HTTP or over standard input and output."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout
from importlib.util import find_spec
from ipaddress import IPv6Address, ip_address
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from pixi.app.databases import open_library
from pixi.app.mcp_server.handlers import McpTalks
from pixi.app.personas import folders_of
from pixi.channels.terminal.lines import read_chunks
from pixi.core.errors import ConfigError, Reporter
from pixi.core.masking import SecretRedactor
from pixi.personas.files import LoadedPersona, list_personas
from pixi.settings import Settings
from pixi.settings.rules import cannot_listen
from pixi.settings.secret import secrets_in

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from starlette.applications import Starlette

    from pixi.app.mcp_server.handlers import OpenUsage


class Output:
    """Standard output as the file that the SDK writes messages to.

    A thread of its own writes. It is a daemon: a client that does not read cannot keep
    the program alive.

    Attributes:
        idle: set while nothing is being written.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._texts: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self.idle = asyncio.Event()
        self.idle.set()
        threading.Thread(target=self._write, name="standard output", daemon=True).start()

    async def write(self, text: str) -> None:
        """Write a text, whole.

        Raises:
            OSError: nobody can read it any more.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self.idle.clear()
        self._texts.put((text.encode(), done))
        try:
            await done
        finally:
            self.idle.set()

    async def flush(self) -> None:
        """Do nothing: what was written is on its way."""

    def _write(self) -> None:
        while True:
            data, done = self._texts.get()
            error: OSError | None = None
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as failed:
                error = failed
            try:
                self._loop.call_soon_threadsafe(_end, done, error)
            except RuntimeError:  # the loop is closed
                return


def _end(done: "asyncio.Future[None]", error: OSError | None) -> None:
    if done.done():  # who waited was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


@contextmanager
def standard_output() -> Iterator[Output]:
    """Keep standard output for messages within the block; all that prints goes to standard error."""
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield Output(own)  # it is never closed: the thread may be stuck in it
    finally:
        os.dup2(own, sys.stdout.fileno())


MOST_SESSIONS = 500
"""Sessions open at once; a client that wants another is told to come later. Each holds some 40 KB."""

IDLE_SECONDS = 900.0
"""Seconds without a request and without an open stream after which a session ends."""

MOST_CONNECTIONS = 256
"""Connections open at once; more are closed before they say anything. Each takes a file descriptor."""

REQUEST_SECONDS = 15.0
"""Seconds for a request to arrive, from the opening of its connection to its last byte."""

ANSWER_SECONDS = 60.0
"""Seconds for a client to receive what was written. An answer is some MB at most."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


# Serve MCP clients as streamable HTTP: at one address that was judged, to those who call it by its name.
#
# There is no password, so three things are bounded by construction: who can reach the port (the address
# that was looked up is judged, and bound), who may speak (`Host` and `Origin` are compared whole, so that a
# page in a browser cannot, by whatever name it found the port), and what strangers can hold (sessions,
# connections, and the time that a request may take to arrive, and its answer to be taken).


class Endpoint(Struct, frozen=True):
    """Address at which the server listens.

    Attributes:
        host: as the operator wrote it.
        family: of the socket.
        address: what the host was resolved to, as a socket is bound to it.
    """

    host: str
    family: socket.AddressFamily
    address: tuple[Any, ...]

    @property
    def shown(self) -> str:
        """Return the host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def names(self) -> set[str]:
        """Return every way in which a `Host` header may name the address, without the port."""
        number = ip_address(str(self.address[0]).partition("%")[0])
        names = {self.shown.lower(), f"[{number}]" if number.version == 6 else str(number)}
        names.add(self.shown.encode("idna").decode("ascii").lower())  # as it was looked up
        return names.union(_LOOPBACK) if number.is_loopback else names


def resolve(host: str, port: int) -> Endpoint:
    """Look a host up, once, and judge what comes of it: not its spelling, of which zero alone has dozens.

    Raises:
        ConfigError: there is no such host, or it would be listened on every network.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM) if host else []
    except (OSError, UnicodeError) as error:
        raise cannot_listen(f"--http {host}:{port}", error) from None
    if not found or any(_is_everywhere(each[4]) for each in found):
        raise ConfigError(
            f"--http {host or '…'} would listen on every network, and there is no password: name the one "
            "address by which clients reach this computer."
        )
    family, _, _, _, address = found[0]
    return Endpoint(host, family, address)


async def serve_http(server: "Server[Any]", endpoint: Endpoint, report: Reporter) -> None:
    """Serve all clients at an address, until it is cancelled.

    Raises:
        ConfigError: the address cannot be listened on.
    """

    class SignalFreeServer(uvicorn.Server):
        """Leave the signals to the program that runs it."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    with _listening(endpoint) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            web_app(server, endpoint, port),
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            lifespan="on",
            ws="none",
        )
        web = SignalFreeServer(config)
        serving = asyncio.create_task(web.serve(sockets=[listener]))
        report(f"serving at http://{endpoint.shown}:{port}/mcp until Ctrl-C.")
        try:
            await asyncio.shield(serving)
        finally:
            web.should_exit = True
            await asyncio.wait([serving])


def web_app(server: "Server[Any]", endpoint: Endpoint, port: int) -> "Starlette":
    """Build the web application that answers requests to its own name and port.

    Every name is listed whole: a pattern for ports (`localhost:*`) is compared by its beginning alone.
    """
    hosts = [f"{name}:{port}" for name in endpoint.names()]
    if port == 80:  # then clients leave it out
        hosts += endpoint.names()
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    return server.streamable_http_app(
        transport_security=security, session_idle_timeout=IDLE_SECONDS, max_sessions=MOST_SESSIONS
    )


class TimedProtocol(H11Protocol):
    """Close a connection where a request, or the taking of an answer, lasts too long; uvicorn would wait.

    uvicorn's own `timeout_keep_alive` runs between requests and ends with the first byte of the next one. So
    this one runs whenever the client owes something, and more bytes do not prolong it. Connections are
    aborted: `close` would wait until the client has taken all that was written.
    """

    _request: asyncio.TimerHandle | None = None  # runs while a request is owed or is coming
    _answer: asyncio.TimerHandle | None = None  # runs while written bytes are not taken

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that one byte that is not taken counts
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request, of which a part may have come already."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Begin to wait for the client to take what was written."""
        super().pause_writing()
        self._answer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """End that wait: all was taken."""
        _cancel(self._answer)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        _cancel(self._request)
        _cancel(self._answer)
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the time of a request that is to come, or is coming; end it when all of it is there."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            _cancel(self._request)
            self._request = None
        elif self._request is None:
            self._request = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _is_everywhere(address: tuple[Any, ...]) -> bool:
    """Return True if a socket that is bound there listens on all networks."""
    number = ip_address(str(address[0]).partition("%")[0])
    if isinstance(number, IPv6Address) and number.ipv4_mapped is not None:
        return number.ipv4_mapped.is_unspecified
    return number.is_unspecified


@contextmanager
def _listening(endpoint: Endpoint) -> Iterator[socket.socket]:
    try:
        listener = socket.create_server(endpoint.address, family=endpoint.family)
    except OSError as error:
        raise cannot_listen(f"--http {endpoint.host}:{endpoint.address[1]}", error) from None
    with listener:
        yield listener


_LONGEST_LINE = 4 * 1024 * 1024  # bytes of one message of a client


def require_sdk() -> None:
    """See that the SDK is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("mcp") is None:
        raise ConfigError('`pixi-persona mcp` needs the MCP SDK: pip install "pixi-persona[mcp]"')


@asynccontextmanager
async def open_server(
    settings: Settings, open_usage: "OpenUsage", *, user: str, alone: bool, report: Reporter
) -> AsyncGenerator["Server[Any]", None]:
    """Open what is served; the model that answers and the one that reads are opened when they are wanted.

    Args:
        settings: of the operator.
        open_usage: opens the record of use.
        user: the name of the one who writes to personas.
        alone: the client that started the program is its only one.
        report: called with lines that a person should know.

    Raises:
        ConfigError: a folder of personas or databases is not there.
    """
    from pixi.app.mcp_server.handlers import Handlers

    found = await asyncio.to_thread(list_personas, folders_of(settings))
    personas = {each.path.stem: each.persona for each in found if isinstance(each, LoadedPersona)}
    for each in found:
        if not isinstance(each, LoadedPersona):
            for fault in each.faults:
                report(fault)
    talks = McpTalks(settings, user, report, alone=alone)
    async with open_library(settings, reads=False, follow=True) as library:
        try:
            mask = SecretRedactor()
            mask.learn(secrets_in(settings))
            yield Handlers(library, personas, talks, open_usage, mask, alone=alone).server()
        finally:
            await talks.close()


async def serve_stdio(server: "Server[Any]", descriptor: int) -> None:
    """Serve the client that started the program, until the input ends. Only that reaches standard output."""
    import anyio
    from mcp.server.stdio import stdio_server

    with standard_output() as output, redirect_stdout(sys.stderr):
        async with aclosing(_lines(descriptor, output)) as lines:
            # It wants files, and asks them for nothing but to give lines and to take text.
            stdin: anyio.AsyncFile[str] = lines  # type: ignore[assignment]
            stdout: anyio.AsyncFile[str] = output  # type: ignore[assignment]
            try:
                async with stdio_server(stdin, stdout) as (incoming, outgoing):
                    await server.run(incoming, outgoing, server.create_initialization_options())
            except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # nobody listens any more, or the SDK was ended while somebody spoke
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _lines(descriptor: int, output: Output) -> AsyncGenerator[str, None]:
    """Yield the lines of standard input; one that is too long is given as nothing that means anything.

    While a client does not take what it is told, nothing more is read.
    """
    pending = bytearray()
    async with aclosing(read_chunks(descriptor)) as chunks:
        async for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                await output.idle.wait()
                pending += line
                yield pending.decode("utf-8", "replace") if len(pending) <= _LONGEST_LINE else "null"
                pending.clear()
            if len(pending) <= _LONGEST_LINE:
                pending += rest
