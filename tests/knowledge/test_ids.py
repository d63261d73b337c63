"""The numbers of entries: always the same for the same place."""

import unicodedata
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.catalogue import candidates, new_id

PINNED = [698330, 767016846, 944236051]


def test_the_numbers_of_today_are_the_numbers_of_tomorrow() -> None:
    # Written down: these are what people and models have seen, and what files remember.
    assert list(islice(candidates("pancakes.md", ""), 3)) == PINNED
    assert new_id("pancakes.md", "", lambda number: False) == PINNED[0]


@given(st.text(), st.text())
def test_six_digits_at_first_then_nine(path: str, key: str) -> None:
    first, *others = islice(candidates(path, key), 4)
    assert 100_000 <= first <= 999_999
    assert all(100_000_000 <= number <= 999_999_999 for number in others)


def test_a_number_that_is_taken_is_not_given_again() -> None:
    first, second, third = islice(candidates("a.md", "1"), 3)
    assert new_id("a.md", "1", {first}.__contains__) == second
    assert new_id("a.md", "1", {first, second}.__contains__) == third


def test_path_and_key_do_not_run_into_each_other() -> None:
    assert next(candidates("a", "bc")) != next(candidates("ab", "c"))


def test_an_accent_may_be_spelt_in_two_ways() -> None:
    for form in ("NFC", "NFD"):
        assert next(candidates(unicodedata.normalize(form, "crêpe.md"), "")) == next(
            candidates("crêpe.md", "")
        )
