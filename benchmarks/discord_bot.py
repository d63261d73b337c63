"""The bot as the program runs it, in a process of its own, watched: how late its loop is, what it holds.

Answers each line of JSON on standard input with one. The first says where the far ends are, and whether the
HTTP server runs beside the bot (`serves`); its answer tells the server's port.
"""

import asyncio
import gc
import json
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.contenders import new_event_loop
from benchmarks.latency_worker import resident_kilobytes
from pixi.app.service import open_service
from pixi.channels.discord.bot import Bot
from pixi.channels.http.server import HttpServer
from pixi.cli.running import tune
from pixi.settings import Settings, load

_LOOK_SECONDS = 0.005


def _waited() -> float:
    """Seconds that this thread could have run and no processor was free, where /proc tells it; else 0."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


class Watch:
    """Wakes up at short intervals, and notes by how much too late: in all, and by the loop's own work."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.own: list[float] = []
        self._spent = time.process_time()
        self._began = time.monotonic()
        self._reported = False  # while it slept: what that took is the benchmark's own

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            before, waited = time.monotonic(), _waited()
            await asyncio.sleep(_LOOK_SECONDS)
            if self._reported:
                self._reported = False
                continue
            self.lags.append(time.monotonic() - before - _LOOK_SECONDS)
            self.own.append(max(0.0, self.lags[-1] - (_waited() - waited)))

    def report(self) -> dict[str, float]:
        """What was seen since the last time."""
        lags, own = sorted(self.lags) or [0.0], sorted(self.own) or [0.0]
        share = (time.process_time() - self._spent) / (time.monotonic() - self._began)
        self.lags, self.own, self._spent, self._began = [], [], time.process_time(), time.monotonic()
        gc.collect()
        self._reported = True
        return {
            "lag_p50": lags[len(lags) // 2],
            "lag_p99": lags[len(lags) * 99 // 100],
            "lag_most": lags[-1],
            "own_p99": own[len(own) * 99 // 100],
            "kilobytes": resident_kilobytes(),
            "cpu_share": share,
        }


def settings(job: dict[str, Any]) -> Settings:
    """Of a bot in a folder, with everything else as it is by default."""
    folder = Path(job["folder"])
    (folder / "personas").mkdir(exist_ok=True)
    (folder / "personas" / "pixi.md").write_text("---\nname: Pixi\npace: off\n---\n\nYou are Pixi.\n")
    overrides = {
        "store.url": f"sqlite:///{folder / 'pixi.db'}",
        "model.name": "paced",
        "model.base_url": job["base_url"],
        "discord.api_url": job["api_url"],
        "discord.token": job["token"],
        "http.requests_per_minute": 1_000_000,
        "http.turns_per_person": 1_000,
    }
    return load(environ={}, folder=folder, overrides=overrides)


async def main() -> None:
    """Start the bot with the first line, then report until standard input closes."""
    job = json.loads(await asyncio.to_thread(sys.stdin.readline))
    chosen, watch = settings(job), Watch()
    tune()
    async with open_service(chosen) as service, AsyncExitStack() as stack:
        told = {}
        if job.get("serves"):
            server = HttpServer(service, chosen.http, files=Path(job["folder"]) / "files")
            url = await stack.enter_async_context(server.serving("127.0.0.1", 0))
            told = {"port": int(url.rpartition(":")[2])}
        bot = Bot(service, token=job["token"], api_url=job["api_url"], tell=lambda _: None)
        running = asyncio.create_task(bot.run())
        watching = asyncio.create_task(watch.run())
        print(json.dumps(told), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(watch.report()), flush=True)
        watching.cancel()
        running.cancel()
        await asyncio.wait([running, watching])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: new_event_loop()[0]) as run:
        run.run(main())
