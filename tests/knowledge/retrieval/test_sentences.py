"""Where sentences end, in several scripts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.knowledge.retrieval.passages import LONGEST, sentences


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
