"""The other processes of a run, and which core each runs on: the model server and workers in Python."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent


class WorkerFailed(Exception):
    """A process of the run died; the text holds the end of what it wrote on standard error."""


def cores() -> tuple[int | None, int | None]:
    """A core for the client and another for the server; None where they cannot be chosen apart."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[-1]) if len(usable) > 1 else (None, None)


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this process and its later threads on one core meanwhile."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the model server listens."""

    port: int

    def fast(self, chunks: int) -> str:
        """Base URL under which a reply comes at once."""
        return f"http://127.0.0.1:{self.port}/fast/{chunks}/v1"

    def paced(self, streams: int, chunks: int, rate: float) -> str:
        """Base URL under which so many requests together get RATE chunks a second each."""
        return f"http://127.0.0.1:{self.port}/paced/{streams}/{chunks}/{rate:g}/v1"

    def report(self) -> dict[str, float]:
        """How many writes the pace has made; once it has ended, also how it was kept."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/report", timeout=30) as answer:
            told: dict[str, float] = json.load(answer)
        return told

    async def writing(self) -> None:
        """Return when a pace has begun to write."""
        while True:
            told = await asyncio.to_thread(self.report)
            if told.get("going") and told["writes"]:
                return
            await asyncio.sleep(0.02)


@contextmanager
def model_server(core: int | None) -> Iterator[ServerAddress]:
    """Start the model server, on that core if given, and stop it at the end."""
    command = [sys.executable, "-m", "benchmarks.server"]
    if core is not None:
        command.append(str(core))
    # It runs until its standard input closes, which happens at the end here even if this process is killed.
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise WorkerFailed("the model server did not start")
        yield ServerAddress(int(line))


class Worker:
    """A Python process that answers each line of JSON with one."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Have a job done.

        Raises:
            WorkerFailed: the process ended instead of answering.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines() or ["no word on standard error"]
            # What stands after the error are remarks of libraries on what was left open.
            errors = [line for line in said if re.match(r"[\w.]*Error\b", line)]
            raise WorkerFailed((errors or said)[-1])
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def worker(
    command: list[str], core: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Worker]:
    """Start a worker, on that core if given; it ends when its standard input closes."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=None if environment is None else {**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
            yield Worker(process, errors)
