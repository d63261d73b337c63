"""`python -m tests.kill --rounds 1000`: end the bot again and again; exit code 1 if anything was lost."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.kill.rounds import POINTS, SIGNALS, Report, Stuck, rounds


async def run(folder: Path, count: int, seed: int, *, progress: bool = False) -> Report:
    """So many rounds, each point and each signal about as often as the others."""
    chance = random.Random(seed)
    every = [(point, signal) for point in POINTS for signal in SIGNALS]
    ends = [every[number % len(every)] for number in range(count)]
    chance.shuffle(ends)
    async with rounds(folder, seed) as killing:
        await killing.begin()
        with suppress(Stuck):  # the report says so
            for number, (point, signal) in enumerate(ends, 1):
                await killing.round(point, signal)
                if progress:
                    print(f"\r{number} of {count} rounds", end="", file=sys.stderr, flush=True)
        await killing.end()
    if progress:
        print(file=sys.stderr)
    return killing.report


def main() -> int:
    """Read the flags, kill, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed, the same kills")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run(Path(folder), options.rounds, options.seed, progress=sys.stderr.isatty()))
        log = (Path(folder) / "log.txt").read_text(encoding="utf-8")
    print(f"seed {options.seed}: {report}")
    if report.clean:
        return 0
    print(*report.lost, *report.twice, *report.untrue, *report.unsettled, report.stuck, sep="\n  ")
    print(f"The end of the log:\n{log[-6_000:]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
