"""Clients of the HTTP server in a process of their own: plain sockets, so that they hardly count.

Each line of standard input is a job in JSON, and is answered with one.
"""

import json
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.replies import STAMP_DIGITS

PATIENCE = 60.0
"""Seconds that a stream may be silent for."""


@dataclass(slots=True)
class Client:
    """An open stream; `received` holds a line that is not whole yet."""

    socket: socket.socket
    received: bytes = b""


class Clients:
    """Streams that are open at once."""

    def __init__(self) -> None:
        self._open: list[Client] = []

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        """Do a job: `open` streams and wait for each head; `read` them to their ends; `close` them."""
        match job["do"]:
            case "open":
                opened = [_opened(job, number) for number in range(job["count"])]
                self._open += opened
                return {"refused": [line for client in opened if (line := _refused(client))][:1]}
            case "read":
                return self._read(re.compile(job["stamp"].encode() + rb"(\d{%d})" % STAMP_DIGITS))
            case _:
                while self._open:
                    self._open.pop().socket.close()
                return {}

    def _read(self, stamp: re.Pattern[bytes]) -> dict[str, Any]:
        """Read all streams to their ends.

        Returns the stamps, nanoseconds from each to the moment when its line was read, and the processor
        time that this took.
        """
        stamps: list[int] = []
        delays: list[int] = []
        spent = time.process_time()
        with selectors.DefaultSelector() as selector:
            for client in self._open:
                client.socket.setblocking(False)
                selector.register(client.socket, selectors.EVENT_READ, client)
            while selector.get_map():
                ready = selector.select(PATIENCE)
                if not ready:
                    raise TimeoutError("the streams are silent")
                for key, _ in ready:
                    client = key.data
                    data = client.socket.recv(65536)
                    now = time.monotonic_ns()
                    *lines, client.received = (client.received + data).split(b"\n")
                    there = [int(found[1]) for line in lines if (found := stamp.search(line))]
                    stamps += there
                    delays += [now - each for each in there]
                    if not data or client.received == b"\r\n" or any(line == b"0\r" for line in lines):
                        selector.unregister(client.socket)
        return {"stamps": stamps, "delays": delays, "seconds": time.process_time() - spent}


def _opened(job: dict[str, Any], number: int) -> Client:
    """Ask for a stream. `{n}` in the path and the body is its number."""
    path = job["path"].replace("{n}", str(number))
    body = job.get("body", "").replace("{n}", str(number)).encode()
    head = (
        f"{job['method']} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    client = Client(socket.create_connection(("127.0.0.1", job["port"]), PATIENCE))
    client.socket.sendall(head.encode() + body)
    return client


def _refused(client: Client) -> str:
    """Read the head of an answer, and return its first line unless it is a good one."""
    while b"\r\n\r\n" not in client.received:
        data = client.socket.recv(65536)
        if not data:
            return "the connection was closed"
        client.received += data
    head, _, client.received = client.received.partition(b"\r\n\r\n")
    line = head.split(b"\r\n", 1)[0].decode()
    return "" if " 200 " in line else line


def main() -> None:
    """Do jobs until standard input ends."""
    clients = Clients()
    for line in sys.stdin:
        print(json.dumps(clients.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
