"""The program as a process that can be started, killed and watched from outside."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent


class Nursery:
    """Starts copies of the program: an async context manager."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = dict(environ)
        self._process: asyncio.subprocess.Process | None = None
        self.log = folder / "log.txt"

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.kill.nursery",
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def start(self) -> "Life":
        """A new process of the program."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = {"folder": str(self._folder), "environ": self._environ, "log": str(self.log)}
        process.stdin.write(json.dumps(wanted).encode() + b"\n")
        return Life(int(await process.stdout.readline()))


class Life:
    """One process of the program."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.killed = False

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        try:
            os.kill(self._number, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._signal(signal.SIGKILL)
        self.killed = True

    def ask_to_end(self) -> None:
        """End it politely."""
        self._signal(signal.SIGTERM)

    async def ended(self) -> None:
        """Wait until it is gone."""
        await until(lambda: not self.alive, "the end of the program")

    def _signal(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it was quicker
            os.kill(self._number, which)


class Records:
    """The store of the program, read from outside while it runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def settled(self, asked: int) -> bool:
        """Whether so many messages are on record, and nothing waits and no turn is under way."""
        return self.summary() == (asked, 0, 0)

    def summary(self) -> tuple[object, ...]:
        """How many messages are on record, how many of them wait, and how many turns are under way."""
        if not self._path.exists():
            return (0, 0, 0)
        rows = self._ask(
            "SELECT (SELECT count(*) FROM messages WHERE addressed),"
            " (SELECT count(*) FROM messages WHERE addressed AND turn IS NULL AND body IS NOT NULL),"
            " (SELECT count(*) FROM turns WHERE finish IS NULL)"
        )
        return rows[0] if rows else (0, 0, 0)

    def unsettled_acts(self) -> list[tuple[object, ...]]:
        """Acts of which nobody knows what became of them, of turns that are over."""
        return self._ask(
            "SELECT e.turn, e.sequence, e.kind, e.outcome FROM effects e JOIN turns t ON t.id = e.turn"
            " WHERE t.finish IS NOT NULL AND (e.outcome IS NULL OR e.outcome != 'done')"
        )

    def sent(self, conversation: str) -> list[str]:
        """What the history says that the persona said in a conversation, as raw lines, in order."""
        rows = self._ask(
            "SELECT body FROM lines WHERE conversation = ? AND kind = 'assistant' ORDER BY position",
            conversation,
        )
        return [json.loads(bytes(body))["text"] for (body,) in rows if isinstance(body, bytes)]

    def conversations(self) -> list[str]:
        """Their addresses."""
        return [str(address) for (address,) in self._ask("SELECT DISTINCT conversation FROM messages")]

    def _ask(self, question: str, *values: object) -> list[tuple[object, ...]]:
        try:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=5)) as db:
                return db.execute(question, values).fetchall()
        except sqlite3.OperationalError:  # the tables are being made
            return []
