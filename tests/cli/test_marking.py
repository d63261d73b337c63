"""The words of a query, found in a snippet."""

import pytest

from pixi.text.relevance import spans_of


def marked(query: str, text: str) -> str:
    """The text with what was found in brackets, one pair where several join."""
    inside = [False] * (len(text) + 1)
    for start, end in spans_of([query], text):
        inside[start:end] = [True] * (end - start)
    shown, before = "", False
    for here, character in zip(inside, f"{text}\0", strict=True):
        shown += ("[" if here else "]") if here != before else ""
        shown += character
        before = here
    return shown.rstrip("\0")


@pytest.mark.parametrize(
    ("query", "text", "told"),
    [
        ("pancake", "Pancakes, a PANCAKE; pancaking, a pan.", "[Pancakes], a [PANCAKE]; [pancaking], a pan."),
        ("how hot?", "Hot, hotter; somehow.", "[Hot], hotter; somehow."),
        ("crepes", "crêpe or crepe", "crêpe or [crepe]"),
        ("茶的水溫", "泡茶水温要紧", "泡茶[水温]要紧"),
        ("茶", "泡茶", "泡[茶]"),
        ("نان‌ها", "نان تازه", "[نان] تازه"),
        ("", "nothing", "nothing"),
        (".*[", "a .*[ b", "a .*[ b"),
    ],
)
def test_words_are_found(query: str, text: str, told: str) -> None:
    assert marked(query, text) == told


def test_a_query_without_end_takes_no_time() -> None:
    assert list(spans_of(["word " * 100_000, "字" * 100_000], "a word 字字")) != []
