"""Where sentences end, in several scripts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.retrieval.numbers import value_of_chinese, value_of_digits
from pixi.knowledge.retrieval.sentences import LONGEST, sentences
from pixi.knowledge.retrieval.words import Analyser


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Dr. Smith came. He left!", ["Dr. Smith came.", "He left!"]),
        (
            "It is 3.5 m. Really?",
            ["It is 3.5 m. Really?"],
        ),  # a single letter: rather too long than cut wrongly
        ("J. K. Rowling wrote it. Yes.", ["J. K. Rowling wrote it.", "Yes."]),
        ("He said “no.” Then he left.", ["He said “no.”", "Then he left."]),
        ("the width of\nsomebody's screen", ["the width of\nsomebody's screen"]),
        ("# Head\ntext\n\n- one\n- two", ["# Head", "text", "- one", "- two"]),
        ("1. First step\n2. Second step", ["1. First step", "2. Second step"]),
        ("他来了。“好！”他说。", ["他来了。", "“好！”", "他说。"]),
        ("این چیست؟ کتاب است.", ["این چیست؟", "کتاب است."]),
        ("यह है। वह नहीं।", ["यह है।", "वह नहीं।"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == parts


@given(st.text(alphabet="ab .。\n,x1-#", max_size=3_000))
def test_nothing_is_lost_and_nothing_is_long(text: str) -> None:
    spans = list(sentences(text))
    assert all(start < end and end - start <= LONGEST for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    inside = "".join(text[start:end] for start, end in spans)
    assert "".join(inside.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1,000", "1000"),
        ("۱٬۰۰۰", "1000"),
        ("٣٫٥", "3.5"),
        ("3.50", "3.5"),
        ("007", "7"),
        ("1.000.000", "1000000"),
    ],
)
def test_digits(written: str, value: str) -> None:
    assert value_of_digits(written) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("三百二十", "320"),
        ("二〇〇八", "2008"),
        ("十二", "12"),
        ("一千四百", "1400"),
        ("两万五千", "25000"),
        ("一亿", "100000000"),
    ],
)
def test_chinese_numbers(written: str, value: str) -> None:
    assert value_of_chinese(written) == value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("twenty-five men and 2.5 million ants", ["25", "2500000"]),
        ("a hundred years", ["100"]),
        ("one of them", []),
        ("بیست و پنج نفر و ۳ هزار گل", ["25", "3000"]),
        ("第三十九届，5亿人，三亚", ["39", "500000000"]),
        ("B12 and 39th", ["39"]),
    ],
)
def test_numbers_in_a_text(text: str, values: list[str]) -> None:
    assert [token.stem for token in Analyser().tokens(text) if token.kind == "number"] == values
