"""Messages are split where a person would, and nothing of them is lost."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from pixi.channels.discord.formatting import LIMIT, units
from pixi.channels.discord.outgoing.splitting import clean, split
from tests.steps import grows_in_proportion

FAMILY = "👩‍👩‍👧"
FLAG = "🇩🇪"
WORD_AND_SPACE = st.sampled_from(
    ["word", "a", "。", "你好", "! ", ". ", "\n", "\n\n", " ", "  - ", FAMILY, FLAG, "é́", "👍🏽", "❤️", "ก็"]
)
KEPT_WHOLE = [
    "<:pancake:123456789012345678>",
    "<a:dance:123456789012345678>",
    "<@123456789012345678>",
    "<@&123456789012345678>",
    "<#123456789012345678>",
    "<t:1700000000:R>",
    "`some code here`",
    "``some ` code``",
    "[the text](https://example.org/a_(b)?c=d)",
    "https://example.org/a/long/path?with=query",
    "||nobody may see this||",
    ":pancakes:",
]
FENCE = re.compile(r"```[\w+#.-]*\n?")


def bare(text: str) -> str:
    """The text without white space."""
    return re.sub(r"\s", "", text)


def shown(text: str) -> str:
    """The text without what leaves no ink."""
    return "".join(c for c in bare(text) if unicodedata.category(c) not in ("Cc", "Cf"))


@pytest.mark.parametrize("text", ["", " ", "\n\t\n", "\u200b", " \u200b\u00a0\n", "\0", "\u2060\ufeff"])
def test_what_shows_nothing_is_not_posted(text: str) -> None:
    assert split(text) == ()


@pytest.mark.parametrize("text", ["hi", "a\n\nb", "```py\nx\n```", "x" * 2_000, "👍" * 1_000])
def test_a_message_that_fits_is_left_as_it_is(text: str) -> None:
    assert split(text) == (text,)


def test_white_space_around_a_message_is_dropped_as_discord_does() -> None:
    assert split("\n  hi \n") == ("hi",)


def test_line_breaks_and_characters_that_no_server_stores_are_mended() -> None:
    assert split("a\r\nb\rc\0d") == ("a\nb\ncd",)
    assert split("half \ud83d here") == ("half \ufffd here",)


def test_paragraphs_are_preferred_to_lines_and_lines_to_sentences_and_sentences_to_words() -> None:
    assert split("one two. three\nfour\n\nfive six. seven\neight", 36) == (
        "one two. three\nfour",
        "five six. seven\neight",
    )
    assert split("one two. three four\nfive six seven. eight", 40) == (
        "one two. three four",
        "five six seven. eight",
    )
    assert split("one two three. four five six seven eight", 30) == (
        "one two three.",
        "four five six seven eight",
    )
    assert split("one two three four five", 12) == ("one two", "three four", "five")


@pytest.mark.parametrize("stop", ["。", "！", "？", "。」", "！！", "？）"])
def test_sentences_end_in_every_script(stop: str) -> None:
    assert split(f"你好世界你好{stop}世界你好世界你好世界", 16) == (
        f"你好世界你好{stop}",
        "世界你好世界你好世界",
    )


@pytest.mark.parametrize("stop", [". ", "? ", "।\n", "؟ ", "… ", '." ', ".) "])
def test_the_marks_round_a_stop_stay_with_it(stop: str) -> None:
    assert split(f"one two three four{stop}five six seven eight", 36) == (
        f"one two three four{stop.rstrip()}",
        "five six seven eight",
    )


def test_a_stop_within_a_word_ends_no_sentence() -> None:
    assert split("see version 1.20.300 and example.org/page or more", 30)[0] == "see version 1.20.300 and"


def test_code_that_is_cut_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"    line_{number} = {number}" for number in range(200))
    parts = split(f"Look:\n```python\n{code}\n```\nThat was it.")
    assert len(parts) > 1
    assert parts[0].startswith("Look:\n```python\n    line_0 = 0\n")
    assert all(part.endswith("\n```") for part in parts[:-1])
    assert all(part.startswith("```python\n    line_") for part in parts[1:])
    assert parts[-1].endswith("\n```\nThat was it.")
    shown = "\n".join(part.removeprefix("```python\n").removesuffix("\n```") for part in parts[1:-1])
    assert shown in code


def test_code_that_fits_into_a_part_is_not_cut() -> None:
    code = "```js\n" + "x();\n" * 100 + "```"
    text = "word " * 300 + "\n" + code + "\nend"
    assert split(text) == (("word " * 300).strip(), code + "\nend")


def test_code_that_never_ends_is_closed_in_every_part() -> None:
    parts = split("so:\n```\n" + "x = 1\n" * 600)
    assert len(parts) > 1
    assert all(part.count("```") == 2 and part.endswith("\n```") for part in parts)


def test_three_ticks_within_a_line_open_nothing() -> None:
    parts = split("Write ``` to begin. " + "word " * 800)
    assert [part.count("```") for part in parts] == [1, 0, 0]


def test_a_code_block_has_something_in_it_in_every_part() -> None:
    for length in range(1_960, 2_010):
        for part in split("a" * length + "\n```py\nx = 1\n```"):
            assert not re.search(r"```py\s*```", part)
            assert part.count("```") in (0, 2)


@pytest.mark.parametrize("token", KEPT_WHOLE)
def test_what_must_stay_whole_stays_whole_wherever_the_cut_would_fall(token: str) -> None:
    for lead in range(100 - len(token) - 2, 102):
        parts = split(f"{'a' * lead} {token} {'b ' * 60}", 100)
        assert any(token in part for part in parts), lead


def test_what_is_longer_than_a_part_is_cut_all_the_same() -> None:
    url = "https://example.org/" + "a" * 5_000
    assert "".join(split(url)) == url
    assert "".join(split("`" + "b" * 3_000 + "`")) == "`" + "b" * 3_000 + "`"


def test_a_character_longer_than_a_part_is_cut_all_the_same() -> None:
    assert "".join(split("a" + "\u0301" * 5_000)) == "a" + "\u0301" * 5_000


def test_four_thousand_emoji_are_posted_whole() -> None:
    parts = split(FAMILY * 4_000)
    assert "".join(parts) == FAMILY * 4_000
    assert all(units(part) <= LIMIT and len(part) % len(FAMILY) == 0 for part in parts)


def test_length_is_counted_as_the_strictest_server_counts() -> None:
    assert units("a") == 1
    assert units("é你") == 2
    assert units("👍") == 2


@given(st.lists(WORD_AND_SPACE, max_size=300).map("".join), st.integers(24, 200))
def test_nothing_is_lost_and_no_character_is_cut(text: str, limit: int) -> None:
    parts = split(text, limit)
    assert all(units(part) <= limit for part in parts)
    assert all(part == part.strip() for part in parts)
    assert bare("".join(parts)) == bare(text)
    cut = [grapheme for part in parts for grapheme in iter_graphemes(part) if not grapheme.isspace()]
    assert cut == [grapheme for grapheme in iter_graphemes(clean(text)) if not grapheme.isspace()]


@given(st.text(max_size=600), st.integers(60, 200))
def test_any_text_becomes_parts_that_can_be_posted(text: str, limit: int) -> None:
    parts = split(text, limit)
    assert all(part.strip() and units(part) <= limit for part in parts)
    posted = iter(shown("".join(parts)))  # fences that were put in may stand between
    assert all(character in posted for character in shown(clean(text)))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["Some words here. ", "A line\n", "\n\n", *KEPT_WHOLE]).map(
                lambda text: f" {text} "
            ),
            st.integers(1, 60).map(lambda lines: "\n```py\n" + "    x = 1\n" * lines + "```\n"),
        ),
        max_size=25,
    ).map("".join)
)
def test_every_part_is_whole_markdown(text: str) -> None:
    parts = split(text, 200)
    assert all(units(part) <= 200 for part in parts)
    assert all(part.count("```") % 2 == 0 for part in parts)
    assert bare(FENCE.sub("", "\n".join(parts))) == bare(FENCE.sub("", text))
    for token in KEPT_WHOLE:
        assert sum(part.count(token) for part in parts) == text.count(token)


@pytest.mark.parametrize(
    "text",
    [
        "hello world. " * 8_000,
        "a" * 100_000,
        "." * 100_000,
        "`" * 99_999,
        "[](a" * 25_000,
        "[a](b(" * 16_000,
        "|" * 100_000,
        "||a|" * 25_000,
        "你好，世界。" * 16_000,
        "a" + "\u0301" * 100_000,
        "```py\n" + "x = 1\n" * 16_000,
        "a" + "\n" * 100_000 + "b",
        "<a:" * 33_000,
        ":a" * 50_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_is_split_in_steps_in_proportion_to_its_length(text: str) -> None:
    assert all(units(part) <= LIMIT for part in split(text))
    assert grows_in_proportion(split, text)
