"""The guard of fetching: which addresses may be dialled and named, and how their names are looked up."""

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from pixi.core.errors import PixiError

_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # behind a carrier's NAT; a cloud's metadata too
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # serves the machines of a cloud, though it looks public
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; a cloud's metadata too
            "192.0.2.0/24",  # documentation
            "192.52.193.0/24",  # multicast tunnels
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_OPEN_6 = IPv6Network("2000::/3")
"""Range of IPv6 that hosts of the internet have; mapped, local or multicast addresses lie outside."""
_CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Range in which a network that speaks IPv6 alone reaches the hosts of IPv4."""
_OWN_6 = 56
"""Bits that the addresses of one network of IPv6 share: so much a provider gives a household or a company."""
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, for a port; raises `OSError` where there are none."""
_LOOKUPS_AT_ONCE = 8
_CONNECTIONS = 16
_CONNECTIONS_PER_HOST = 4
_KEPT_SECONDS = 10.0  # for which a connection waits for another request
LONGEST = 4_096
"""Characters of an address."""
PORTS = frozenset({80, 443, 8080, 8443})
"""Ports of pages. Services on others are seldom meant for everybody."""
_BROKEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\u2028\u2029\ud800-\udfff]")
_AUTHORITY = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_INNER = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan"),
    *("home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "test", "invalid", "example", "alt"),
)
"""Names below these are never of the public internet, whatever a resolver here says of them."""


class Fetched(Struct, frozen=True):
    """The answer of a server.

    Attributes:
        url: where it came from in the end, after redirects.
        status: of HTTP.
        content_type: in small letters, without its parameters; "" where the server said none.
        charset: as the server said; "" where it did not, or nobody knows it.
        body: unpacked.
        retry_after: seconds after which the server wants to be asked again; None where it said nothing.
    """

    url: str
    status: int
    content_type: str
    charset: str
    body: bytes
    retry_after: float | None = None


class WebError(PixiError):
    """A page could not be fetched. The text says why, in words that a model can act on, without secrets.

    Attributes:
        answer: what the server gave with its refusal, of its body the beginning; None where none answered.
    """

    def __init__(self, text: str, *, answer: Fetched | None = None) -> None:
        super().__init__(text)
        self.answer = answer

    @property
    def status(self) -> int:
        """Return the HTTP status with which a server refused; 0 where none answered."""
        return self.answer.status if self.answer is not None else 0

    @property
    def body(self) -> bytes:
        """Return the beginning of the page that a server gave with its refusal."""
        return self.answer.body if self.answer is not None else b""

    @property
    def retry_after(self) -> float | None:
        """Return the seconds after which the server wants to be asked again; None where it said nothing."""
        return self.answer.retry_after if self.answer is not None else None


class Refused(WebError):
    """The address may not be fetched at all: it is none, or leads where strangers have no business."""


def is_public(address: str) -> bool:
    """Return True for an address of the public internet; False for a text that is no plain address."""
    try:
        four = IPv4Address(address)
    except ValueError:
        return _is_public_6(address)
    return not any(four in network for network in _CLOSED_4)


def is_own_network(address: str, own: str) -> bool:
    """Return True if an address is this machine's own, or in IPv6 of its own network.

    There every printer has an address of the internet, and a router that keeps everybody else away from it.

    Args:
        address: public or not.
        own: this machine's address, by which it would ask there.
    """
    if address == own:
        return True
    try:
        return IPv6Address(address) in IPv6Network((own, _OWN_6), strict=False)
    except ValueError:  # one of them is of IPv4
        return False


def _is_public_6(address: str) -> bool:
    try:
        six = IPv6Address(address)
    except ValueError:
        return False
    if six.scope_id is not None:
        return False
    if six in _TRANSLATED:
        return is_public(str(IPv4Address(int(six) & 0xFFFFFFFF)))
    return six in _OPEN_6 and not any(six in network for network in _CLOSED_6)


class Lookups:
    """A `Lookup` by the system's resolver.

    Each runs in a thread of its own that nobody waits for at the end: a name server that a stranger runs may
    let a question hang for half a minute, and the pool in which all else runs is small.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses.

        Raises:
            OSError: there are none.
        """
        async with self._turns:
            return await _look_up(host, port)


async def _look_up(host: str, port: int) -> Sequence[str]:
    answer: Future[Sequence[str]] = Future()
    answer.set_running_or_notify_cancel()  # so that a result may come when nobody waits any more

    def look() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            answer.set_result(tuple(dict.fromkeys(str(each[4][0]) for each in found)))
        except (OSError, UnicodeError):
            answer.set_exception(OSError(f"no address of {host}"))

    threading.Thread(target=look, name="pixi-lookup", daemon=True).start()
    return await asyncio.wrap_future(answer)


class NotPublic(OSError):
    """An address may not be dialled. An `OSError`: code that dials several addresses then tries the next."""


class Gate(AbstractResolver):
    """Lets connections out to public addresses alone.

    aiohttp asks `resolve` for the addresses of a name, and dials what that gives, without a look of its own:
    a name that tells another address at the second look leads nowhere. Right before it dials, by a name or
    by a number, `socket_for` is asked for a socket, and looks at the address once more.

    Attributes:
        tls: the authorities whose certificates count; True: those that this system trusts.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self.tls: ssl.SSLContext | Literal[True] = True

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host, all of them allowed.

        Raises:
            Refused: one of them is not.
            OSError: there are none.
        """
        found = await self._lookup(host, port)
        if not found:
            raise OSError(f"no address of {host}")
        self.check(host, found)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        results: list[ResolveResult] = []
        for address in found:
            to, at = self.way_to(address, port)
            results.append(
                ResolveResult(hostname=host, host=to, port=at, family=_family_of(to), proto=0, flags=flags)
            )
        return results

    async def close(self) -> None:
        """Do nothing: nothing is held."""

    def check(self, host: str, addresses: Sequence[str]) -> None:
        """See that all of them are open to everybody: of a name that mixes them, none is dialled.

        Raises:
            Refused: one is not.
        """
        if not all(map(_is_open, addresses)):
            raise Refused(f"{host[:80]} is not on the public internet; only what is there can be read.")

    def way_to(self, address: str, port: int) -> tuple[str, int]:
        """Return the address and the port to dial for an address; tests lead them to servers of their own."""
        return address, port

    def may_dial(self, address: str, port: int) -> bool:
        """Return True if an address may be dialled: the last look, right before a packet is sent."""
        return _is_open(address)

    def socket_for(
        self, info: tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
    ) -> socket.socket:
        """Return a socket to dial an address with.

        Raises:
            NotPublic: it may not be dialled.
        """
        family, kind, protocol, _, place = info
        if not self.may_dial(place[0], place[1]):
            raise NotPublic(f"{place[0]} is not on the public internet")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


class OpenGate(Gate):
    """Lets connections out to any address: for hosts that the operator wrote."""

    def check(self, host: str, addresses: Sequence[str]) -> None:
        """Allow all."""

    def may_dial(self, address: str, port: int) -> bool:
        """Allow all."""
        return True


def own_address(towards: str) -> str:
    """Return the address by which this machine would ask there; "" where there is no way. Nothing is sent."""
    try:
        with socket.socket(_family_of(towards), socket.SOCK_DGRAM) as asking:
            asking.connect((towards, 9))
            return str(asking.getsockname()[0])
    except OSError:
        return ""


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _is_open(address: str) -> bool:
    """Return True if an address is public, and neither this machine's own nor of its network."""
    return is_public(address) and not is_own_network(address, own_address(address))


def session_through(gate: Gate) -> ClientSession:
    """Open a session through a gate: without cookies, proxies, unpacking and redirects of its own."""
    connector = TCPConnector(
        resolver=gate,
        use_dns_cache=False,
        socket_factory=gate.socket_for,
        ssl=gate.tls,
        limit=_CONNECTIONS,
        limit_per_host=_CONNECTIONS_PER_HOST,
        keepalive_timeout=_KEPT_SECONDS,
    )
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=ClientTimeout(total=None),
    )


def parsed(text: str, *, trusted: bool = False) -> URL:
    """Return the address, with its host in the one form that is looked up; without a fragment.

    Args:
        text: as it was written.
        trusted: the operator wrote the host: then it may be any, at any port.

    Raises:
        Refused: it is no address of a page, or of none that strangers may name.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise Refused(f"The address is longer than {LONGEST:,} characters.")
    authority = _AUTHORITY.match(text)
    if _BROKEN.search(text) or authority is None:
        raise Refused("That is no address of a web page; it begins with http:// or https://.")
    if "@" in authority[1]:
        raise Refused("An address may not hold a user name or a password.")
    if "%" in authority[1]:
        raise Refused("The host of an address may not be written with %.")
    if not _HOST_AND_PORT.fullmatch(authority[1]):
        raise Refused("That is no address of a web page: its host cannot be read.")
    try:
        url = URL(text).with_fragment(None)
        host, port = url.raw_host, url.port
        _ = url.host  # a name that says of itself that it is encoded, and is not, cannot be shown
    except (ValueError, TypeError):
        raise Refused("That is no address of a web page: it cannot be read.") from None
    if url.scheme not in ("http", "https"):
        raise Refused("Only addresses that begin with http:// or https:// can be read.")
    if not host or not port:
        raise Refused("That is no address of a web page: its host is missing.")
    plain = _plain_host(host)
    if not trusted:
        _check_host(plain)
        if port not in PORTS:
            *others, last = map(str, sorted(PORTS))
            raise Refused(f"Pages at port {port} are not read; those at {', '.join(others)} and {last} are.")
    return url if plain == host else url.with_host(plain)


def same_origin(one: str | URL, other: str | URL) -> bool:
    """Return True if two addresses have the same scheme, host and port.

    What an operator permits by naming an address is permitted for its origin, not for the whole host: other
    programs listen at other ports.
    """
    try:
        return URL(one).origin() == URL(other).origin()
    except (ValueError, TypeError):  # one of them cannot be read, or names no host
        return False


def joined(base: URL, location: str) -> str:
    """Return where a redirect leads.

    Raises:
        Refused: it cannot be read.
    """
    location = location.strip().replace(" ", "%20")  # as browsers do
    if len(location) > LONGEST or _BROKEN.search(location):
        raise Refused("It redirects to what is no address.")
    try:
        return str(base.join(URL(location)))
    except (ValueError, TypeError):
        raise Refused("It redirects to what is no address.") from None


def _plain_host(host: str) -> str:
    """Return the host without the dot that may end it.

    Raises:
        Refused: it could be read in more than one way.
    """
    if ":" in host:
        try:
            return IPv6Address(host).compressed
        except ValueError:
            raise Refused("That is no address of a web page: its host cannot be read.") from None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise Refused("That is no address of a web page: its host cannot be read.")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            IPv4Address(host)
        except ValueError:
            raise Refused("A host in numbers is written as four of them, e.g. 93.184.215.14.") from None
    return host


def _check_host(host: str) -> None:
    is_number = ":" in host or host.replace(".", "").isdecimal()
    if is_number:
        if not is_public(host):
            raise Refused(f"{host} is not on the public internet; only what is there can be read.")
    elif "." not in host or host.endswith(tuple(f".{name}" for name in _INNER)):
        raise Refused(f"{host[:80]} is not a host of the public internet; only those can be read.")
