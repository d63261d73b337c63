"""Finding among many: the order, and how much is compared for it."""

import random
from typing import Any

import pytest
from rapidfuzz import process

from pixi.companion import names
from pixi.companion.addon import sample
from pixi.companion.names import NameFinder, best, plain

MANY = 1_000
WEIGHTS = (1.0, 0.9, 0.4)


@pytest.fixture(scope="module")
def spots() -> dict[str, tuple[str, str, str]]:
    """Many spots whose names, cities and descriptions are made of the words of the sample."""
    chance = random.Random(7)
    words = sorted({word for spot in sample().spots for word in plain(spot.description).split()})
    made = {
        str(number): (
            " ".join(chance.choices(words, k=2)),
            chance.choice(("Wexcombe", "Lanten")),
            " ".join(chance.choices(words, k=25)),
        )
        for number in range(MANY)
    }
    return made | {
        "near": ("Zephir Steps", "Wexcombe", ""),
        "words": ("Zephyr Bowl", "Wexcombe", ""),
        "told": ("Quay", "Wexcombe", "Near the Zephyr."),
        "exact": ("Zephyr", "Wexcombe", ""),
    }


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """With how many words or names each comparison was made."""
    counts: list[int] = []
    extract = process.extract

    def counting(query: str, choices: Any, **more: Any) -> Any:
        counts.append(len(choices))
        return extract(query, choices, **more)

    monkeypatch.setattr(process, "extract", counting)
    return counts


def test_among_many_exact_names_come_first_then_names_with_the_words_then_near_misses(
    spots: dict[str, tuple[str, str, str]],
) -> None:
    assert best("zephyr", spots, WEIGHTS) == ["exact", "words", "near"]
    assert best("Zephyr bowl", spots, WEIGHTS)[0] == "words"
    misspelt = best("zephr", spots, WEIGHTS)
    assert misspelt[0] == "exact"
    assert set(misspelt) == {"exact", "words", "near"}
    assert best("zqzqzq", spots, WEIGHTS) == []


def test_each_word_is_compared_once_with_each_that_there_is(
    spots: dict[str, tuple[str, str, str]], compared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(text: str) -> str:
        read.append(text)
        return plain(text)

    monkeypatch.setattr(names, "plain", reading)
    vocabulary = {word for texts in spots.values() for text in texts for word in plain(text).split()}
    called = {plain(texts[0]).replace(" ", "") for texts in spots.values()}
    assert best("lanten bowl zephyr", spots, WEIGHTS)
    assert compared == [len(vocabulary)] * 3 + [len(called)]
    assert len(vocabulary) < 200
    assert sorted(read) == sorted(["lanten bowl zephyr", *{text for each in spots.values() for text in each}])
    compared.clear()
    best("word " * 10_000, spots, WEIGHTS)
    assert len(compared) == 21, "of a long query twenty words are looked for, and the whole"


def test_of_what_is_no_word_nothing_is_compared(
    spots: dict[str, tuple[str, str, str]], compared: list[int]
) -> None:
    for query in ("", " \x00 ", "a b c", "(.*)", "\N{SKATEBOARD}"):
        assert best(query, spots, WEIGHTS) == []
    assert compared == []


@pytest.mark.parametrize("text", ["Café  Müller's", "ŁÓDŹ 2", "x-y_z", "Straße", "ﬁn", "A\x00b"])
def test_texts_are_compared_without_case_accents_and_signs(text: str) -> None:
    known = {"Café  Müller's": "cafe muller s", "ŁÓDŹ 2": "łodz 2", "x-y_z": "x y z", "Straße": "strasse"}
    assert plain(text) == (known | {"ﬁn": "fin", "A\x00b": "a b"})[text]


def test_names_are_read_once_for_many_that_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(text: str) -> str:
        read.append(text)
        return plain(text)

    monkeypatch.setattr(names, "plain", reading)
    tricks = [f"Trick {number}" for number in range(MANY)]
    finder = NameFinder(tricks)
    asked = [f"trick{number}" for number in range(50)]
    assert [finder.meant(name)[0] for name in asked] == tricks[:50]
    assert len(read) == MANY + 50
