"""Markdown on a terminal: signs become styles, and nothing that was said is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.terminal.rows import markdown_rows, wrapped

SHOWN = {
    "**bold** and *soft* and `x`": [("b", "bold"), ("", " and "), ("i", "soft"), ("", " and "), ("c", "x")],
    "**a *b* c**": [("b", "a "), ("bi", "b"), ("b", " c")],
    "*waves* hi": [("i", "waves"), ("", " hi")],
    "## Menu": [("b", "Menu")],
    "`**no**`": [("c", "**no**")],
    "**half": [("", "**half")],
    "2 * 3 * 4 = 24, a*b*c": [("", "2 * 3 * 4 = 24, a*b*c")],
    "#nothashtag": [("", "#nothashtag")],
    "": [("", "")],
}
MARKS = {"class:bold": "b", "class:italic": "i", "class:code": "c"}


def marked(text: str, columns: int = 80) -> list[list[tuple[str, str]]]:
    """Rows as pairs of letters for styles and words."""
    return [
        [("".join(MARKS.get(each, "") for each in style.split()), words) for style, words in row]
        for row in markdown_rows(text, "class:message", columns)
    ]


@pytest.mark.parametrize(("text", "row"), SHOWN.items())
def test_signs_become_styles(text: str, row: list[tuple[str, str]]) -> None:
    assert marked(text) == [row]


def test_a_fence_is_code_to_the_letter_and_its_signs_are_gone() -> None:
    assert marked("so:\n```python\nx = **y\n```\nyes") == [[("", "so:")], [("c", "x = **y")], [("", "yes")]]
    assert marked("```\nopen") == [[("c", "open")]]


def test_a_style_goes_on_over_the_end_of_a_row() -> None:
    assert marked("say **one two three** now", 9) == [
        [("", "say "), ("b", "one")],
        [("b", "two three")],
        [("", "now")],
    ]
    assert marked("  **deep** x", 9) == [[("", "  "), ("b", "deep"), ("", " x")]]


@given(st.text("ab *`#\n", max_size=60), st.integers(3, 20))
def test_every_letter_is_shown_in_its_order(text: str, columns: int) -> None:
    rows = marked(text, columns)
    shown = "".join(words for row in rows for _, words in row)
    assert re.sub(r"[^ab]", "", shown) == re.sub(r"[^ab]", "", text)


@given(st.text(max_size=80), st.integers(2, 30))
def test_what_is_no_markdown_is_shown_as_it_is(text: str, columns: int) -> None:
    line = text.replace("\n", " ").lstrip(" ")
    rows = markdown_rows(line, "class:aside", columns, plain=True)
    assert ["".join(words for _, words in row) for row in rows] == wrapped(line, columns)
