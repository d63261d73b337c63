"""What each door to a server needs: its address, its key, the way there, a session, its refusals."""

import asyncio
import functools
import ipaddress
import re
import urllib.request

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler

from pixi.core.errors import ConfigError
from pixi.core.masking import redact_addresses
from pixi.models.complaint import Complaint, complaint_in
from pixi.models.faults import Refusal, Server, refusal, retry_after

_LONGEST_ERROR = 64 * 1024
_CONNECT_SECONDS = 10.0
_HEAD_OF_REPLY = re.compile(rb"HTTP/1\.[01] 200\b.*?\r\n\r\n", re.DOTALL)
# What names of private networks end in: RFC 6762, RFC 8375, ICANN's .internal, what routers and VPNs give.
_NEAR_NAMES = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".ts.net")
_DECLARED = re.compile(rb"(?<=\r\n)content-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)


class _Connection(ResponseHandler):
    """A connection to a server that may declare fewer bytes than it sends.

    aiohttp takes what is beyond them for another answer, finds none, and drops both. Nothing is ever asked
    before the last answer is read: so what comes along with a reply is the reply's, and it ends where the
    connection does, as one that declares nothing.
    """

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        head = _HEAD_OF_REPLY.match(data)
        declared = _DECLARED.search(data, 0, head.end()) if head else None
        if head and declared and data[head.end() + int(declared[1]) :].strip():
            data = data[: declared.start()] + data[declared.end() :]
        super().data_received(data)


def open_session() -> aiohttp.ClientSession:
    """A session as the doors want it. One for all models of a process; its owner closes it."""
    connector = aiohttp.TCPConnector(limit=0)
    # aiohttp has no public way to name another class for its connections.
    made = functools.partial(_Connection, loop=asyncio.get_running_loop())
    connector._factory = made  # type: ignore[assignment]  # a partial of a subclass is none of its base
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # The deadlines are on content, and are the door's own.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    )


async def refusal_in(response: aiohttp.ClientResponse, server: Server) -> Refusal:
    """The error that a response other than what was asked for amounts to."""
    content = bytearray()
    while len(content) < _LONGEST_ERROR and (data := await response.content.readany()):
        content += data
    if response.content_type == "text/html":
        complaint = Complaint(response.status, is_page=True)
    else:
        complaint = complaint_in(bytes(content), response.status)
    if 300 <= response.status < 400:
        complaint = Complaint(response.status, response.headers.get("location", ""))
    return refusal(server, complaint, retry_after(response.headers))


def checked_address(
    base_url: str, *, key_name: str = "OPENAI_API_KEY", example: str = "https://api.openai.com/v1"
) -> yarl.URL:
    """The address, if it can be asked. `key_name`, `example`: where its key comes from, and what it is like.

    Raises:
        ConfigError: it cannot.
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
    """The key without the line break that came with copying it; None for none.

    Raises:
        ConfigError: it holds what no header can carry.
    """
    key = (api_key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{key_name} holds characters that no key has: copy it again.")
    return key or None


def proxy_for(url: yarl.URL) -> str | None:
    """The proxy that the environment names for an address. aiohttp's own look-up would read `.netrc` too.

    Raises:
        ConfigError: it is of a kind that cannot be used.
    """
    # No proxy reaches what runs on this machine, such as the bundled model.
    if _is_loopback(url.host or "") or urllib.request.proxy_bypass(f"{url.host}:{url.port}"):
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
