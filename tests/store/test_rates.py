"""Rates: so many uses in any stretch of time, counted with a clock that the test moves."""

import pytest

from pixi.core.errors import ConfigError
from pixi.core.spending import Rate, RateKey
from pixi.store.rates import Rates
from pixi.toolbox.tools import as_words


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_window_slides() -> None:
    clock = Clock()
    rates = Rates(clock)
    use: dict[RateKey, Rate] = {("draw", "person", "1"): Rate(2, 60)}
    assert await rates.use(use) == 0
    clock.now += 50
    assert await rates.use(use) == 0
    assert await rates.use(use) == 10  # the first leaves the window then
    clock.now += 9.5
    assert await rates.use(use) == 0.5
    clock.now += 0.5
    assert await rates.use(use) == 0
    assert await rates.use(use) == 50


async def test_a_refused_use_counts_nowhere() -> None:
    clock = Clock()
    rates = Rates(clock)
    person, guild = ("draw", "person", "1"), ("draw", "guild", "9")
    assert await rates.use({person: Rate(5, 60), guild: Rate(1, 60)}) == 0
    for _ in range(9):
        assert await rates.use({person: Rate(5, 60), guild: Rate(1, 60)}) == 60
    clock.now += 60
    for _ in range(4):
        assert await rates.use({person: Rate(5, 600)}) == 0  # one is counted already
    assert await rates.use({person: Rate(5, 600)}) > 0


async def test_the_longest_wait_is_told_and_others_are_not_counted_together() -> None:
    clock = Clock()
    rates = Rates(clock)
    first, second = ("a", "person", "1"), ("a", "person", "2")
    await rates.use({first: Rate(1, 10)})
    clock.now += 4
    await rates.use({second: Rate(1, 10)})
    assert await rates.use({first: Rate(1, 10), second: Rate(1, 10)}) == 10
    assert await rates.use({("b", "person", "1"): Rate(1, 10)}) == 0
    assert await rates.use({}) == 0


async def test_twenty_thousand_people_take_no_more_room_than_ten_thousand() -> None:
    rates = Rates(Clock())
    for person in range(20_000):
        assert await rates.use({("draw", str(person)): Rate(1, 60)}) == 0
    assert len(rates) == 10_000
    assert await rates.use({("draw", "19999"): Rate(1, 60)}) == 60


@pytest.mark.parametrize(("times", "seconds"), [(0, 1), (-1, 1), (1, 0), (1, -5), (1, float("inf"))])
def test_a_rate_that_is_none_is_refused(times: int, seconds: float) -> None:
    with pytest.raises(ConfigError, match="a minute"):
        Rate(times, seconds)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 second"), (1, "1 second"), (1.2, "2 seconds"), (60, "60 seconds"), (61, "2 minutes"),
     (3_600, "60 minutes"), (3_601, "2 hours")],
)  # fmt: skip
def test_a_wait_in_words_is_never_too_short(seconds: float, words: str) -> None:
    assert as_words(seconds) == words
