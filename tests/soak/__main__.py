"""`python -m tests.soak --minutes 60`: an hour among people; exit code 1 if it lost, doubled or leaked."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.gauge import Sample
from tests.soak.page import page, summary
from tests.soak.run import Outcome, Plan, soaking

REPORT = Path("build") / "soak.html"
_LOG_LINES = 40


async def soak(plan: Plan, folder: Path, *, progress: bool = False) -> Outcome:
    """Do it, in a folder of its own."""
    async with soaking(folder, plan) as soaked:
        outcome = await soaked.run(_progress(plan) if progress else lambda _: None)
    if progress:
        print(file=sys.stderr)
    return outcome


def main() -> int:
    """Read the flags, soak, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--rate", type=float, default=12.0, help="what people do in a second")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed, the same town")
    parser.add_argument("--report", type=Path, default=REPORT, help=f"the page (default: {REPORT})")
    options = parser.parse_args()
    if options.minutes <= 0 or options.rate <= 0 or options.conversations < 1:
        parser.error("--minutes, --rate and --conversations must be greater than zero")
    plan = Plan(options.minutes * 60, options.conversations, options.rate, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(soak(plan, Path(folder), progress=sys.stderr.isatty()))
        log = (Path(folder) / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(page(outcome), encoding="utf-8")
    print(*summary(outcome), f"report: {options.report.resolve()}", sep="\n")
    if not outcome.wrong:
        return 0
    print(f"{len(outcome.wrong)} wrong:", *outcome.wrong, sep="\n  ")
    print("The end of the log:", *log[-_LOG_LINES:], sep="\n")
    return 1


def _progress(plan: Plan) -> Callable[[Sample], None]:
    """Writes one line over and over."""

    def show(sample: Sample) -> None:
        told = (
            f"{_clock(sample.at)} of {_clock(plan.seconds)}",
            f"{sample.asked:,} asked, {sample.answered:,} answered",
            f"{sample.own or sample.resident:.0f} MB",
            f"{sample.tasks} tasks",
            sample.weather,
        )
        print(f"\r{' · '.join(told)}\x1b[K", end="", file=sys.stderr, flush=True)

    return show


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main())
