"""A model server of its own process that writes prebuilt events, at once or at a steady pace.

The path says what is wanted: `/fast/CHUNKS/v1/...` writes everything in one go;
`/paced/STREAMS/CHUNKS/RATE/v1/...` waits for that many requests and then writes to each RATE chunks a
second, evenly spread, every message's closing bracket together with the moment of its writing.
`/report` tells how many asked and how many writes a pace has made, and at its end how late they were and what
share of its core they took.

One thread, plain sockets, no event loop: there is nothing in it that could be slower than its client.
"""

import json
import os
import resource
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from functools import cache

from benchmarks.replies import (
    STAMP_DIGITS,
    STAMP_HOLE,
    chunks_of_text,
    ending,
    event,
    http_chunk,
    stamped_chunks,
    starts,
)

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LISTEN_EVERY = 0.005
"""Seconds between two looks at the connections while a pace is being kept."""


@dataclass(slots=True)
class Connection:
    """One client; `received` holds a request that is not whole yet, `unsent` what it did not take yet."""

    socket: socket.socket
    received: bytes = b""
    unsent: bytes = b""
    gone: bool = False

    def write(self, data: bytes) -> None:
        """Send without waiting; what the client does not take now goes before the next write."""
        if self.gone:
            return
        data = self.unsent + data if self.unsent else data
        sent = 0
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            pass  # Its buffer is full: all of it waits in `unsent`.
        except (BrokenPipeError, ConnectionResetError):
            self.gone = True  # The pace of the others goes on.
        self.unsent = data[sent:]

    def write_all(self, data: bytes) -> None:
        """Send everything, however long the client takes."""
        if self.gone:
            return
        self.socket.setblocking(True)
        try:
            self.socket.sendall(self.unsent + data)
            self.unsent = b""
        except (BrokenPipeError, ConnectionResetError):
            self.gone = True
        self.socket.setblocking(False)


@dataclass(slots=True)
class Pace:
    """Streams that are written to in turn: write number `i` is due at `start + i * step` seconds.

    Each gets another of the `bodies`, all of one length, so that their messages end at different times.
    """

    streams: int
    bodies: list[list[tuple[bytes, bool]]]
    step: float
    members: list[Connection] = field(default_factory=list)
    start: float = 0.0
    cpu_before: float = 0.0
    written: int = 0
    lateness: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.streams * len(self.bodies[0])

    def begin(self) -> None:
        """Start the pace half a second from now, so that every client has read its headers."""
        self.start = time.monotonic() + 0.5
        self.cpu_before = time.process_time()

    def write_due(self, now: float) -> float:
        """Write what is due by `now`; gives the seconds until the next write, negative when all is done."""
        while self.written < self.total:
            due = self.start + self.written * self.step
            if due > now:
                return due - now
            turn, member = divmod(self.written, self.streams)
            data, stamped = self.bodies[member % len(self.bodies)][turn]
            if stamped:
                hole = STAMP_HOLE.encode()
                data = data.replace(hole, b"%0*d" % (STAMP_DIGITS, time.monotonic_ns()))
            self.members[member].write(data)
            now = time.monotonic()
            self.lateness.append(now - due)
            self.written += 1
        return -1.0

    def told(self) -> dict[str, float]:
        """How far it is: how many asked, and how many writes were made."""
        return {"going": 1.0, "asked": len(self.members), "writes": self.written}

    def end(self) -> dict[str, float]:
        """End every stream and tell how the pace was kept: milliseconds, and the share of one core."""
        elapsed = time.monotonic() - self.start
        share = (time.process_time() - self.cpu_before) / max(elapsed, 1e-9)
        for member in self.members:
            member.write_all(ending())
        late = sorted(self.lateness) or [0.0]
        return {
            "writes": self.written,
            "late_p50_ms": late[len(late) // 2] * 1e3,
            "late_p99_ms": late[min(len(late) - 1, len(late) * 99 // 100)] * 1e3,
            "late_max_ms": late[-1] * 1e3,
            "cpu_share": share,
        }


@cache
def fast_body(chunks: int) -> bytes:
    """The whole answer of a fast stream, each event an HTTP chunk of its own, as servers send them."""
    return b"".join(http_chunk(event({"content": text})) for text in chunks_of_text(chunks)) + ending()


@cache
def paced_bodies(chunks: int) -> list[list[tuple[bytes, bool]]]:
    """Streams that begin at different places: the chunks, and whether each waits for its moment."""
    return [
        [
            (http_chunk(event({"content": text})), text.startswith(STAMP_HOLE))
            for text in stamped_chunks(chunks, start)
        ]
        for start in range(starts())
    ]


class Server:
    """Answers requests until its parent closes the pipe it was started with."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        self.pace: Pace | None = None
        self.report: dict[str, float] = {}

    def run(self) -> None:
        """Serve; between two writes of a pace, sleep no longer than to the next."""
        listen_at = 0.0
        while True:
            now = time.monotonic()
            pace = self.pace if self.pace is not None and self.pace.start else None
            if pace is None or now >= listen_at:
                if not self.look(None if pace is None else 0.0):
                    return
                listen_at = now + LISTEN_EVERY
                continue
            wait = pace.write_due(now)
            if wait < 0:
                self.report = pace.end()
                self.pace = None
            else:
                time.sleep(min(wait, LISTEN_EVERY))

    def look(self, timeout: float | None) -> bool:
        """Take new connections and requests; False once the parent has gone."""
        for key, _ in self.selector.select(timeout):
            if key.fileobj is sys.stdin:
                return False
            if key.fileobj is self.listener:
                self.accept()
            else:
                self.read(key.data)
        return True

    def accept(self) -> None:
        """Take every connection that is waiting."""
        while True:
            try:
                client, _ = self.listener.accept()
            except BlockingIOError:
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(client, selectors.EVENT_READ, Connection(client))

    def read(self, connection: Connection) -> None:
        """Read from a client, and answer once its request is whole."""
        try:
            data = connection.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            connection.gone = True
            self.selector.unregister(connection.socket)
            connection.socket.close()
            return
        connection.received += data
        head, separator, body = connection.received.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if separator and len(body) >= length:
            connection.received = b""
            self.answer(connection, head.split(b" ", 2)[1].decode())

    def answer(self, connection: Connection, path: str) -> None:
        """Do what the path asks for."""
        match path.strip("/").split("/"):
            case ["fast", chunks, *_]:
                connection.write_all(HEAD + fast_body(int(chunks)))
            # Pixi asks a server nearby for its models first; that is no stream.
            case ["paced", streams, chunks, rate, *_] if path.endswith("/completions"):
                if self.pace is None:
                    count = int(streams)
                    self.pace = Pace(count, paced_bodies(int(chunks)), 1 / (float(rate) * count))
                connection.write_all(HEAD)
                self.pace.members.append(connection)
                if len(self.pace.members) == self.pace.streams:
                    self.pace.begin()
            case ["report"]:
                told = self.report if self.pace is None else self.pace.told()
                body = json.dumps(told).encode()
                connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            case _:
                connection.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def main() -> None:
    """Print the port as a line, and serve."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if len(sys.argv) > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[1])})
    server = Server()
    print(server.port, flush=True)
    server.run()


if __name__ == "__main__":
    main()
