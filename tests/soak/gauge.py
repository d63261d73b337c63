"""What the bot's process holds, looked at from outside: memory, open files, threads, tasks, store."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_MEGABYTE = 1e6
_EXPECTED = "Attempting a reconnect"
"""What discord.py says, as an error, when a gateway is gone for a while."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at it. A value of None was not to be had on this system.

    Attributes:
        at: seconds since the run began.
        resident: memory in use, in MB, with what is shared.
        own: memory that is the process's own, in MB.
        processor: share of one core since the look before, 1 for all of it.
        tasks, kept, talking: of the event loop, conversations in memory, and those being answered, as the
            bot itself told last.
        store: its files, in MB.
        asked, answered, notices, faults: so far.
        weather: of the model server.
        connected: the bot has a connection to the gateway.
    """

    at: float
    resident: float
    own: float | None
    files: int | None
    threads: int | None
    processor: float | None
    tasks: int
    kept: int
    talking: int
    store: float
    asked: int
    answered: int
    notices: int
    faults: int
    weather: str
    connected: bool


class Gauge:
    """Looks at a process and at its log.

    Args:
        pid: the process.
        store: its database file.
        log: the file that its log is written to, in JSON.
    """

    def __init__(self, pid: int, store: Path, log: Path) -> None:
        self._pid = pid
        self._store = store
        self._log = log
        self._read_to = 0
        self._spent: tuple[float, float] | None = None
        self._vitals: dict[str, float] = {}
        self.errors: list[str] = []
        self.told = 0

    def ask(self) -> None:
        """Let the process tell of itself in its log."""
        os.kill(self._pid, signal.SIGUSR1)

    def vitals(self) -> dict[str, float]:
        """What the process told of itself last; reads on in the log, and notes its errors."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            data = log.read()
        whole = data.rfind(b"\n") + 1
        self._read_to += whole
        for line in data[:whole].splitlines():
            self._read(line)
        return self._vitals

    def _read(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            self.errors.append(line.decode(errors="replace"))
            return
        if record["logger"] == "pixi.vitals":
            self._vitals = {key: value for key, value in record.items() if isinstance(value, int | float)}
            self.told += 1
        elif record["level"] in ("error", "critical") and not record["message"].startswith(_EXPECTED):
            trace = str(record.get("traceback", "")).strip().splitlines()[-3:]
            self.errors.append(" | ".join([f"{record['logger']}: {record['message']}", *trace]))

    def resident(self) -> float:
        """Memory in use, in MB."""
        try:
            pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        except FileNotFoundError:
            told = subprocess.run(
                ["ps", "-o", "rss=", "-p", str(self._pid)], check=True, capture_output=True, text=True
            )
            return int(told.stdout) * 1024 / _MEGABYTE
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE

    def own(self) -> float | None:
        """Memory that the process has written to and shares with none, in MB.

        What it only reads, of libraries, is left out: it counts as shared or not by what else runs meanwhile.
        """
        try:
            rows = Path(f"/proc/{self._pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return None
        kilobytes = sum(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty:"))
        return kilobytes * 1024 / _MEGABYTE

    def files(self) -> int | None:
        """Open files and sockets."""
        try:
            return len(os.listdir(f"/proc/{self._pid}/fd"))
        except OSError:
            return None

    def processor(self) -> float | None:
        """The share of a core since the last time."""
        try:
            fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        spent, now = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), time.monotonic()
        before, self._spent = self._spent, (spent, now)
        return None if before is None else (spent - before[0]) / max(now - before[1], 1e-3)

    def store(self) -> float:
        """The files of the store, in MB."""
        files = (self._store, self._store.with_name(f"{self._store.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists()) / _MEGABYTE
