"""Runs odd replies through the command language until the time is up: `python -m tests.fuzz --seconds 60`."""

import argparse
import random
import sys
import time

from tests.conformance.replies import load_cases
from tests.fuzz.laws import Input, broken_law
from tests.fuzz.mutation import odd_cuts, odd_reply
from tests.fuzz.shrinking import shrunk

REPORT_EVERY_S = 5.0


def search(seconds: float, seed: int, *, report: bool = True) -> Input | None:
    """Look for a reply that breaks a law for so many seconds; gives the first one, as it was found."""
    chance = random.Random(seed)
    corpus = [case.reply for case in load_cases()]
    begun = time.monotonic()
    told, count = begun, 0
    while (now := time.monotonic()) - begun < seconds:
        if report and now - told >= REPORT_EVERY_S:
            told = now
            print(f"{count:,} replies, {count / (now - begun):,.0f} a second", file=sys.stderr, flush=True)
        reply = odd_reply(corpus, chance)
        subject = Input(reply, tuple(odd_cuts(reply, chance)))
        count += 1
        if broken_law(subject):
            return subject
    if report:
        print(f"{count:,} replies of seed {seed}, no law broken", file=sys.stderr)
    return None


def main() -> int:
    """The command line; gives the exit code: 0 nothing found, 1 a law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look (default: 60)")
    parser.add_argument("--seed", type=int, help="look at the same replies again (default: others each time)")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    found = search(arguments.seconds, seed)
    if found is None:
        return 0
    print(f"seed {seed}: a law is broken; looking for the smallest reply that breaks one", file=sys.stderr)
    small = shrunk(found, lambda candidate: broken_law(candidate) is not None)
    print(f"reply = {small.reply!a}\ncuts = {list(small.cuts)}\n{broken_law(small)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
