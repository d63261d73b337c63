"""What strangers and models write must not drive a terminal, and can be written as UTF-8."""

import json
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from pixi.core.untrusted import data_without_halves, json_line, printable, printable_line

KEPT = "\n\t"


@given(st.text(alphabet=st.characters(categories=["Cc", "Cs", "Lu", "So", "Zs"])))
def test_no_control_character_and_no_broken_half_gets_through(text: str) -> None:
    left = {unicodedata.category(character) for character in printable(text) if character not in KEPT}
    assert not left & {"Cc", "Cs"}


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_cutting_changes_nothing(text: str, at: int) -> None:
    assert printable(text[:at]) + printable(text[at:]) == printable(text)


def test_escape_sequences_become_plain_text() -> None:
    assert printable("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J") == "[31mred[0m ]0;title 2J"


def test_nothing_turns_the_direction_of_what_follows() -> None:
    assert printable("\u202eexe.txt\u202c \u2066a\u2069 \u202ab") == "exe.txt a b"
    assert printable("می\u200cروم שלום\u200f!") == "می\u200cروم שלום\u200f!"


def test_other_scripts_and_joined_emoji_stay_as_they_are() -> None:
    for text in ("שלום עולם", "مرحبا", "你好，世界", "👩‍🍳🥞", "é e\u0301", "two\nlines\tand a tab"):
        assert printable(text) == text


def test_one_line_is_one_line() -> None:
    assert printable_line(" a\r\n b\x1b\tc  ") == "a b c"


@given(st.text(alphabet=st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Lu"])))
@example("\x9b31m \u202e \x7f")
@example("half \ud800")
def test_json_holds_everything_and_drives_nothing(text: str) -> None:
    line = json_line({"text": text})
    assert json.loads(line) == {"text": text}
    assert printable(line) == line
    assert len(line.splitlines()) == 1


def test_data_holds_no_half_of_a_character_in_texts_or_names() -> None:
    data = {"\ud83d": ["a\ud83d", ("\ud83e\udd5e", None)], 1: 2}
    assert data_without_halves(data) == {"\ufffd": ["a\ufffd", ["🥞", None]], 1: 2}
