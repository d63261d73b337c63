"""`python -m tests.kill --rounds 1000`: end the bot again and again; exit code 1 if anything was lost."""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.kill.rounds import POINTS, SIGNALS, Report, Stuck, rounds


async def run(folder: Path, rounds_wanted: int, seconds: float, seed: int, *, progress: bool) -> Report:
    """Kill so often, or for so long, whichever ends first; each point and signal as often as the others."""
    chance = random.Random(seed)
    every = [(point, signal) for point in POINTS for signal in SIGNALS]
    left: list[tuple[str, str]] = []
    over = time.monotonic() + seconds
    async with rounds(folder, seed) as killing:
        await killing.begin()
        with suppress(Stuck):  # the report says so
            for number in range(1, rounds_wanted + 1):
                if time.monotonic() > over:
                    break
                left = left or chance.sample(every, len(every))
                await killing.round(*left.pop())
                if progress:
                    print(f"\r{number} rounds", end="", file=sys.stderr, flush=True)
        await killing.end()
    if progress:
        print(file=sys.stderr)
    return killing.report


def main() -> int:
    """Read the flags, kill, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="the longest it may go on")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed, the same kills")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds, progress = options.minutes * 60, sys.stderr.isatty()
        report = asyncio.run(run(Path(folder), options.rounds, seconds, options.seed, progress=progress))
        log = (Path(folder) / "log.txt").read_text(encoding="utf-8")
    print(f"seed {options.seed}: {report}")
    if report.clean:
        return 0
    print(*report.lost, *report.twice, *report.untrue, *report.unsettled, report.stuck, sep="\n  ")
    print(f"The end of the log:\n{log[-6_000:]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
