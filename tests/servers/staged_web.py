"""The public internet, played on loopback: names, their addresses, and where what is dialled really leads."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from pixi.fetching.guard import Gate, Lookup
from pixi.fetching.web import Web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PUBLIC = "93.184.215.14"
"""An address of the internet, where nothing is asked: what is dialled for it leads to loopback."""


@dataclass
class Stage:
    """What the internet is made of in a test.

    Attributes:
        hosts: addresses of each host, for the first look, the second, and so on; the last holds from then on.
        ways: for an address and its port, the port on loopback where it leads.
        looked_up: every look, in order.
        dialled: every address that was about to be dialled, in order.
        tls: whom servers are believed by what they say of their names; None: nobody but the system's.
    """

    hosts: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    ways: dict[tuple[str, int], int] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def put(self, host: str, port: int, address: str = PUBLIC, as_port: int = 80) -> str:
        """A server that listens at `port` is that host; gives its address of the web."""
        self.hosts[host] = [[address]]
        self.ways[address, as_port] = port
        return f"{'https' if as_port == 443 else 'http'}://{host}"

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host of the stage.

        Raises:
            OSError: it is none.
        """
        del port
        self.looked_up.append(host)
        answers = self.hosts.get(host)
        if not answers:
            raise OSError("no such host on this stage")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class StagedGate(Gate):
    """A gate as it is, but that what is dialled on the stage leads to loopback."""

    def __init__(self, lookup: Lookup, stage: Stage) -> None:
        super().__init__(lookup)
        self._stage = stage
        self.tls = stage.tls or True

    def way_to(self, address: str, port: int) -> tuple[str, int]:
        """To loopback, where the stage says so."""
        way = self._stage.ways.get((address, port))
        return (address, port) if way is None else ("127.0.0.1", way)

    def may_dial(self, address: str, port: int) -> bool:
        """What may be dialled anyway, and what the stage leads to."""
        self._stage.dialled.append(address)
        return super().may_dial(address, port) or (
            address == "127.0.0.1" and port in self._stage.ways.values()
        )


class StagedWeb(Web):
    """Fetches as ever, from a stage."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(lookup=stage.lookup)
        self._stage = stage

    def _gate(self, lookup: Lookup) -> Gate:
        return StagedGate(lookup, self._stage)


@asynccontextmanager
async def served(routes: Mapping[str, Handler], tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on loopback that answers each path by its handler; gives its port."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@dataclass
class Canary:
    """A server in the private network that nobody should ever reach: all of loopback leads to it.

    Attributes:
        port: where it listens.
        visits: connections that came.
    """

    port: int = 0
    visits: int = 0


@asynccontextmanager
async def canary() -> AsyncIterator[Canary]:
    """One that listens at every address of this machine, of IPv4 and IPv6."""
    bird = Canary()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bird.visits += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
        writer.close()

    listening = socket.socket(socket.AF_INET6)
    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listening.bind(("::", 0))
    server = await asyncio.start_server(met, sock=listening)
    bird.port = listening.getsockname()[1]
    async with server:
        yield bird
