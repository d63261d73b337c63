"""What a turn costs."""

import pytest

from pixi.core.llm import Prices, Usage

PRICES = Prices(prompt=2.0, completion=8.0, cached=0.5)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(), 0.0),
        (Usage(prompt_tokens=1_000_000), 2.0),
        (Usage(completion_tokens=1_000_000), 8.0),
        (Usage(prompt_tokens=1_000_000, cached_tokens=1_000_000), 0.5),
        (Usage(prompt_tokens=1_000_000, cached_tokens=750_000), 0.875),
        (Usage(prompt_tokens=1_200, cached_tokens=1_000, completion_tokens=50), 0.0013),
    ],
)
def test_cached_tokens_are_part_of_the_prompt_at_a_price_of_their_own(usage: Usage, dollars: float) -> None:
    assert PRICES.cost(usage) == pytest.approx(dollars)


def test_rounds_add_up() -> None:
    first, second = Usage(900, 100, 40), Usage(1_000, 900, 10)
    assert PRICES.cost(first + second) == pytest.approx(PRICES.cost(first) + PRICES.cost(second))


def test_a_server_that_counts_more_cached_than_sent_gives_no_money_back() -> None:
    assert PRICES.cost(Usage(prompt_tokens=10, cached_tokens=1_000_000)) == pytest.approx(10 * 0.5 / 1e6)
