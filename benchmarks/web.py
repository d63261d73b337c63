"""What it costs to fetch a page through the guard: microseconds of processor time, beside bare aiohttp."""

import asyncio
import gzip
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import aiohttp
from aiohttp import web

from benchmarks.report import Figure, progress
from benchmarks.rounds import Rounds, interleave
from tests.servers.staged_web import Stage, StagedWeb

GOAL_RATIO = 1.5
KEPT, ANEW, BARE_KEPT, BARE_ANEW = "kept", "anew", "bare, kept", "bare, anew"
PAGE = gzip.compress(b"<p>A page of about the usual size, with words in it.</p>\n" * 900)

Fetch = Callable[[], Awaitable[int]]


async def measured(fetch: Fetch, times: int) -> float:
    """Microseconds of this process for one fetch."""
    await fetch()
    before = time.process_time()
    for _ in range(times):
        await fetch()
    return (time.process_time() - before) / times * 1e6


async def guarded(port: int, path: str, times: int) -> float:
    """As Pixi fetches: looked up, checked, dialled, unpacked by itself."""
    stage = Stage()
    url = stage.put("pages.pixi-web.net", port) + path
    async with StagedWeb(stage) as fetching:

        async def fetch() -> int:
            return len((await fetching.get(url)).body)

        return await measured(fetch, times)


async def bare(port: int, path: str, times: int) -> float:
    """As aiohttp fetches by itself."""
    async with aiohttp.ClientSession() as session:

        async def fetch() -> int:
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return len(await response.read())

        return await measured(fetch, times)


def rounds_of(port: int, times: int, turns: int) -> Rounds:
    """All four, in turns: over a connection that is kept, and over a new one each time."""
    with asyncio.Runner() as runner:
        return interleave(
            {
                KEPT: lambda: runner.run(guarded(port, "/", times)),
                BARE_KEPT: lambda: runner.run(bare(port, "/", times)),
                ANEW: lambda: runner.run(guarded(port, "/anew", times)),
                BARE_ANEW: lambda: runner.run(bare(port, "/anew", times)),
            },
            turns,
        )


def run(quick: bool) -> list[Figure]:
    """Measure."""
    times, turns = (5, 1) if quick else (300, 7)
    progress("pages of the web")
    with page_server() as port:
        rounds = rounds_of(port, times, turns)
    kept, anew = rounds.ratio(KEPT, BARE_KEPT), rounds.ratio(ANEW, BARE_ANEW)
    return [
        Figure(
            "A page fetched through the guard, µs of processor time (connection kept / new)",
            f"≤ {GOAL_RATIO}× bare aiohttp",
            f"{rounds.median(KEPT):.0f} / {rounds.median(ANEW):.0f}",
            floors={"bare aiohttp": f"{rounds.median(BARE_KEPT):.0f} / {rounds.median(BARE_ANEW):.0f}"},
            ratios={"beside bare aiohttp": f"{kept:.2f}× / {anew:.2f}×"},
            met=max(kept, anew) <= GOAL_RATIO,
            note="On loopback, a page of 51 KB that comes packed.",
        )
    ]


@contextmanager
def page_server() -> Iterator[int]:
    """A server in a process of its own; gives its port."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()
        here.close()


def _serve(telling: Connection) -> None:
    asyncio.run(_serve_pages(telling))


async def _serve_pages(telling: Connection) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Encoding": "gzip", "Content-Type": "text/html"}
        if request.path == "/anew":
            headers["Connection"] = "close"
        return web.Response(body=PAGE, headers=headers)

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/anew", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    telling.send(runner.addresses[0][1])
    await asyncio.Event().wait()
