"""MCP servers as they run in a test: real ones, and a rogue that misbehaves as it is told to."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pixi.mcp import transports
from pixi.mcp.offers import FILE_NAME, LockFile, Program, Ready, Where
from pixi.mcp.server import McpServer, McpTimeouts
from tests.pages import ROOT
from tests.waiting import LIMIT, until, within

ROGUE = ROOT / "tests" / "servers" / "mcp_rogue.py"
EVERYTHING = ROOT / ".venv" / "npm" / "node_modules" / ".bin" / "mcp-server-everything"
SECONDS = LIMIT
QUICK = McpTimeouts(start=SECONDS, first_pause=0.05, longest_pause=0.4, list_pause=0.01)

with_everything = pytest.mark.skipif(
    not EVERYTHING.exists(),
    reason="the reference server is not installed: it comes from npm, with `make test`",
)


def rogue(way: str, notes: Path | None = None, **more: object) -> Program:
    """The server that behaves in that way."""
    args = (str(ROGUE), way) if notes is None else (str(ROGUE), way, str(notes))
    return Program(sys.executable, ("-I", "-S", *args))


def installed(name: str) -> Program:
    """A server from a package."""
    return Program(str(Path(sys.executable).with_name(name)))


class Kept:
    """A server, with what was told of it."""

    def __init__(self, server: Callable[["Kept"], McpServer]) -> None:
        self.lines: list[str] = []
        self.states: list[object] = []
        self._changed = asyncio.Event()
        self.server = server(self)

    def tell(self, line: str) -> None:
        self.lines.append(line)

    def changed(self, server: McpServer) -> None:
        self.states.append(server.state)
        self._changed.set()

    async def until(self, fits: Callable[[McpServer], bool]) -> None:
        """Wait until the server is so."""
        async with within("another state of the server"):
            while not fits(self.server):
                self._changed.clear()
                await self._changed.wait()

    async def ready(self) -> Ready:
        await self.until(lambda server: isinstance(server.state, Ready))
        assert isinstance(self.server.state, Ready)
        return self.server.state

    @property
    def said(self) -> str:
        return "\n".join(self.lines)


@asynccontextmanager
async def kept(
    folder: Path, where: Where, *, name: str = "rogue", patience: McpTimeouts = QUICK
) -> AsyncGenerator[Kept, None]:
    """A server, started; in the end no task and no process is left of it."""
    before = asyncio.all_tasks()
    folder.mkdir(exist_ok=True)
    lock = LockFile(folder / FILE_NAME)
    it = Kept(lambda it: McpServer(name, where, lock, changed=it.changed, tell=it.tell, patience=patience))
    it.server.start()
    try:
        yield it
    finally:
        await it.server.close()
        assert asyncio.all_tasks() == before


eventually = until  # as other folders call it


def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program that does not leave by itself be asked, and ended, at once."""
    for name in ("_POLITE_SECONDS", "_FIRM_SECONDS"):
        monkeypatch.setattr(transports, name, 0.05)


def alive(number: int) -> bool:
    """Whether a process runs; one that ended and waits to be buried does not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{number}/stat")
    try:
        return not status.parent.parent.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def started(notes: Path, word: str = "started") -> list[int]:
    """The processes that a rogue noted."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]
