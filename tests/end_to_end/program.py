"""Runs the program as a person's shell does: through pipes, or on a terminal of its own."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager, chdir, suppress
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from unittest import mock

from pixi.cli import frame
from tests.waiting import within

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 60.0
"""How long anything may take before a test fails; machines that run many tests are slow."""

OWN_SETTINGS = ("PIXI_", "OPENAI_", "DISCORD_", "NO_COLOR", "PYTHON")  # unbuffered streams, no bytecode
SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]|\r")


def environment(home: Path, **more: str) -> dict[str, str]:
    """What the program finds: nothing of the settings of whoever runs the tests, Python's own included."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OWN_SETTINGS) and not name.endswith("_API_KEY")
    }
    own = {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "LINES": "30",
        "COLUMNS": "100",
    }
    return kept | own | more


@dataclass(slots=True)
class Ended:
    """What the program left."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Piped:
    """The program with pipes for its streams."""

    process: asyncio.subprocess.Process

    async def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> str:
        """The next line of its standard output."""
        assert self.process.stdout
        return (await asyncio.wait_for(self.process.stdout.readline(), SECONDS)).decode().rstrip("\n")

    async def end(self, data: bytes = b"") -> Ended:
        """Give it the rest of its input, and wait until it ends."""
        out, err = await asyncio.wait_for(self.process.communicate(data), SECONDS)
        assert self.process.returncode is not None
        return Ended(self.process.returncode, (out or b"").decode(), err.decode())


@asynccontextmanager
async def piped(
    home: Path,
    *words: str,
    launch: str = "",
    stdout: int = asyncio.subprocess.PIPE,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Piped, None]:
    """`python -m pixi WORDS` in the folder `home`, started by the program `launch` if there is one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(("-c", launch) if launch else ("-m", "pixi")),
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        cwd=home,
        env=environment(home, **(environ or {})),
    )
    try:
        yield Piped(process)
    finally:
        await _gone(process)


async def chat(home: Path, data: str | bytes, *words: str) -> Ended:
    """`chat WORDS` with this standard input, until it ends; see `ran`."""
    return await ran(home, data.encode() if isinstance(data, str) else data, "chat", *words)


async def ran(home: Path, data: bytes, *words: str) -> Ended:
    """The command line WORDS with this standard input, until it ends; in this process: no interpreter starts.

    What a process of its own is needed for (signals, pipes that close, what is imported) goes by `piped`.
    """
    loop = asyncio.get_running_loop()
    written = BytesIO(), BytesIO()
    out, err = (TextIOWrapper(each, encoding="utf-8") for each in written)

    def run_here(work: Coroutine[None, None, int]) -> int:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    with ExitStack() as stack:
        given = stack.enter_context(TemporaryFile())
        given.write(data)
        given.seek(0)
        stdin = TextIOWrapper(given, encoding="utf-8")
        stack.callback(stdin.close)
        stack.enter_context(chdir(home))
        stack.enter_context(mock.patch.dict(os.environ, environment(home), clear=True))
        stack.enter_context(mock.patch("pixi.cli.running.run_async", run_here))
        for name, stream in (("stdin", stdin), ("stdout", out), ("stderr", err)):
            stack.enter_context(mock.patch.object(sys, name, stream))
        async with within(f"the end of {' '.join(words)}"):
            code = await asyncio.to_thread(frame.run, words)
    for stream in (out, err):
        stream.flush()
    said, told = (each.getvalue().decode() for each in written)
    return Ended(code, said, told)


@dataclass(slots=True)
class Terminal:
    """The program on a terminal of its own."""

    process: asyncio.subprocess.Process
    master: int
    raw: str = ""
    _read_to: int = 0
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def type(self, keys: str) -> None:
        """Press keys: `\\r` is enter, `\\x03` Ctrl-C, `\\x04` Ctrl-D."""
        os.write(self.master, keys.encode())

    async def shows(self, text: str, *, seconds: float = SECONDS) -> None:
        """Wait until the text is drawn, after all that was waited for before."""
        try:
            async with asyncio.timeout(seconds):
                while (at := self.text.find(text, self._read_to)) < 0:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} was not shown; the end is {self.text[-800:]!r}") from None
        self._read_to = at + len(text)

    async def shows_on(self, keys: str, text: str) -> None:
        """Press keys again and again until the text is drawn: what they bring may still be loading."""
        for _ in range(30):
            self.type(keys)
            with suppress(AssertionError):
                return await self.shows(text, seconds=1)
        raise AssertionError(f"{text!r} was not shown; the end is {self.text[-800:]!r}")

    async def ended(self) -> int:
        """Wait until the program ends; gives its exit code."""
        return await asyncio.wait_for(self.process.wait(), SECONDS)

    @property
    def text(self) -> str:
        """Everything that was drawn, without the sequences that say where and how."""
        return SEQUENCES.sub("", self.raw)

    def read(self) -> None:
        """Take what the program wrote."""
        try:
            data = os.read(self.master, 65_536)
        except OSError:  # how a terminal says that nobody writes to it any more
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.master)
        self.raw += data.decode(errors="replace")
        self._arrived.set()


@asynccontextmanager
async def on_terminal(home: Path, *words: str, **environ: str) -> AsyncGenerator[Terminal, None]:
    """`python -m pixi WORDS` on a terminal of 100 columns and 30 rows, in the folder `home`."""
    import fcntl
    import struct
    import termios

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pixi", *words),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=home,
        env=environment(home, **environ),
        preexec_fn=lambda: os.login_tty(0),
    )
    os.close(slave)
    terminal = Terminal(process, master)
    asyncio.get_running_loop().add_reader(master, terminal.read)
    try:
        yield terminal
    finally:
        await _gone(process)
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)


async def _gone(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        await process.wait()
