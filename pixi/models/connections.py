"""Connections to model servers: addresses, keys, proxies, the session, and bodies that are pushed.

aiohttp reads a body into a `StreamReader`, which wakes a task that then reads it: a turn of the loop and, for
each chunk, some six microseconds of bookkeeping. A stream of events wants neither. So the reader of a reply
is made a `_Body`, which gathers what the parser feeds it, and the connection tells of it when the parser is
done: `PushedBody` calls back in the call in which the bytes arrived. Connections, TLS, proxies, chunks,
compression and keep-alive stay aiohttp's.
"""

import asyncio
import functools
import ipaddress
import re
import ssl
import urllib.request
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler

from pixi.core.errors import ConfigError
from pixi.core.masking import redact_addresses

_CONNECT_SECONDS = 10.0
# A connection is worth this much waiting for the end of its last answer, so that the next needs none anew.
_DRAIN_SECONDS = 0.05
_MOST_HELD = 256 * 1024  # bytes of a body that wait to be taken; above them its connection is not read
_HEAD_OF_REPLY = re.compile(rb"HTTP/1\.[01] 200\b.*?\r\n\r\n", re.DOTALL)
_DECLARED = re.compile(rb"(?<=\r\n)content-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_NOTHING: deque[bytes] = deque(maxlen=0)
# Endings of names of private networks: RFC 6762, RFC 8375, ICANN's .internal, what routers and VPNs give.
_NEAR_NAMES = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".ts.net")


class _Connection(ResponseHandler):
    """A connection to a model server, whose reply can be pushed.

    A server may declare fewer bytes than it sends. aiohttp takes what is beyond them for another answer,
    finds none, and drops both. Nothing is ever asked before the last answer is read: so what comes along
    with a reply is the reply's, and it ends where the connection does, as one that declares nothing.

    Attributes:
        arrived: called when something of a pushed body was fed, or the connection was lost; None: nobody
            reads.
        pieces: of that body, which were not taken yet.
        held: their bytes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.arrived: Callable[[], None] | None = None
        self.pieces: list[bytes] = []
        self.held = 0

    def data_received(self, data: bytes) -> None:
        """Parse what came, and tell the reader of its body."""
        if self.arrived is None and data.startswith(b"HTTP/"):
            data = _without_false_length(data)
        super().data_received(data)
        if self.arrived is not None:
            self.arrived()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what is read from it."""
        super().connection_lost(exc)
        if self.arrived is not None:
            self.arrived()


class _Body(aiohttp.StreamReader):
    """A body that leaves what it is fed with its connection."""

    __slots__ = ()
    _protocol: _Connection

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        """Take a piece of the body."""
        connection = self._protocol
        connection.pieces.append(data)
        connection.held += len(data)
        if connection.held > _MOST_HELD:
            connection.pause_reading()  # stops the parser, too: a small packed body may be a huge one
        return False

    def _read_nowait(self, n: int) -> bytes:
        """Give all that came along with the head. aiohttp would ask after each chunk whether to read on."""
        data = b"".join(self._buffer)
        self._buffer, self._http_chunk_splits = _NOTHING, None  # of no use any more, and 760 bytes each
        self._size = 0
        self._protocol.resume_reading()
        return data

    def begin_http_chunk_receiving(self) -> None:
        """Pass over where chunks begin and end: that says nothing of events."""

    def end_http_chunk_receiving(self) -> None:
        """See `begin_http_chunk_receiving`."""


class PushedBody:
    """The body of a response, pushed: `start` it, and `take` what came at each call.

    Args:
        response: of a session that `open_session` made; its body is read here alone.

    Attributes:
        has_ended: nothing comes after what was taken.
        fault: what broke the body off; None: nothing did.
        is_paused: nothing more is read from the network until `resume`.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.has_ended = False
        self.fault: BaseException | None = None
        self.is_paused = False
        self._content = response.content
        self._begun = b""  # bytes that came along with the head
        self._connection: _Connection | None = None  # None: nothing comes from there any more
        if type(self._content) is aiohttp.StreamReader:  # else the response has no body
            self._content.__class__ = _Body
        if response.connection is not None and not self._content.is_eof():
            assert isinstance(response.connection.protocol, _Connection)
            self._connection = response.connection.protocol
        if self._content.exception() is None:
            self._begun = self._content.read_nowait()
        if self._connection is None:
            self._end()

    def start(self, arrived: Callable[[], None]) -> None:
        """Have `arrived` called when more came, or the body ended: in the call in which the loop tells."""
        if self._connection is not None:
            self._connection.arrived = arrived

    def take(self) -> bytes:
        """Return what came since the last call; nothing is kept."""
        data, self._begun = self._begun, b""
        connection = self._connection
        if connection is None:
            return data
        pieces = connection.pieces
        if pieces:
            data = pieces[0] if len(pieces) == 1 and not data else data + b"".join(pieces)
            pieces.clear()
            self.is_paused |= connection.held > _MOST_HELD
            connection.held = 0
        content = self._content  # its attributes: two calls are a thirtieth of what a chunk costs
        if connection.transport is None or content._eof or content._exception is not None:
            self._end()
        return data

    def pause(self) -> None:
        """Read no more from the network until `resume`."""
        if self._connection is not None and not self.is_paused:
            self.is_paused = True
            self._pause_transport()

    def resume(self) -> None:
        """Read on. What waits to be parsed arrives at once."""
        self.is_paused = False
        if self._connection is not None:
            self._connection.resume_reading()
        if self.is_paused:
            self._pause_transport()  # enough came of what waited

    def stop(self) -> None:
        """Take nothing more of it."""
        if self._connection is not None:
            self._connection.arrived = None
            self._connection.pieces.clear()
            self._connection.held = 0
            self._connection = None

    async def drain(self) -> None:
        """Wait a moment for the end, so that the connection can serve again; what comes is dropped."""
        if self.has_ended:
            return
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def arrived() -> None:
            self.take()
            if self.is_paused:
                loop.call_soon(self.resume)
            if self.has_ended and not ended.done():
                ended.set_result(None)

        self.start(arrived)
        arrived()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await ended

    def _end(self) -> None:
        self.has_ended = True
        self.fault = self._content.exception()
        if self.fault is None and not self._content.is_eof():
            self.fault = aiohttp.ClientPayloadError("the connection was lost")
        self.stop()  # it may serve another from now on

    def _pause_transport(self) -> None:
        transport = self._connection.transport if self._connection is not None else None
        if transport is not None:
            transport.pause_reading()


def open_session(*, force_close: bool = False, tls: ssl.SSLContext | bool = True) -> aiohttp.ClientSession:
    """Open a session as the doors want it. One for all models of a process; its owner closes it.

    Args:
        force_close: use each connection once.
        tls: who is trusted; True: whom the system trusts.
    """
    connector = aiohttp.TCPConnector(limit=0, force_close=force_close, ssl=tls)
    # aiohttp has no public way to name another class for its connections.
    made = functools.partial(_Connection, loop=asyncio.get_running_loop())
    connector._factory = made  # type: ignore[assignment]  # a partial of a subclass is none of its base
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # The deadlines are on content, and are the door's own.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    )


async def beginning_of(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read the body of a response, or a little more than so many bytes of it."""
    content = bytearray()
    while len(content) <= limit and (data := await response.content.readany()):
        content += data
    return bytes(content)


def _without_false_length(data: bytes) -> bytes:
    """Return the beginning of an answer without the length that it declares, where more than that came."""
    head = _HEAD_OF_REPLY.match(data)
    declared = _DECLARED.search(data, 0, head.end()) if head else None
    if head and declared and data[head.end() + int(declared[1]) :].strip():
        return data[: declared.start()] + data[declared.end() :]
    return data


def checked_address(
    base_url: str, *, key_name: str = "OPENAI_API_KEY", example: str = "https://api.openai.com/v1"
) -> yarl.URL:
    """Return an address that can be asked.

    Args:
        key_name: the variable that holds its key.
        example: an address of its kind, for people.

    Raises:
        ConfigError: it cannot be asked.
    """
    try:
        url = yarl.URL(base_url.strip().rstrip("/"))
        (url.host or "").encode("idna")  # as the look-up will, in a thread, where it would be nobody's error
        usable = url.scheme in ("http", "https") and url.host and url.port and not url.query_string
    except ValueError:
        usable = False
        url = yarl.URL()
    if url.user is not None or url.password is not None or (not usable and "@" in base_url):
        raise ConfigError(f"base_url holds a user or a password: put the key into {key_name} instead.")
    if not usable:
        raise ConfigError(f"base_url is {redact_addresses(base_url)!r}: write it like {example}")
    return url


def checked_key(api_key: str | None, *, key_name: str = "OPENAI_API_KEY") -> str | None:
    """Return the key without the line break that came with copying it; None for none.

    Raises:
        ConfigError: it holds what no header can carry.
    """
    key = (api_key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{key_name} holds characters that no key has: copy it again.")
    return key or None


def proxy_for(url: yarl.URL) -> str | None:
    """Return the proxy that the environment names for an address.

    aiohttp's own look-up would read `.netrc` too.

    Raises:
        ConfigError: it is of a kind that cannot be used.
    """
    # No proxy reaches what runs on this machine, such as the bundled model.
    if is_loopback(url.host or "") or urllib.request.proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxy = urllib.request.getproxies().get(url.scheme)
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        raise ConfigError(f"{url.scheme}_proxy names no http:// proxy: only such can be used.")
    return proxy


def is_near(host: str) -> bool:
    """Return True if a host is this machine or stands in a private network, as far as its name tells."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:  # a name; one without a dot is of a network's own, such as a container's
        return "." not in host or host.lower().rstrip(".").endswith(_NEAR_NAMES)


def is_loopback(host: str) -> bool:
    """Return True for an address of this machine alone, and for `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
