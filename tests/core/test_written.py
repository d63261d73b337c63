"""Commands as the history holds them are read again as exactly what they were."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.language import BUILT_IN, CommandEnded, CommandStream
from pixi.core.reading import SILENCE, commands_in, joined, separator_of, written

PIECES = st.sampled_from(
    [
        "[",
        "]",
        "\\",
        "`",
        "```",
        "\n",
        "[SEND: x]",
        "[react: y]",
        "[REPLY #3: z]",
        "#3",
        ":[",
        ":]",
        "【",
        "］",
        "<",
        " ",
        "a",
        "好",
    ]
)
CODE = re.compile("(?s)```.*?```|`[^`\n]+`")
TARGETS = st.sampled_from((0, 1, 3, 12, 999_999_999))
RAW = st.lists(PIECES, max_size=14).map("".join)


def arguments_of(raw: str) -> list[tuple[str, str, bool]]:
    stream = CommandStream()
    events = [*stream.feed(raw), *stream.close()]
    return [(e.name, e.argument, e.complete) for e in events if isinstance(e, CommandEnded)]


@given(RAW)
def test_whatever_was_read_from_a_whole_command_is_read_from_its_clean_form(middle: str) -> None:
    for name, argument, complete in arguments_of(f"[SEND: {middle}]"):
        # Backticks that pair with none are mended, so that they pair with none behind them.
        if complete and "`" not in CODE.sub("", argument) and "````" not in argument:
            assert commands_in(written(name, argument, BUILT_IN), BUILT_IN) == [CommandEnded(name, argument)]


@given(st.text(alphabet="[]ab \n🥞【】#3:", max_size=30), TARGETS)
def test_any_plain_argument_survives(text: str, target: int) -> None:
    argument = text.strip()
    clean = written("send", argument, BUILT_IN, target)
    assert commands_in(clean, BUILT_IN) == [CommandEnded("send", argument, target=target)]


@given(st.sampled_from(["wave", "straße", "发送", "x#1", "be right back", "ı"]), RAW, TARGETS)
def test_any_name_keeps_its_target(name: str, raw: str, target: int) -> None:
    names = {name: ()}
    (act, *_) = commands_in(written(name, raw.strip(), names, target), names)
    assert (act.name, act.target) == (name, target)


@given(st.lists(RAW, min_size=2, max_size=4), TARGETS)
def test_no_command_of_a_line_swallows_the_next(middles: list[str], target: int) -> None:
    acts = [
        (name, argument)
        for middle in middles
        for name, argument, _ in arguments_of(f"[SEND: {middle}]")
        if argument
    ]
    line = joined([("\n", written(name, argument, BUILT_IN, target)) for name, argument in acts])
    again = commands_in(line, BUILT_IN)
    assert [(act.name, act.target) for act in again] == [(name, target) for name, _ in acts]


@pytest.mark.parametrize(
    ("argument", "clean"),
    [
        ("", "[SEND]"),
        ("hi", "[SEND: hi]"),
        ("a [link](http://x)", "[SEND: a [link](http://x)]"),
        ("one ] alone", r"[SEND: one \] alone]"),
        ("one [ alone", r"[SEND: one \[ alone]"),
        ("`]` in code", "[SEND: `]` in code]"),
        ("two\nlines", "[SEND: two\nlines]"),
    ],
)
def test_the_form(argument: str, clean: str) -> None:
    assert written("send", argument, BUILT_IN) == clean


@pytest.mark.parametrize(
    ("name", "argument", "clean"),
    [
        ("send", "hi", "[SEND #3: hi]"),
        ("react", "🥞", "[REACT #3: 🥞]"),
        ("send", "#4: is better", "[SEND #3: #4: is better]"),
        ("send", "one ] alone", r"[SEND #3: one \] alone]"),
        ("wave", "", "[WAVE #3:]"),
        ("发送", "", "[发送 #3:]"),
    ],
)
def test_the_form_with_a_target(name: str, argument: str, clean: str) -> None:
    names = {**BUILT_IN, name: ()}
    assert written(name, argument, names, 3) == clean
    assert commands_in(clean, names) == [CommandEnded(name, argument, target=3)]


def test_silence_is_a_command_that_does_nothing() -> None:
    assert arguments_of(SILENCE) == [("send", "", True)]


@pytest.mark.parametrize(
    ("between", "separator"),
    [("", ""), ("\n", "\n"), (" ", " "), ("\n\n", "\n\n"), ("\n\n\n", "\n"), (" and ", "\n"), ("-", "\n")],
)
def test_separators(between: str, separator: str) -> None:
    assert separator_of(between) == separator


def test_where_code_and_brackets_fit_no_form_signs_are_put_in_for_backticks() -> None:
    """A span in which a bracket stands alone, and a fence that is never closed."""
    clean = written("send", "`[```", BUILT_IN)
    assert clean == "[SEND: ˋ\\[ˋˋˋ ]"
    assert commands_in(clean, BUILT_IN) == [CommandEnded("send", "ˋ[ˋˋˋ")]
