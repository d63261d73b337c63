"""A model is trusted with a script if it knows what passages in it are about, about as well as words do."""

import random

import pytest

from pixi.knowledge.self_test import FEWEST, Cloze, clozes, is_good, script_of

TOPICS = [
    "harbour",
    "violin",
    "glacier",
    "orchid",
    "pancake",
    "comet",
    "kettle",
    "tunnel",
    "falcon",
    "marble",
]


def passage(topic: str) -> str:
    praise = f"So the {topic} is praised everywhere."
    return f"On things. Nothing pleases a {topic} friend like another {topic}. {praise}"


TRIED = clozes(map(passage, TOPICS))


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("12 Hello, 世界 and all", "LATIN"),
        ("煎饼 with jam 与糖浆一起吃", "CJK"),
        ("パンケーキが好き", "CJK"),
        ("من پنکیک دوست دارم", "ARABIC"),
        ("я люблю блины", "CYRILLIC"),
        ("팬케이크", "HANGUL"),
        ("123 !?", ""),
        ("", ""),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def test_a_sentence_is_taken_out_and_the_rest_keeps_the_others() -> None:
    assert len(TRIED) == len(TOPICS)
    cloze = TRIED[1]
    assert cloze == Cloze(
        "LATIN",
        "Nothing pleases a violin friend like another violin.",
        "On things.  So the violin is praised everywhere.",
    )


@pytest.mark.parametrize(
    "text", ["", "one sentence alone, however long it may be, tells nothing", "a. b. c.", "1. 2. 3."]
)
def test_what_cannot_be_tried_is_passed_over(text: str) -> None:
    assert clozes([text] * 20) == []


def test_too_few_passages_of_a_script_tell_nothing() -> None:
    assert clozes(map(passage, TOPICS[: FEWEST - 1])) == []


def test_who_finds_them_is_good_and_who_guesses_is_not() -> None:
    knows = [[1.0 if row == column else 0.0 for column in range(10)] for row in range(10)]
    assert is_good(knows, TRIED)
    chance = random.Random(5)
    guesses = [[chance.random() for _ in range(10)] for _ in range(10)]
    assert not is_good(guesses, TRIED)
    assert not is_good([[1.0] * 10] * 10, TRIED), "one to whom all is the same"
    assert not is_good([[float("nan")] * 10] * 10, TRIED)


def test_where_words_themselves_tell_nothing_nobody_is_trusted() -> None:
    dull = [Cloze("LATIN", f"sentence{number} here", f"nothing{number} there") for number in range(10)]
    knows = [[1.0 if row == column else 0.0 for column in range(10)] for row in range(10)]
    assert not is_good(knows, dull)
