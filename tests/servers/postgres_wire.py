"""A wire to a PostgreSQL server, to be cut at any packet: before it arrives, or before its answer does."""

import select
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

Cut = Literal["before", "after"]
"""Whether the server never gets the packet, or carries it out and its answer is lost."""

READY = b"Z\x00\x00\x00\x05"  # how the end of an answer begins
LARGE = 1_000_000


class Wire:
    """A TCP port of this machine that leads to the server's socket."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._left: list[int] = []  # packets until each of the cuts that are to come
        self._cut: Cut = "before"
        self._for_good = self._is_dead = False
        self._starting = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut_at(self, *packets: int, cut: Cut, for_good: bool = False) -> None:
        """Cut the connection at the packet of that number from now on; then at that after it, and so on.

        For good: nobody gets there after the last.
        """
        with self._lock:
            self._left, self._cut, self._for_good = list(packets), cut, for_good

    def starts(self, connections: int) -> None:
        """Tell as many connections that the server is starting up."""
        with self._lock:
            self._starting = connections

    def mend(self) -> bool:
        """Cut no more; gives whether it was cut."""
        with self._lock:
            was_cut, self._left, self._is_dead = not self._left, [], False
        return was_cut

    def close(self) -> None:
        """End all that runs."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        with suppress(OSError):  # how it is told of the end
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._lead, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _lead(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            if self._is_dead or self._is_told_to_wait(client):
                return
            server.connect(self._server)
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready:
                    answer = server.recv(LARGE)
                    if not answer:
                        return
                    client.sendall(answer)
                    continue
                packet = client.recv(LARGE)
                cut = self._count()
                if not packet or cut == "before":
                    return
                server.sendall(packet)
                if cut == "after":
                    while (answer := server.recv(LARGE)) and READY not in answer[-6:]:
                        pass
                    return

    def _count(self) -> Cut | None:
        """What is to become of the next packet."""
        with self._lock:
            if not self._left:
                return None
            self._left[0] -= 1
            if self._left[0]:
                return None
            del self._left[0]
            self._is_dead = self._for_good and not self._left
            return self._cut

    def _is_told_to_wait(self, client: socket.socket) -> bool:
        with self._lock:
            if not self._starting:
                return False
            self._starting -= 1
        client.recv(LARGE)
        told = b"SFATAL\0C57P03\0Mthe database system is starting up\0\0"
        client.sendall(b"E" + (len(told) + 4).to_bytes(4) + told)
        return True


@contextmanager
def wire_to(server: str) -> Generator[Wire, None, None]:
    """A wire for a while."""
    wire = Wire(server)
    try:
        yield wire
    finally:
        wire.close()
