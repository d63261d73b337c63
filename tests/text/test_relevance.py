"""Short texts are found by their words, in many scripts and with slips, and by nothing that says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.text.relevance import most_relevant
from tests.steps import steps_of

FACTS = [
    "is allergic to nuts",
    "has a cat called Mimi",
    "plays the violin in an orchestra",
    "lives in Lisbon",
    "birthday is on 3 May",
    "我有一只猫,叫咪咪",
    "住在上海",
    "گربه من میمی نام دارد",
    "ロンドンに住んでいます",
    "고양이 두 마리를 키운다",
    "ชอบกินข้าวเหนียวมะม่วง",
    "играет на скрипке",
]


def first(query: str) -> str:
    found = most_relevant(query, FACTS)
    return FACTS[found[0].place] if found else ""


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("can i eat this walnut cake? it has a nut in it", "is allergic to nuts"),
        ("how are your cats?", "has a cat called Mimi"),
        ("are you PLAYING tonight", "plays the violin in an orchestra"),
        ("when is my brithday?", "birthday is on 3 May"),
        ("the violn lesson", "plays the violin in an orchestra"),
        ("what to wear in lisboa or lisbon", "lives in Lisbon"),
        ("你记得我的猫吗?", "我有一只猫,叫咪咪"),
        ("上海今天天氣怎麼樣", "住在上海"),
        ("گربه‌ام کجاست؟", "گربه من میمی نام دارد"),
        ("ロンドンの天気は", "ロンドンに住んでいます"),
        ("고양이가 아파요", "고양이 두 마리를 키운다"),
        ("มีข้าวเหนียวไหม", "ชอบกินข้าวเหนียวมะม่วง"),
        ("люблю скрипку", "играет на скрипке"),
    ],
)
def test_what_fits_comes_first(query: str, fact: str) -> None:
    assert first(query) == fact
    assert most_relevant(query, FACTS)[0].score >= 0.6


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?!",
        "hi",
        "what do you know about me?",
        "what is it that you would like to tell us",
        "你好吗",
        "我喜欢的是什么",
        "\0",
    ],
)
def test_small_talk_fits_nothing(query: str) -> None:
    assert most_relevant(query, FACTS) == []


def test_nothing_is_found_among_nothing() -> None:
    assert most_relevant("cats", []) == []


def test_a_word_of_one_text_says_more_than_one_of_all() -> None:
    texts = [f"the garden has plant number {number}" for number in range(40)]
    texts[7] = "the garden has a pond"
    found = most_relevant("garden with a pond", texts)
    assert found[0].place == 7
    assert found[0].score > 1
    assert found[1].score < 0.6


def test_of_equals_the_later_comes_first() -> None:
    assert [one.place for one in most_relevant("tea", ["likes tea", "likes rum", "hates tea"])] == [2, 0]


@given(st.text(max_size=200), st.lists(st.text(max_size=80), max_size=8))
def test_whatever_is_asked_the_answer_is_ordered_and_each_text_comes_once(
    query: str, texts: list[str]
) -> None:
    found = most_relevant(query, texts)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len({one.place for one in found}) == len(found)
    assert all(one.score > 0 for one in found)


def test_a_huge_query_takes_no_longer_than_a_long_one() -> None:
    texts = [f"fact {number} about thing{number % 37} and place{number % 11}" for number in range(200)]
    most_relevant("warm", texts)
    long = steps_of(lambda: most_relevant("thing5 plcae3 " * 1_000, texts), in_lines=True)
    assert steps_of(lambda: most_relevant("thing5 plcae3 " * 100_000, texts), in_lines=True) < 1.2 * long
