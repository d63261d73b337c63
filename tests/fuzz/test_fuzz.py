"""A short run of the fuzzer, and that it would find and shrink what is wrong."""

import random

from tests.conformance.replies import load_cases
from tests.fuzz.__main__ import search
from tests.fuzz.laws import Input, broken_law
from tests.fuzz.mutation import LONGEST, odd_cuts, odd_reply
from tests.fuzz.shrinking import shrunk


def test_two_seconds_break_no_law() -> None:
    found = search(2.0, seed=1, report=False)
    assert found is None, f"{found!a}: {broken_law(found)}"


def test_the_same_seed_makes_the_same_replies() -> None:
    corpus = [case.reply for case in load_cases()]
    first, second = random.Random(7), random.Random(7)
    for _ in range(200):
        reply = odd_reply(corpus, first)
        assert reply == odd_reply(corpus, second)
        assert len(reply) <= LONGEST
        cuts = odd_cuts(reply, first)
        assert cuts == odd_cuts(reply, second)
        assert all(0 <= cut <= len(reply) for cut in cuts)


def test_shrinking_keeps_what_fails_and_nothing_else() -> None:
    def fails(candidate: Input) -> bool:
        at = candidate.reply.find("[x")
        return at >= 0 and at + 1 in candidate.cuts

    assert shrunk(Input("some [y] long [xyz] reply 🥞", (3, 9, 15, 20)), fails) == Input("[x", (1,))
