"""Carries messages between the `serve` processes on one PostgreSQL database: what one sends, all others hear.

They go by NOTIFY, which hands a payload to whoever listens just then, in one order for all, and keeps
nothing. A payload has room for 8,000 bytes. So the messages that wait are joined, cut into parts, and sent in
one transaction; after each there is a short pause, in which more of them gather. Parts are numbered for each
process. So whoever misses one, e.g. as a connection was lost, knows of it, and nobody takes one twice.

Both connections of a process carry its name (`application_name`), so that the server knows who is there, and
a process that dies is missed within a second or two. One that ends says so, as the last it does.

Each says every second that it is there. So the others know when it has heard what they said before, or that
it stands still. Nobody's clock counts, and while the database is away nobody is judged.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from psycopg import AsyncConnection, InterfaceError, OperationalError
from psycopg import Error as DatabaseError

from pixi.app.cluster.shared_rates import LentConnection, SharedRates, connect_unsynced
from pixi.channels.http.peers import Peers
from pixi.core.errors import StoreError
from pixi.core.lru import LRU
from pixi.store.postgres.address import Address, read_address, store_error

_log = logging.getLogger("pixi.http")

PART_BYTES = 7_900
PAUSE_SECONDS = 0.005
"""Between two transactions with messages: it bounds how many there are, whatever is written."""
LOOK_SECONDS = 1.0
"""Between two looks who is there, while others are."""
STILL_LOOKS = 4
"""Nobody waits for a process that was not heard in so many looks on end, the present one among them."""
MOST_BYTES = 8_000_000
"""That may wait to be sent. With more, as the database is away, all is dropped, and the others know of it."""

_READY_SECONDS = 10.0
_ECHO_SECONDS = 5.0  # until what is said is heard here: the database is there, but slow
_AGAIN_SECONDS = 1.0  # until a database that is away is tried again
_BYE_SECONDS = 2.0  # in which the others are told of the end
_MOST_SENDERS = 1_000  # of which is known what they said already
_KIND = "serve"
_FORGOT = "forgot "  # what the store says of a person, see `Store.forget`
_SEND = """
SELECT pg_notify(%s, part) FROM unnest(%s::text[]) WITH ORDINALITY AS parts (part, number) ORDER BY number
"""
_PART = re.compile(
    r"(?P<name>[0-9a-f]{8}) (?P<number>\d{1,18}) (?P<begins>[01])(?P<ends>[01]) (?P<text>.*)", re.DOTALL
)
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float"
_THERE = """
SELECT DISTINCT split_part(application_name, ' ', 5) FROM pg_stat_activity
WHERE datname = current_database()
AND split_part(application_name, ' ', 3) = %s AND split_part(application_name, ' ', 4) = %s
"""


@dataclass
class _Sender:
    """Another process, as far as it was heard."""

    next: int = 0  # the number of the next part; one of a lower number came before
    may_skip: bool = True  # the next part may have any higher number, and begins messages
    parts: list[str] = field(default_factory=list)  # of messages that are not whole yet

    def begin_anew(self) -> None:
        """Note that parts may be missed, or come again, as their sender does not know that they arrived.

        Whole messages are not taken twice. Of one that is not whole, all parts are waited for again.
        """
        self.next -= len(self.parts)
        self.parts.clear()
        self.may_skip = True


class NotifyBus:
    """Carries what a server says to its peers, and theirs to it. To be opened by `connected`.

    Args:
        address: of the store.
        peers: of the server, which hears the others.

    Attributes:
        rates: counted over all servers.
    """

    def __init__(self, address: Address, peers: Peers) -> None:
        self._address = address
        self._peers = peers
        self._name = secrets.token_hex(4)
        self._channel = f"pixi_serve_{crc32(address.schema.encode()):08x}"
        self._waiting: list[bytes] = []
        self._size = 0  # in bytes, of what waits
        self._more = asyncio.Event()
        self._number = 0  # of the next part
        self._senders: LRU[str, _Sender] = LRU(_MOST_SENDERS)  # gone ones, too: they may come back
        self._looks = 0  # how often it was looked who is there
        self._heard: dict[str, int] = {}  # the look since which another process was heard last
        self._echo = asyncio.Event()  # this process heard what it said since the present look began
        self._echoes = 0  # the first part that is such an echo
        self._is_empty = asyncio.Event()  # nothing is left to be sent
        self._connection = LentConnection(self._connected)  # by which is sent and looked
        self._ahead = 0.0  # of the clock here before the database's, in seconds
        self.rates = SharedRates(self._connection.lent, address)

    def now(self) -> float:
        """Return the time by the clock of the database, in seconds since the epoch."""
        return time.time() - self._ahead

    def send(self, data: bytes) -> None:
        """Have a message sent: UTF-8 without line ends."""
        if self._size > MOST_BYTES:
            self._waiting.clear()
            self._size = 0
            self._number += 1  # which nobody will hear
            self._peers.unheard()
        self._waiting.append(data)
        self._size += len(data)
        self._is_empty.clear()
        self._more.set()

    async def emptied(self) -> None:
        """Return when all is sent."""
        await self._is_empty.wait()

    async def listen(self, ready: asyncio.Event) -> None:
        """Hear the others until cancelled; `ready` is set when that begins."""
        while True:
            try:
                async with await self._connected() as session:
                    await session.execute(f"LISTEN {self._channel}; LISTEN {self._address.signals}".encode())
                    began = time.time()
                    found = await (await session.execute(_CLOCK)).fetchall()
                    self._ahead = began - found[0][0]
                    self._peers.hello()
                    if ready.is_set():
                        for name in self._senders:
                            self._sender(name).begin_anew()
                        self._peers.missed()
                    ready.set()
                    async for notice in session.notifies():
                        if notice.channel == self._channel:
                            self._hear(notice.payload)
                        elif notice.payload.startswith(_FORGOT):
                            self._peers.forgot(notice.payload.removeprefix(_FORGOT))
            except DatabaseError as error:
                told = store_error(error, self._address)
                _log.warning("the connection to other servers is lost, and made again: %s", told)
            await asyncio.sleep(_AGAIN_SECONDS)

    def _hear(self, payload: str) -> None:
        given = _PART.fullmatch(payload)
        if given is None:
            return
        number = int(given["number"])
        if given["name"] == self._name:
            if number >= self._echoes:
                self._echo.set()
            return
        if self._silence_of(given["name"]) >= STILL_LOOKS:  # it may have said less than it did meanwhile
            self._peers.doubt_all()
        self._heard[given["name"]] = self._looks
        sender = self._sender(given["name"])
        begins, ends = given["begins"] == "1", given["ends"] == "1"
        if number < sender.next or (sender.may_skip and not begins):
            return
        if number > sender.next and not sender.may_skip:
            sender.parts.clear()
            self._peers.missed(given["name"])
        sender.next, sender.may_skip = number + 1, False
        if begins or sender.parts:
            sender.parts.append(given["text"])
        if ends and sender.parts:
            whole, sender.parts = "".join(sender.parts), []
            for line in whole.split("\n"):
                self._peers.receive(given["name"], line.encode())

    def _sender(self, name: str) -> _Sender:
        sender = self._senders.get(name)
        if sender is None:
            sender = _Sender()
            self._senders.put(name, sender)
        return sender

    async def pass_on(self) -> None:
        """Send what is to be sent, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            parts = list(self._cut(b"\n".join(self._waiting)))
            self._waiting, self._size = [], 0
            await self._deliver(parts)
            if not self._waiting:
                self._is_empty.set()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _deliver(self, parts: Sequence[str]) -> None:
        """Send parts, as often as the connection is lost. What is refused is dropped, and the others know."""
        while True:
            try:
                await self._run(_SEND, (self._channel, parts))
            except (OperationalError, InterfaceError):
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            except DatabaseError as error:
                _log.warning("other servers cannot be told: %s", store_error(error, self._address))
            return

    def _cut(self, data: bytes) -> Iterator[str]:
        start = 0
        while start < len(data):
            end = min(start + PART_BYTES, len(data))
            while end < len(data) and data[end] & 0xC0 == 0x80:  # amid a character
                end -= 1
            bounds = f"{start == 0:d}{end == len(data):d}"
            yield f"{self._name} {self._number} {bounds} {data[start:end].decode()}"
            self._number += 1
            start = end

    async def look(self) -> None:
        """Look who is gone, and whether all others were heard, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Whoever comes or says something while the database is asked is not gone: after an outage, all
            # connect anew at that moment, and say what they follow but once.
            known = set(self._peers.others)
            self._looks += 1
            self._heard = {name: self._heard.get(name, self._looks) for name in known}
            try:
                if known:
                    await self._look_for(known)
                if not any(1 < self._silence_of(name) < STILL_LOOKS for name in known):
                    await self._peers.find_missed()
            except (DatabaseError, StoreError, TimeoutError):  # nobody is judged by what was not heard now
                self._heard = dict.fromkeys(self._heard, self._looks)

    def _silence_of(self, name: str) -> int:
        """Return in how many looks on end another process was not heard."""
        return self._looks - self._heard.get(name, self._looks)

    async def _look_for(self, known: Iterable[str]) -> None:
        """See which of these are gone.

        Raises:
            DatabaseError: it does not answer.
            TimeoutError: what is said is not heard, here at least.
        """
        self._echo.clear()
        self._echoes = self._number
        self._peers.beat()
        async with asyncio.timeout(_ECHO_SECONDS):
            await self._echo.wait()  # by now, all that others said before was heard
        found = await self._run(_THERE, (self._address.label.split(" ")[2], _KIND))
        there = {name for (name,) in found}
        for name in known:
            if name not in there and self._silence_of(name):
                self._sender(name).begin_anew()
                del self._heard[name]
                self._peers.gone(name)

    async def _connected(self) -> AsyncConnection[Any]:
        label = f"{self._address.label} {_KIND} {self._name}"
        return await connect_unsynced(self._address.conninfo, label)

    async def _run(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        async with self._connection.lent() as session:
            return await (await session.execute(statement.encode(), values)).fetchall()

    async def close(self) -> None:
        """Close the connection by which is sent."""
        await self._connection.close()


@asynccontextmanager
async def connected(peers: Peers, url: str) -> AsyncGenerator[NotifyBus, None]:
    """Connect a server with the others on its store, until the block is left.

    Leave it after the store was closed: the others then take up at once what was left there.

    Args:
        peers: of the server.
        url: of the store, in PostgreSQL.

    Raises:
        StoreError: the database does not answer.
    """
    bus = NotifyBus(read_address(url), peers)
    peers.connect(bus.send, bus.now)
    ready = asyncio.Event()
    tasks = [asyncio.create_task(work) for work in (bus.listen(ready), bus.pass_on(), bus.look())]
    for task in tasks:
        task.add_done_callback(_tell_end)
    try:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await ready.wait()
        except TimeoutError:
            raise StoreError("The database does not tell of other servers: see the log.") from None
        yield bus
    finally:
        if peers.others:
            peers.bye()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BYE_SECONDS):
                    await bus.emptied()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_READY_SECONDS)  # a database that is away may hold them up
        await bus.close()


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("this server hears no others any more, until it is started again", exc_info=error)
