"""What was used, told in words and figures."""

import pytest

from pixi.core.llm import Usage
from pixi.core.spending import UsageEntry, cost_of, dollars, of_the_month, share, short, summed_up

USED = UsageEntry(messages=1, writes=2, usage=Usage(12_000, 9_000, 345), cost=0.0423)


def test_all_of_it_in_a_sentence() -> None:
    assert summed_up("Today", USED) == (
        "Today: 1 message, 12k tokens read (75% cached), 345 written, 2 changes by tools, $0.042."
    )
    assert summed_up("Today", UsageEntry()) == (
        "Today: 0 messages, 0 tokens read (– cached), 0 written, 0 changes by tools, $0.00."
    )


def test_the_month_beside_what_it_may_come_to() -> None:
    assert of_the_month(USED, None) == "This month: $0.042, with no limit (month_dollars)."
    assert of_the_month(UsageEntry(cost=15), 20) == "This month: $15.00 of $20.00 (75%)."


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10k"),
        (12_345, "12.3k"),
        (999_499, "999k"),
        (1_000_000, "1M"),
        (2_500_000, "2.5M"),
        (1_000_000_000, "1G"),
        (12_345_000_000_000, "12,345G"),
    ],
)
def test_numbers_at_a_glance(count: int, shown: str) -> None:
    assert short(count) == shown


def test_sums_of_money() -> None:
    assert [dollars(cost) for cost in (0, 0.00001, 0.0123, 0.5, 1_234.5)] == [
        "$0.00", "<$0.0001", "$0.012", "$0.50", "$1,234.50"
    ]  # fmt: skip
    assert cost_of(UsageEntry(unpriced=5)) == "?"
    assert cost_of(UsageEntry(unpriced=5, cost=1)) == "$1.00+?"


def test_a_server_that_counts_more_cached_tokens_than_there_were_is_not_believed() -> None:
    assert share(UsageEntry(usage=Usage(100, 300, 0))) == "100%"


def test_what_nothing_was_used_of_is_nothing() -> None:
    assert UsageEntry(day=7, person="11", cost=0.0).is_nothing
    for used in (
        UsageEntry(messages=1),
        UsageEntry(writes=1),
        UsageEntry(usage=Usage(1)),
        UsageEntry(usage=Usage(0, 0, 1)),
    ):
        assert not used.is_nothing
