"""The program as a process that can be started, killed and watched from outside."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
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
        self._starting = asyncio.Lock()
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

    async def start(self, command: Sequence[str]) -> "Life":
        """Start the program with a subcommand and its flags."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = {
            "command": list(command),
            "folder": str(self._folder),
            "environ": self._environ,
            "log": str(self.log),
        }
        async with self._starting:
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            return Life(int(await process.stdout.readline()))


class Life:
    """One process of the program."""

    def __init__(self, number: int) -> None:
        self._number = number

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

    def ask_to_end(self) -> None:
        """End it politely."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """Let it stand still, as on a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on as if nothing had been."""
        self._signal(signal.SIGCONT)

    def tell_where(self) -> None:
        """Let it write into the log what it does just now."""
        self._signal(signal.SIGUSR1)

    async def ended(self) -> None:
        """Wait until it is gone."""
        await until(lambda: not self.alive, "the end of the program")

    def _signal(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it was quicker
            os.kill(self._number, which)


class Records:
    """The store of the program, read from outside while it runs. Made by `open_records`.

    Args:
        ask: answers a question in SQL; nothing while there are no tables, or the server is away.
    """

    def __init__(self, ask: "Callable[[str], Rows]") -> None:
        self._ask = ask

    def settled(self, asked: int) -> bool:
        """Whether so many messages are on record, and nothing waits and no turn is under way."""
        return self.summary() == (asked, 0, 0)

    def begun(self) -> bool:
        """Whether the bot knows since when it is here: what was written before is nobody's to answer."""
        return bool(self._ask("SELECT address FROM watermarks LIMIT 1"))

    def summary(self) -> tuple[object, ...]:
        """How many messages are on record, how many of them wait, and how many turns are under way."""
        rows = self._ask(
            "SELECT (SELECT count(*) FROM messages WHERE addressed = 1),"
            " (SELECT count(*) FROM messages"
            " WHERE addressed = 1 AND (turn IS NULL OR again = 0) AND body IS NOT NULL),"
            " (SELECT count(*) FROM turns WHERE finish IS NULL)"
        )
        return rows[0] if rows else (0, 0, 0)

    def heard(self) -> set[str]:
        """Return the names of the questions that are on record."""
        bodies = [body for (body,) in self._ask("SELECT body FROM messages") if isinstance(body, bytes)]
        return set(re.findall(r"\bq\d+\b", " ".join(body.decode(errors="ignore") for body in bodies)))

    def workers(self) -> set[object]:
        """Return the numbers of the workers that take conversations, or died just now."""
        return {number for (number,) in self._ask("SELECT id FROM procrastinate_workers")}

    def unknown_acts(self) -> "Rows":
        """Acts of which nobody knows what became of them, of turns that are over."""
        return self._ask(
            "SELECT e.turn, e.sequence, e.kind, e.outcome FROM effects e JOIN turns t ON t.id = e.turn"
            " WHERE t.finish IS NOT NULL AND (e.outcome IS NULL OR e.outcome != 'done')"
        )

    def sent(self, conversation: str) -> list[str]:
        """What the history says that the persona said in a conversation, as raw lines, in order."""
        rows = self._ask("SELECT conversation, body FROM lines WHERE kind = 'assistant' ORDER BY position")
        bodies = [body for address, body in rows if address == conversation]
        return [json.loads(body)["text"] for body in bodies if isinstance(body, bytes)]

    def conversations(self) -> list[str]:
        """Their addresses."""
        return [str(address) for (address,) in self._ask("SELECT DISTINCT conversation FROM messages")]


Rows = list[tuple[object, ...]]


@contextmanager
def open_records(url: str) -> Generator[Records, None, None]:
    """Read the store that this URL names: a file, or a server's schema."""
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///"))
        yield Records(lambda question: ask_file(path, question))
        return
    import psycopg

    from pixi.store.postgres.address import read_address

    address = read_address(url)
    session: psycopg.Connection[tuple[object, ...]] | None = None

    def ask(question: str) -> Rows:
        nonlocal session
        try:
            session = session or psycopg.connect(
                address.conninfo, autocommit=True, options=f"-c search_path={address.schema}"
            )
            return session.execute(question.encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return []
        except psycopg.OperationalError:  # the server is away
            session = None
            return []

    yield Records(ask)
    if session is not None:
        session.close()


def ask_file(path: Path, question: str) -> Rows:
    """Answer a question in SQL from a store's file; nothing while there are no tables."""
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as db:
            return db.execute(question).fetchall()
    except sqlite3.OperationalError as error:
        if "no such column" in str(error):
            raise
        return []  # the tables are being made
