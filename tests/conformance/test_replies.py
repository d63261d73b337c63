"""Every raw reply of the table, fed whole, at every two-way cut, and one character at a time."""

import pytest

from tests.conformance.reading import check_shape, comparable, merged, outcomes, pieces_at, read
from tests.conformance.replies import Case, load_cases

CASES = load_cases()

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace("::", ":"))


def test_the_table_is_large_and_its_names_are_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert len(names) >= 240


@every_case
def test_whole(case: Case) -> None:
    reading = read([case.reply], case.names, case.people)
    check_shape(reading.events)
    expected = [row for row in comparable(case.expect) if case.with_prose or row[0] != "prose"]
    assert outcomes(reading.events, with_prose=case.with_prose) == expected
    if case.ended is not None:
        assert reading.ended is case.ended


@every_case
def test_however_it_is_cut(case: Case) -> None:
    """Cut in two anywhere, and one character at a time."""
    whole = read([case.reply], case.names, case.people)
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
