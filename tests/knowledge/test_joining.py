"""Words and meaning, joined by a weighted sum."""

import numpy as np
import pytest

from pixi.knowledge.index import Scored
from pixi.knowledge.vectors import POOL, WEIGHT, Held, joined


def held(*vectors: tuple[float, float], first: int = 10) -> Held:
    numbers = np.arange(first, first + len(vectors), dtype=np.int64)
    return Held(numbers, numbers * 100, np.array(vectors, np.float16))


def worth(scored: list[Scored]) -> dict[int, float]:
    return {each.passage: each.score for each in scored}


EAST = np.array([1.0, 0.0], np.float32)


def test_each_says_its_share() -> None:
    vectors = held((1, 0), (0, 1), (0, 1), (-1, 0))
    scored = joined(vectors, [Scored(11, 1100, 8.0), Scored(10, 1000, 4.0)], EAST)
    assert worth(scored) == pytest.approx(
        {11: 1 - WEIGHT, 10: (1 - WEIGHT) / 2 + WEIGHT, 12: 0.0, 13: 0.0}, abs=1e-3
    )
    assert {each.passage: each.entry for each in scored}[13] == 1300


def test_of_a_passage_without_a_vector_words_say_it_all() -> None:
    scored = joined(held((1, 0), (0, 1)), [Scored(7, 700, 2.0), Scored(99, 9900, 1.0)], EAST)
    assert worth(scored)[7] == pytest.approx(1.0)
    assert worth(scored)[99] == pytest.approx(0.5)


def test_where_no_word_is_found_meaning_is_enough() -> None:
    scored = joined(held((1, 0), (0, 1)), [], EAST)
    assert max(scored, key=lambda each: each.score).passage == 10


def test_where_all_mean_the_same_words_decide() -> None:
    scored = joined(held((1, 0), (1, 0), (1, 0)), [Scored(12, 1200, 3.0), Scored(11, 1100, 1.0)], EAST)
    assert sorted(worth(scored), key=lambda number: -worth(scored)[number])[0] == 12


def test_of_many_the_nearest_come() -> None:
    angles = np.linspace(0, 3, 1_000)
    numbers = np.arange(1, 1_001, dtype=np.int64)
    many = Held(numbers, numbers, np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float16))
    scored = joined(many, [], EAST)
    assert len(scored) == POOL
    assert {each.passage for each in scored} >= set(range(1, POOL - 5))
