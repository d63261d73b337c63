"""Runs odd replies through the command language: so many of them, or for so long.

python -m tests.fuzz --count 1000000
python -m tests.fuzz --seconds 600
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator

from tests.conformance.replies import load_cases
from tests.fuzz.laws import Input, broken_law
from tests.fuzz.mutation import odd_cuts, odd_reply
from tests.fuzz.shrinking import shrunk

REPORT_EVERY_S = 5.0


def odd_inputs(seed: int) -> Iterator[Input]:
    """Yield odd replies and their cuts without end: the same ones for the same seed."""
    chance = random.Random(seed)
    corpus = [case.reply for case in load_cases()]
    while True:
        reply = odd_reply(corpus, chance)
        yield Input(reply, tuple(odd_cuts(reply, chance)))


def search(seed: int, *, count: int | None = None, seconds: float | None = None) -> Input | None:
    """Return the first input that breaks a law, as it was found; None if none did.

    Args:
        seed: of the inputs.
        count: how many of them to look at; None: no limit.
        seconds: how long to look; None: no limit.
    """
    begun = told = time.monotonic()
    looked = 0
    for subject in odd_inputs(seed):
        now = time.monotonic()
        if looked == count or (seconds is not None and now - begun >= seconds):
            break
        if now - told >= REPORT_EVERY_S:
            told = now
            print(f"{looked:,} replies, {looked / (now - begun):,.0f} a second", file=sys.stderr, flush=True)
        looked += 1
        if broken_law(subject):
            return subject
    print(f"{looked:,} replies of seed {seed}, no law broken", file=sys.stderr)
    return None


def main() -> int:
    """Run the command line; return the exit code: 0 nothing found, 1 a law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, help="how many replies to look at")
    parser.add_argument(
        "--seconds", type=float, help="how long to look (default: 60, unless --count is given)"
    )
    parser.add_argument("--seed", type=int, help="look at the same replies again (default: others each time)")
    arguments = parser.parse_args()
    if arguments.count is None and arguments.seconds is None:
        arguments.seconds = 60.0
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    found = search(seed, count=arguments.count, seconds=arguments.seconds)
    if found is None:
        return 0
    print(f"seed {seed}: a law is broken; looking for the smallest reply that breaks one", file=sys.stderr)
    small = shrunk(found, lambda candidate: broken_law(candidate) is not None)
    print(f"reply = {small.reply!a}\ncuts = {list(small.cuts)}\n{broken_law(small)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
