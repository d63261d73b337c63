"""The HTTP server: how soon it is up, what it adds to the model's answer, and what an open stream costs.

Pixi runs in a process of its own, as `pixi-persona serve`, and so do the model, the clients of streams, and
the floors: a bare aiohttp handler that hands on what the model writes, with aiohttp or with the openai SDK.
"""

import asyncio
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.processes import ROOT, ServerAddress, Worker, WorkerFailed, model_server, worker
from benchmarks.report import Figure
from benchmarks.rounds import interleave
from benchmarks.serve_relay import WAYS

GOAL_START_MS = 700
GOAL_JSON_MS = 2.0
GOAL_EVENT_MS = 5.0
GOAL_STREAM_KB = 60
GOAL_IDLE_MB = 60
BARE, SDK = "bare aiohttp", "openai SDK behind aiohttp"
RATE = 30.0
PATIENCE = 20.0
"""Seconds after which a server that has not answered will not answer."""

SETTINGS = """
[http]
requests_per_minute = 1000000
turns_per_person = 1000
"""
PERSONA = "---\nname: Pixi\npace: off\n---\n\nYou are Pixi.\n"
TEXT_STAMP = r'"event": ?"text".*?'
SEND_STAMP = r'"event": ?"send".*?'
"""What stands before a stamp in the line that counts: a relay hands on the piece, Pixi posts the message."""


def clients_of_streams() -> AbstractContextManager[Worker]:
    """Start a process that opens and reads streams, see `serve_clients`."""
    return worker([sys.executable, "-m", "benchmarks.serve_clients"])


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
    def seconds(self) -> float:
        """Processor time of the process, where /proc tells it; else 0."""
        try:
            told = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        except FileNotFoundError:
            return 0.0
        user, system = told.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

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
def relay(way: str, base_url: str) -> Iterator[Served]:
    """A bare aiohttp server that hands on what the model writes, see `serve_relay`."""
    port = _free_port()
    command = [sys.executable, "-m", "benchmarks.serve_relay", str(port), way, base_url]
    with _running(command, port, ROOT) as served:
        yield served


@contextmanager
def home() -> Iterator[Path]:
    """A folder in which Pixi was started once: the documents that come with it are read and indexed."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pixi.toml").write_text(SETTINGS, encoding="utf-8")
        (Path(folder) / "plain.md").write_text(PERSONA, encoding="utf-8")
        with pixi("http://127.0.0.1:9/v1", Path(folder)) as served:
            spent = -1.0
            while served.seconds > spent + 0.05:
                spent = served.seconds
                time.sleep(3.0)
        yield Path(folder)


@contextmanager
def pixi(base_url: str, folder: Path) -> Iterator[Served]:
    """`pixi-persona serve` with a store of its own, and limits that a benchmark does not reach."""
    port = _free_port()
    for file in folder.glob("pixi.db*"):
        file.unlink()
    model = ["--model", "benchmark", "--base-url", base_url, "--persona", "plain.md"]
    command = [sys.executable, "-m", "pixi", "serve", "--only", "http", "--port", str(port), *model]
    with _running(command, port, folder) as served:
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


def _answers(server: ServerAddress, folder: Path, quick: bool) -> list[Figure]:
    """Start, and what is added to the model's answer, beside the floors."""
    base_url, count = server.fast(100), 3 if quick else 50
    starts: dict[str, list[float]] = {"pixi": [], "bare": [], "sdk": []}
    for _ in range(1 if quick else 5):
        for name, command in (
            ("pixi", pixi(base_url, folder)),
            *((way, relay(way, base_url)) for way in WAYS),
        ):
            with command as served:
                starts[name].append(served.started)
    with pixi(base_url, folder) as ours, relay("bare", base_url) as bare, relay("sdk", base_url) as sdk:
        said: dict[str, object] = {"message": "hello"}
        asked: dict[str, object] = {"model": "benchmark", "messages": [], "stream": True}
        rounds = interleave(
            {
                "pixi": lambda: asyncio.run(_posted(f"{ours.address}/api/chat", said, count)),
                "model": lambda: asyncio.run(_posted(f"{base_url}/chat/completions", asked, count)),
                "bare": lambda: asyncio.run(_posted(f"{bare.address}/api/chat", said, count)),
                "sdk": lambda: asyncio.run(_posted(f"{sdk.address}/api/chat", said, count)),
            },
            rounds=1 if quick else 9,
        )
    added = {name: rounds.median(name) - rounds.median("model") for name in ("pixi", *WAYS)}
    first = {name: sorted(values)[len(values) // 2] for name, values in starts.items()}
    return [
        _figure(
            "from the start to the first answer on /healthz",
            first,
            GOAL_START_MS,
            "medians of five, in turn; not the first start of all, at which the documents are read",
        ),
        _figure(
            "what a JSON answer takes beyond the model's, 100 chunks, 3 messages, 1 reaction",
            added,
            GOAL_JSON_MS,
            f"the model's own answer: {rounds.median('model'):.2f} ms; the first turn of a talk is "
            "committed five times, and each time the store's thread is woken and waited for",
        ),
    ]


def _figure(name: str, spent: dict[str, float], goal: float, note: str) -> Figure:
    """Return the figure of milliseconds, by who spent them."""
    return Figure(
        name=f"`serve`: {name}",
        goal=f"≤ {goal:g} ms",
        ours=f"{spent['pixi']:,.2f} ms",
        peers={SDK: f"{spent['sdk']:,.2f} ms"},
        floors={BARE: f"{spent['bare']:,.2f} ms"},
        ratios={
            "Pixi / bare": f"{spent['pixi'] / spent['bare']:.1f}",
            "Pixi / SDK": f"{spent['pixi'] / spent['sdk']:.1f}",
        },
        met=spent["pixi"] <= goal,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class Streamed:
    """What came of many streams: delays in milliseconds, sorted, and what a stream held at most, in KB."""

    delays: list[float]
    kilobytes: float
    share: float
    clients: float

    def percentile(self, percent: int) -> float:
        """A delay."""
        return self.delays[len(self.delays) * percent // 100]


def _streamed(clients: Worker, served: Served, streams: int, stamp: str) -> Streamed:
    """Open streams, and read them to their ends while their memory is looked at."""
    before, spent, began = served.kilobytes, served.seconds, time.monotonic()
    asked = {"do": "open", "port": served.port, "count": streams, "method": "POST", "path": "/api/chat"}
    told = clients.ask({**asked, "body": '{"message": "hello", "conversation": "talk-{n}"}'})
    if told["refused"]:
        raise WorkerFailed(f"a stream was answered {told['refused'][0]}")
    most = served.kilobytes
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(clients.ask, {"do": "read", "stamp": stamp})
        while not reading.done():
            most = max(most, served.kilobytes)
            time.sleep(0.05)
        told = reading.result()
    clients.ask({"do": "close"})
    delays = sorted(delay / 1e6 for delay in told["delays"])
    if not delays:
        raise WorkerFailed("no message came through the streams")
    took = time.monotonic() - began
    share, theirs = (served.seconds - spent) / took, told["seconds"] / took
    return Streamed(delays, (most - before) / streams, share, theirs)


def _streams(server: ServerAddress, clients: Worker, folder: Path, quick: bool) -> list[Figure]:
    streams, chunks = (3, 40) if quick else (100, 200)
    measured: dict[str, list[Streamed]] = {"pixi": [], "bare": [], "sdk": []}
    for _ in range(1 if quick else 3):
        # One more than are measured: the first is stopped, after it has woken what every process needs once.
        with pixi(server.paced(streams + 1, chunks, RATE), folder) as ours:
            _warm(clients, ours, server)
            measured["pixi"].append(_streamed(clients, ours, streams, SEND_STAMP))
        for way in WAYS:
            with relay(way, server.paced(streams, chunks, RATE)) as theirs:
                measured[way].append(_streamed(clients, theirs, streams, TEXT_STAMP))
    runs = measured.items()
    p50 = {name: statistics.median(one.percentile(50) for one in all_of) for name, all_of in runs}
    p99 = {name: statistics.median(one.percentile(99) for one in all_of) for name, all_of in runs}
    held = {name: statistics.median(one.kilobytes for one in all_of) for name, all_of in runs}
    share = {name: statistics.median(one.share for one in all_of) for name, all_of in runs}
    bare, load = share["bare"], measured["pixi"][-1].clients
    return [
        Figure(
            name=f"`serve`: from the written `]` to the event at the client, p50 / p99, {streams} streams",
            goal=f"p99 ≤ {GOAL_EVENT_MS:g} ms",
            ours=f"{p50['pixi']:.2f} / {p99['pixi']:.2f} ms",
            peers={SDK: f"{p50['sdk']:.2f} / {p99['sdk']:.2f} ms"},
            floors={BARE: f"{p50['bare']:.2f} / {p99['bare']:.2f} ms"},
            ratios={
                "Pixi / bare": f"{p50['pixi'] / p50['bare']:.1f} / {p99['pixi'] / p99['bare']:.1f}",
                "Pixi / SDK": f"{p50['pixi'] / p50['sdk']:.1f} / {p99['pixi'] / p99['sdk']:.1f}",
                **({"processor time, Pixi / bare": f"{share['pixi'] / bare:.1f}"} if bare else {}),
            },
            met=p99["pixi"] <= GOAL_EVENT_MS,
            note=f"medians of three runs, in turn, with {len(measured['pixi'][-1].delays):,} messages each; "
            f"Pixi took {share['pixi']:.0%} of a core, the bare handler {bare:.0%}, the clients "
            f"{load:.0%}; the others hand on a piece, Pixi has the message on record before",
        ),
        Figure(
            name=f"`serve`: memory per open stream with its turn, at most, {streams} streams",
            goal=f"≤ {GOAL_STREAM_KB} KB",
            ours=f"{held['pixi']:.0f} KB",
            peers={SDK: f"{held['sdk']:.0f} KB"},
            floors={BARE: f"{held['bare']:.0f} KB"},
            ratios={"Pixi / bare": f"{held['pixi'] / held['bare']:.1f}"},
            met=held["pixi"] <= GOAL_STREAM_KB,
            note="two connections each, one to the client and one to the model; most when all turns end, in "
            "the same moment; no kind of object takes more than an eighth of it",
        ),
    ]


def _warm(clients: Worker, served: Served, server: ServerAddress) -> None:
    """Begin a turn, and stop it once the model is asked."""
    asked = {"do": "open", "port": served.port, "count": 1, "method": "POST", "path": "/api/chat"}
    clients.ask({**asked, "body": '{"message": "hello", "conversation": "first"}'})
    while not server.report().get("asked"):
        time.sleep(0.01)
    stop = urllib.request.Request(f"{served.address}/api/chat/first/stop", method="POST")
    with urllib.request.urlopen(stop, timeout=PATIENCE) as answer:
        answer.read()
    clients.ask({"do": "close"})


def _idle(server: ServerAddress, clients: Worker, folder: Path, quick: bool) -> Figure:
    """Clients that follow a turn which waits for its model."""
    count = 10 if quick else 1000
    with pixi(server.paced(3, 10, RATE), folder) as ours:
        _warm(clients, ours, server)
        asked = {"do": "open", "port": ours.port, "method": "POST", "path": "/api/chat"}
        body = '{"message": "hello", "conversation": "talk"}'
        told = clients.ask({**asked, "count": 1, "body": body})
        before = ours.kilobytes
        follow = {**asked, "method": "GET", "path": "/api/chat/talk/stream", "count": count}
        refused = told["refused"] + clients.ask(follow)["refused"]
        if refused:
            raise WorkerFailed(f"a stream was answered {refused[0]}")
        held = (ours.kilobytes - before) / 1024
        clients.ask({"do": "close"})
    return Figure(
        name=f"`serve`: memory of {count:,} clients that follow a turn in which nothing happens",
        goal=f"≤ {GOAL_IDLE_MB} MB",
        ours=f"{held:.1f} MB",
        met=held <= GOAL_IDLE_MB,
    )


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        model_server(None) as server,
        clients_of_streams() as clients,
        home() as folder,
    ):
        return [
            *_answers(server, folder, quick),
            *_streams(server, clients, folder, quick),
            _idle(server, clients, folder, quick),
        ]
