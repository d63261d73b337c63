"""A short run of the fuzzer, and that it would find and shrink what is wrong."""

from itertools import combinations, islice, pairwise, product

import pytest

from pixi.core.language import CommandStream
from tests.conformance.reading import merged, read
from tests.fuzz.__main__ import odd_inputs, search
from tests.fuzz.laws import Input, broken_law
from tests.fuzz.mutation import LONGEST
from tests.fuzz.shrinking import shrunk


def test_some_hundred_replies_break_no_law() -> None:
    found = search(seed=1, count=300)
    assert found is None, f"{found!a}: {broken_law(found)}"


@pytest.mark.parametrize("unit", ["[REAKT: ", "[REPLY #12: ", "[SEND: `"])
def test_a_long_reply_that_a_command_on_a_new_line_ends_breaks_no_law(unit: str) -> None:
    subject = Input("[SEND: `" + unit * 800 + "\n\n[SEND: ok]")
    assert broken_law(subject) is None


def test_a_blank_behind_a_closing_tag_is_ornament_however_it_arrives() -> None:
    assert broken_law(Input("[/SEND] [SEND:a", (7, 14))) is None


FRAGMENTS = (
    *("[SEND:", "[/SEND]", "[SEND]", "[", "]", "\\", ":", "`", "*", "- ", " ", "\n", "a", "```\n"),
    *("[SEND: a]", "<think>", "</think>", "<|im_end|>", '<tool-call tool="x">', "</tool-call>"),
)


@pytest.mark.parametrize(
    "length",
    [1, 2, pytest.param(3, marks=pytest.mark.nightly), pytest.param(4, marks=pytest.mark.nightly)],
)
def test_every_short_reply_reads_the_same_wherever_it_is_cut(length: int) -> None:
    """All sequences of so many fragments: at each of their borders, at two of them, at each character."""
    pairs = [(0, *cuts, length) for cuts in combinations(range(1, length), 2)]
    borders = [*((0, at, length) for at in range(1, length)), *pairs, range(length + 1)]
    for parts in product(FRAGMENTS, repeat=length):
        reply = "".join(parts)
        whole = merged(read([reply]).events)
        for places in borders:
            pieces = ["".join(parts[start:end]) for start, end in pairwise(places)]
            assert merged(read(pieces).events) == whole, pieces
        assert merged(read(reply).events) == whole, reply


@pytest.mark.nightly
def test_many_replies_break_no_law(seed: int) -> None:
    """`make fuzz COUNT=1000000` looks at a million others each time."""
    found = search(seed, count=20_000)
    assert found is None, f"seed {seed}: {found!a}: {broken_law(found)}"


def test_the_same_seed_makes_the_same_replies() -> None:
    inputs = list(islice(odd_inputs(7), 200))
    assert inputs == list(islice(odd_inputs(7), 200))
    for each in inputs:
        assert len(each.reply) <= LONGEST
        assert all(0 <= cut <= len(each.reply) for cut in each.cuts)


@pytest.mark.parametrize(
    ("feed", "law"),
    [
        (lambda stream, piece: 1 // 0, "ZeroDivisionError"),
        (lambda stream, piece: [len(piece) for _ in iter(int, 1)], "steps"),
        (lambda stream, piece: [], "AssertionError: a message after it was swallowed"),
    ],
    ids=["raises", "has no end", "swallows a message"],
)
def test_a_broken_law_is_told(monkeypatch: pytest.MonkeyPatch, feed: object, law: str) -> None:
    monkeypatch.setattr(CommandStream, "feed", feed)
    assert law in (broken_law(Input("hi")) or "")


def test_shrinking_keeps_what_fails_and_nothing_else() -> None:
    def fails(candidate: Input) -> bool:
        at = candidate.reply.find("[x")
        return at >= 0 and at + 1 in candidate.cuts

    assert shrunk(Input("some [y] long [xyz] reply 🥞", (3, 9, 15, 20)), fails) == Input("[x", (1,))
