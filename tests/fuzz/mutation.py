"""Makes odd replies: those of the conformance table, cut, repeated, spliced and sprinkled with fragments."""

import random
from collections.abc import Sequence

from tests.properties.fragments import FRAGMENTS

LONGEST = 600
"""Characters of a reply: long enough for every rule to meet every other, short enough for many a second."""


def odd_reply(corpus: Sequence[str], chance: random.Random) -> str:
    """A new reply: one of the corpus with a few changes, or fragments alone."""
    if chance.random() < 0.3:
        reply = "".join(chance.choices(FRAGMENTS, k=chance.randint(1, 20)))
    else:
        reply = chance.choice(corpus)
    for _ in range(chance.randint(0, 6)):
        reply = _changed(reply, corpus, chance)
    return reply[:LONGEST]


def odd_cuts(reply: str, chance: random.Random) -> list[int]:
    """Places to cut a reply at: a few, many, or all."""
    length = len(reply)
    if chance.random() < 0.25:
        return list(range(length + 1))
    return [chance.randint(0, length) for _ in range(chance.choice((1, 1, 2, 4, 16)))]


def _changed(reply: str, corpus: Sequence[str], chance: random.Random) -> str:
    at, end = sorted((chance.randint(0, len(reply)), chance.randint(0, len(reply))))
    match chance.randrange(7):
        case 0 | 1:
            return reply[:at] + chance.choice(FRAGMENTS) + reply[at:]
        case 2:
            return reply[:at] + reply[end:]
        case 3:
            return reply[:at] + reply[at:end] * chance.randint(2, 4) + reply[end:]
        case 4:
            return reply[:at]
        case 5:
            other = chance.choice(corpus)
            return reply[:at] + other[chance.randint(0, len(other)) :]
        case _:
            return reply[:at] + chr(chance.choice((9, 13, 91, 93, 96, 160, 0x200B, 0x3010))) + reply[at + 1 :]
