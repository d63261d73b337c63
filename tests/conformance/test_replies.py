"""Every raw reply of the table, fed whole, at every two-way cut, and one character at a time."""

import pytest

from pixi.core.language import Prose
from tests.conformance.reading import check_shape, comparable, merged, outcomes, pieces_at, read
from tests.conformance.replies import Case, load_cases
from tests.rows import row

CASES = load_cases()


def test_the_table_is_large_and_its_names_are_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert len(names) >= 240


def test_each_reply_is_read_alike_however_it_is_cut() -> None:
    """Whole, cut in two anywhere, and one character at a time."""
    for case in CASES:
        with row(case.name):
            _check(case)


def _check(case: Case) -> None:
    whole = read([case.reply], case.names, case.people)
    check_shape(whole.events)
    outcome = [row for row in comparable(case.expect) if case.with_prose or row[0] != "prose"]
    assert outcomes(whole.events, with_prose=case.with_prose) == outcome
    if case.ended is not None:
        assert whole.ended is case.ended
    expected = merged(whole.events)
    for place in range(len(case.reply) + 1):
        pieces = pieces_at(case.reply, [place])
        cut = read(pieces, case.names, case.people)
        check_shape(cut.events)
        assert merged(cut.events) == expected, pieces
        assert cut.ended == whole.ended, pieces
    single = read(case.reply, case.names, case.people)
    check_shape(single.events)
    assert merged(single.events) == expected
    assert single.ended == whole.ended


@pytest.mark.parametrize("reply", ["[REACT: 🥞]", "[SEND: a 🥞 b]", "so 🥞 [SEND: x]", "<think>🥞</think>"])
def test_cut_inside_a_surrogate_pair(reply: str) -> None:
    units = reply.encode("utf-16-le")
    halves = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    assert len(halves) > len(reply)
    assert merged(read(halves).events) == merged(read([reply]).events)


@pytest.mark.parametrize("invisible", ["\u200b", "\u2060", "\ufeff"])
def test_something_invisible_in_a_surrogate_pair_breaks_the_pair_however_it_is_cut(invisible: str) -> None:
    reply = f"a\ud83d{invisible}\ude00b"
    for place in range(len(reply) + 1):
        assert merged(read(pieces_at(reply, [place])).events) == [Prose("a\ufffd\ufffdb")]
    assert merged(read(reply).events) == [Prose("a\ufffd\ufffdb")]


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("[SEND", "a\n[SEND: yo]\n[SEND: z]"),
        ("[SEND", "[NOTE: a\n[SEND: yo]\n[SEND: z]"),
        ("\u3000[SEND", "[SEND: a]\n\u3000[SEND: yo]\n[SEND: z]"),
        ("【SEND", "a\n【SEND: yo】\n【SEND: z】"),
        ("［SEND", "a\n［SEND: yo］\n［SEND: z］"),
    ],
)
def test_a_person_who_is_called_as_a_command_silences_none(name: str, reply: str) -> None:
    whole = merged(read([reply]).events)
    for place in range(len(reply) + 1):
        assert merged(read(pieces_at(reply, [place]), people=(name,)).events) == whole
    assert merged(read(reply, people=(name,)).events) == whole
