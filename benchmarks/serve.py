"""The HTTP server: how soon it is up, what it adds to the model's answer, and what an open stream costs.

Pixi runs in a process of its own, as `pixi-persona serve`. The floor is a bare aiohttp handler in another
one that answers a fixed JSON body.
"""

import asyncio
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from benchmarks.processes import ROOT, ServerAddress, WorkerFailed, model_server
from benchmarks.replies import STAMP_DIGITS
from benchmarks.report import Figure, progress
from benchmarks.rounds import interleave

COMMAND = "python -m benchmarks serve"
GOAL_START_MS = 700
GOAL_JSON_MS = 2.0
GOAL_EVENT_MS = 5.0
GOAL_STREAM_KB = 60
RATE = 30.0
PATIENCE = 20.0
"""Seconds after which a server that has not answered will not answer."""

SETTINGS = """
[http]
requests_per_minute = 1000000
turns_per_person = 1000
"""
PERSONA = "---\nname: Pixi\npace: off\n---\n\nYou are Pixi.\n"
BARE = """
import sys
from aiohttp import web

async def chat(request):
    await request.json()
    return web.json_response({"response": "hello", "text": "hello"})

async def healthz(request):
    return web.Response(text="ok")

app = web.Application()
app.add_routes([web.post("/api/chat", chat), web.get("/healthz", healthz)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""
_STAMP = re.compile(rb'"event": ?"send".*?(\d{%d})"' % STAMP_DIGITS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class Served:
    """A server that runs in a process; `started` is how many milliseconds it took to answer."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process = process
        self.address = f"http://127.0.0.1:{port}"
        self.port = port
        self.started = 0.0

    async def wait(self, begun: float) -> None:
        """Wait for the first answer on /healthz.

        Raises:
            WorkerFailed: the process ended, or does not answer.
        """
        async with aiohttp.ClientSession() as session:
            while time.perf_counter() - begun < PATIENCE:
                if self._process.poll() is not None:
                    raise WorkerFailed("the server ended before it answered")
                try:
                    async with session.get(f"{self.address}/healthz") as answer:
                        if answer.status == 200:
                            self.started = (time.perf_counter() - begun) * 1e3
                            return
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.005)
        raise WorkerFailed("the server does not answer on /healthz")

    @property
    def kilobytes(self) -> float:
        """Memory of the process, where /proc tells it; else 0."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        except FileNotFoundError:
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024


@contextmanager
def _running(command: list[str], port: int, home: Path) -> Iterator[Served]:
    begun = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        served = Served(process, port)
        asyncio.run(served.wait(begun))
        yield served
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def bare() -> Iterator[Served]:
    """A bare aiohttp server."""
    port = _free_port()
    with _running([sys.executable, "-c", BARE, str(port)], port, ROOT) as served:
        yield served


@contextmanager
def pixi(base_url: str) -> Iterator[Served]:
    """`pixi-persona serve` with a store of its own, and limits that a benchmark does not reach."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), _free_port()
        (home / "pixi.toml").write_text(SETTINGS, encoding="utf-8")
        (home / "plain.md").write_text(PERSONA, encoding="utf-8")
        model = ["--model", "benchmark", "--base-url", base_url, "--persona", "plain.md"]
        command = [sys.executable, "-m", "pixi", "serve", "--only", "http", "--port", str(port), *model]
        with _running(command, port, home) as served:
            yield served


async def _posted(url: str, body: dict[str, object], count: int) -> float:
    """Milliseconds of an answer to a POST, on one kept connection: the mean."""
    async with aiohttp.ClientSession() as session:
        before = time.perf_counter()
        for _ in range(count):
            async with session.post(url, json=body) as answer:
                if answer.status != 200:
                    raise WorkerFailed(f"{url} answered {answer.status}: {(await answer.text())[:200]}")
                await answer.read()
    return (time.perf_counter() - before) / count * 1e3


def _answers(server: ServerAddress, quick: bool) -> list[Figure]:
    """Start, and what is added to the model's answer, beside the floor."""
    base_url, count = server.fast(100), 3 if quick else 50
    starts: dict[str, list[float]] = {"pixi": [], "bare": []}
    for _ in range(1 if quick else 5):
        with pixi(base_url) as ours, bare() as floor:
            starts["pixi"].append(ours.started)
            starts["bare"].append(floor.started)
    with pixi(base_url) as ours, bare() as floor:
        said: dict[str, object] = {"message": "hello"}
        asked: dict[str, object] = {"model": "benchmark", "messages": [], "stream": True}
        rounds = interleave(
            {
                "pixi": lambda: asyncio.run(_posted(f"{ours.address}/api/chat", said, count)),
                "model": lambda: asyncio.run(_posted(f"{base_url}/chat/completions", asked, count)),
                "bare": lambda: asyncio.run(_posted(f"{floor.address}/api/chat", said, count)),
            },
            rounds=1 if quick else 9,
        )
    added = rounds.median("pixi") - rounds.median("model")
    first = {name: sorted(values)[len(values) // 2] for name, values in starts.items()}
    return [
        Figure(
            name="`serve`: from the start to the first answer on /healthz",
            command=COMMAND,
            goal=f"≤ {GOAL_START_MS} ms",
            ours=f"{first['pixi']:,.0f} ms",
            floors={"bare aiohttp": f"{first['bare']:,.0f} ms"},
            ratios={"Pixi / bare": f"{first['pixi'] / first['bare']:.1f}"},
            met=first["pixi"] <= GOAL_START_MS,
        ),
        Figure(
            name="`serve`: what a JSON answer takes beyond the model's",
            command=COMMAND,
            goal=f"≤ {GOAL_JSON_MS:g} ms",
            ours=f"{added:.2f} ms",
            floors={"bare aiohttp, whole answer": f"{rounds.median('bare'):.2f} ms"},
            ratios={"Pixi with the model / bare": f"{rounds.ratio('pixi', 'bare'):.1f}"},
            met=added <= GOAL_JSON_MS,
        ),
    ]


async def _stream(session: aiohttp.ClientSession, address: str, number: int, delays: list[int]) -> None:
    """Read one reply as events; note for each message how long ago its bracket was written."""
    body = {"message": "hello", "conversation": f"talk-{number}"}
    async with session.post(
        f"{address}/api/chat", json=body, headers={"Accept": "text/event-stream"}
    ) as answer:
        if answer.status != 200:
            raise WorkerFailed(f"a stream was answered {answer.status}")
        async for line in answer.content:
            if found := _STAMP.search(line):
                delays.append(time.monotonic_ns() - int(found[1]))  # noqa: PERF401 - the moment counts


async def _all_streams(server: ServerAddress, ours: Served, streams: int) -> tuple[list[int], float]:
    """The delays in nanoseconds, and the kilobytes that a stream holds while all are open."""
    delays: list[int] = []
    before = ours.kilobytes
    limits = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as session:
        reading = [asyncio.create_task(_stream(session, ours.address, n, delays)) for n in range(streams)]
        await asyncio.wait_for(server.writing(), PATIENCE)
        held = (ours.kilobytes - before) / streams
        await asyncio.gather(*reading)
    return delays, held


def _streams(server: ServerAddress, quick: bool) -> list[Figure]:
    streams, chunks = (3, 40) if quick else (100, 200)
    with pixi(server.paced(streams, chunks, RATE)) as ours:
        delays, held = asyncio.run(_all_streams(server, ours, streams))
    if not delays:
        raise WorkerFailed("no message came through the streams")
    ordered = sorted(delay / 1e6 for delay in delays)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return [
        Figure(
            name=f"`serve`: from the written `]` to the event at the client, p50 / p99, {streams} streams",
            command=COMMAND,
            goal=f"p99 ≤ {GOAL_EVENT_MS:g} ms",
            ours=f"{p50:.2f} / {p99:.2f} ms",
            met=p99 <= GOAL_EVENT_MS,
            note=f"{len(delays):,} messages; the clients are one process of aiohttp, whose time is in it",
        ),
        Figure(
            name=f"`serve`: memory per open stream, {streams} streams",
            command=COMMAND,
            goal=f"≤ {GOAL_STREAM_KB} KB",
            ours=f"{held:.0f} KB",
            met=held <= GOAL_STREAM_KB,
            note="with the turn behind it",
        ),
    ]


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    progress("serve")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with model_server(None) as server:
        return [*_answers(server, quick), *_streams(server, quick)]
