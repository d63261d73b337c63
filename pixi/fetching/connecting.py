"""Connections that lead to checked addresses alone: looked up once, checked, and dialled as checked."""

import socket
import ssl
from collections.abc import Sequence
from typing import Literal

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from pixi.fetching.addresses import is_near, is_public
from pixi.fetching.lookups import Lookup
from pixi.fetching.outcome import Refused

_CONNECTIONS = 16
_CONNECTIONS_PER_HOST = 4
_KEPT_SECONDS = 10.0


class NotPublic(OSError):
    """An address may not be dialled. An error of the kind that those who dial several at once expect."""


class Gate(AbstractResolver):
    """Lets connections out to public addresses alone.

    aiohttp asks `resolve` for the addresses of a name, and dials what that gives, without a look of its own:
    a name that tells another address at the second look leads nowhere. Right before it dials, by a name or
    by a number, `socket_for` is asked for a socket, and looks at the address once more.

    Attributes:
        tls: by what servers prove their names; True: by those whom this system trusts.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self.tls: ssl.SSLContext | Literal[True] = True

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host, all of them allowed.

        Raises:
            Refused: one of them is not.
            OSError: there are none.
        """
        found = await self._lookup(host, port)
        if not found:
            raise OSError(f"no address of {host}")
        self.check(host, found)
        return [self._result(host, *self.way_to(address, port)) for address in found]

    async def close(self) -> None:
        """Nothing is held."""

    def check(self, host: str, addresses: Sequence[str]) -> None:
        """See that all of them are open to everybody: of a name that mixes them, none is dialled.

        Raises:
            Refused: one is not.
        """
        if not all(map(_is_open, addresses)):
            raise Refused(f"{host[:80]} is not on the public internet; only what is there can be read.")

    def way_to(self, address: str, port: int) -> tuple[str, int]:
        """What is dialled for an address: itself."""
        return address, port

    def may_dial(self, address: str, port: int) -> bool:
        """The last look, right before a packet is sent."""
        return _is_open(address)

    def socket_for(
        self, info: tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
    ) -> socket.socket:
        """A socket to dial an address with.

        Raises:
            NotPublic: it may not be dialled.
        """
        family, kind, protocol, _, place = info
        if not self.may_dial(place[0], place[1]):
            raise NotPublic(f"{place[0]} is not on the public internet")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    @staticmethod
    def _result(host: str, address: str, port: int) -> ResolveResult:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


class OpenGate(Gate):
    """Lets connections out to any address: for hosts that the operator wrote."""

    def check(self, host: str, addresses: Sequence[str]) -> None:
        """All are allowed."""

    def may_dial(self, address: str, port: int) -> bool:
        """Always."""
        return True


def own_address(towards: str) -> str:
    """By which address this machine would ask there; "" where there is no way. Nothing is sent."""
    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((towards, 9))
            return str(asking.getsockname()[0])
    except OSError:
        return ""


def _is_open(address: str) -> bool:
    """Return True if it is public, and neither this machine's own nor of its network."""
    return is_public(address) and not is_near(address, own_address(address))


def session_through(gate: Gate) -> ClientSession:
    """What asks through a gate: without cookies, proxies and unpacking, and with no redirects of its own."""
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
