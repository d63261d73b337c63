"""How long until Pixi is there: `--help`, `chat` to its prompt, a reader of documents; and memory at rest."""

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import ROOT, WorkerFailed, model_server
from benchmarks.report import Figure
from benchmarks.rounds import interleave
from pixi.documents import FileLimits
from pixi.documents.process import FileOpener, ReadingProcess

GOAL_HELP_MS = 300
GOAL_PROMPT_MS = 600
GOAL_READER_MS = 250
GOAL_REST_MB = 80

PROMPT = "› "
PATIENCE = 20.0
"""Seconds after which a prompt that has not come will not come."""

REST = 1.5
"""Seconds after the prompt until the process is taken to rest: what answers is opened behind the prompt."""


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a program. It keeps its bytecode, as where it is installed, in its home.

    Else each start would compile every module, where the shell says so or a module was changed since.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    bytecode = str(home / "bytecode")
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": bytecode, "HOME": str(home)}


def _milliseconds(command: list[str], home: Path) -> float:
    """How long a command takes, from its start to its end."""
    before = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=_environment(home), stdout=subprocess.DEVNULL)
    return (time.perf_counter() - before) * 1e3


async def _first_reader() -> float:
    """Milliseconds until a process that reads documents is up, confined, and waits for files."""
    before = time.perf_counter()
    reader = await ReadingProcess.start(FileLimits(), FileOpener())
    spent = (time.perf_counter() - before) * 1e3
    await reader.close()
    return spent


class Terminal:
    """The far end of a terminal: keeps what was shown, answers where the cursor is."""

    def __init__(self, controller: int) -> None:
        self._controller = controller
        self.shown = ""

    @property
    def last(self) -> str:
        """The end of what was shown, without the escape sequences."""
        return repr(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown).strip()[-200:])

    def read_until(self, mark: str, seconds: float) -> None:
        """Read until the mark was shown.

        Raises:
            WorkerFailed: it did not come, or the program ended; the text tells the last of what was shown.
        """
        deadline = time.monotonic() + seconds
        while mark not in self.shown:
            if not self._read_some(deadline - time.monotonic()):
                raise WorkerFailed(f"no prompt within {seconds:.0f} s; shown last: {self.last}")

    def read_for(self, seconds: float) -> None:
        """Read whatever is shown for so long, as any terminal would."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._read_some(left):
            continue

    def _read_some(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._controller], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self._controller, 65536).decode("utf-8", "replace")
        except OSError:  # Linux says so when the program has closed its end
            return False
        self.shown += data
        if "\x1b[6n" in data:
            os.write(self._controller, b"\x1b[1;1R")
        return bool(data)


@contextmanager
def _chat(base_url: str, folder: Path) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    """`chat` on a terminal of its own, in a folder that is its home."""
    controller, program = pty.openpty()
    environment = {**_environment(folder), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "pixi", "chat", "--base-url", base_url, "--model", "benchmark"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=program,
        stdout=program,
        stderr=program,
        start_new_session=True,
    )
    os.close(program)
    try:
        yield Terminal(controller), process
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(controller)


def _resident_megabytes(pid: int) -> float:
    """Memory of a process and all that it started, where /proc tells it; else 0."""
    folder = Path("/proc") / str(pid)
    try:
        pages = int((folder / "statm").read_text().split()[1])
        children = [
            int(child) for task in folder.glob("task/*/children") for child in task.read_text().split()
        ]
    except FileNotFoundError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20 + sum(map(_resident_megabytes, children))


def _first_prompt(base_url: str, home: Path, resting: list[float]) -> float:
    """Milliseconds to the prompt; `resting` gets the megabytes a while after it."""
    before = time.perf_counter()
    with _chat(base_url, home) as (terminal, process):
        terminal.read_until(PROMPT, PATIENCE)
        spent = (time.perf_counter() - before) * 1e3
        terminal.read_for(REST)
        if process.poll() is not None:
            raise WorkerFailed(f"chat ended by itself; shown last: {terminal.last}")
        resting.append(_resident_megabytes(process.pid))
    return spent


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    reading: list[float] = []
    resting: list[float] = []
    with model_server(None) as server, tempfile.TemporaryDirectory() as folder:
        base_url, home = server.fast(1), Path(folder)
        _first_prompt(base_url, home, reading)  # the first start ever reads the shipped documents
        rounds = interleave(
            {
                "help": lambda: _milliseconds([sys.executable, "-m", "pixi", "--help"], home),
                "prompt": lambda: _first_prompt(base_url, home, resting),
                "reader": lambda: asyncio.run(_first_reader()),
                "floor": lambda: _milliseconds([sys.executable, "-c", "pass"], home),
            },
            rounds=1 if quick else 9,
        )
    rest = sorted(resting)[len(resting) // 2]
    return [
        *(
            Figure(
                name=f"Start: {what}",
                goal=f"≤ {goal} ms",
                ours=f"{rounds.median(name):,.0f} ms",
                floors={"python -c pass": f"{rounds.median('floor'):,.0f} ms"},
                ratios={"Pixi / floor": f"{rounds.ratio(name, 'floor'):.1f}"},
                met=rounds.median(name) <= goal,
            )
            for name, what, goal in (
                ("help", "`--help`", GOAL_HELP_MS),
                ("prompt", "first prompt of `chat` against a server", GOAL_PROMPT_MS),
                ("reader", "a process that reads documents, confined", GOAL_READER_MS),
            )
        ),
        Figure(
            name=f"Memory of `chat` at rest, {REST:g} s after the first prompt",
            goal=f"≤ {GOAL_REST_MB} MB",
            ours=f"{rest:,.0f} MB" if rest else "not told by this system",
            met=rest <= GOAL_REST_MB if rest else None,
            note=f"at the first start of all, while the shipped documents are read: {reading[0]:,.0f} MB",
        ),
    ]
