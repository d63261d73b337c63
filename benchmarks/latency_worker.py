"""Runs in a process of its own, so that its memory is known: many simultaneous replies to one contender."""

import asyncio
import gc
import json
import os
import resource
import sys
import time
from typing import Any

from benchmarks.contenders import Contender, Floor, Pixi, new_event_loop
from benchmarks.processes import ServerAddress
from pixi.cli.running import tune

RATE = 30.0


def make(name: str) -> Contender:
    """The contender of that name."""
    return Pixi() if name == "Pixi" else Floor(watching=True)


def resident_kilobytes() -> float:
    """Memory of this process, where /proc tells it; else 0."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
    except FileNotFoundError:
        return 0.0


async def measure(name: str, port: int, streams: int, seconds: float) -> dict[str, Any]:
    """The delays of so many simultaneous replies, what a stream holds of memory, the share of the core."""
    server = ServerAddress(port)
    warm = make(name)
    await warm.open(server.fast(100))
    await warm.reply(0)
    await warm.close()
    contender = make(name)
    await contender.open(server.paced(streams, int(RATE * seconds), RATE))
    gc.collect()
    tune()  # as the program does, and freezes what it has built
    gc.freeze()
    memory = resident_kilobytes()
    replies = [asyncio.create_task(contender.reply(number)) for number in range(streams)]
    await server.writing()
    started, spent = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds / 2)
    memory = resident_kilobytes() - memory
    share = (time.process_time() - spent) / (time.monotonic() - started)
    await asyncio.gather(*replies)
    await contender.close()
    return {"latencies_ns": contender.delays, "kb_per_stream": memory / streams, "cpu_share": share}


def main() -> None:
    """Answer until standard input closes."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for line in sys.stdin:
        loop, _ = new_event_loop()
        with asyncio.Runner(loop_factory=lambda loop=loop: loop) as runner:  # type: ignore[misc]
            print(json.dumps(runner.run(measure(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
