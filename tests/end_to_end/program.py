"""Runs the program as a person's shell does: through pipes, or on a terminal of its own."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 30.0
"""How long anything may take before a test fails; machines that run many tests are slow."""

OWN_SETTINGS = ("PIXI_", "OPENAI_", "DISCORD_", "NO_COLOR", "PYTHON")  # unbuffered streams, no bytecode
SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]|\r")


def environment(home: Path, **more: str) -> dict[str, str]:
    """What the program finds: nothing of the settings of whoever runs the tests, Python's own included."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)}
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
    """`chat WORDS` with this standard input, until it ends."""
    async with piped(home, "chat", *words) as program:
        return await program.end(data.encode() if isinstance(data, str) else data)


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
        deadline = time.monotonic() + seconds
        while (at := self.text.find(text, self._read_to)) < 0:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), deadline - time.monotonic())
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
