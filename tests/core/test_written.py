"""Commands as the history holds them are read again as exactly what they were."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.core.commands import BUILT_IN, CommandEnded, CommandStream
from pixi.core.written import SILENCE, joined, read_again, separator_of, written

PIECES = st.sampled_from(
    ["[", "]", "\\", "`", "```", "\n", "[SEND: x]", "[react: y]", ":[", ":]", "【", "］", "<", " ", "a", "好"]
)
CODE = re.compile("(?s)```.*?```|`[^`\n]+`")
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
            assert read_again(written(name, argument, BUILT_IN), BUILT_IN) == [(name, argument)]


@given(st.text(alphabet="[]ab \n🥞【】", max_size=30))
def test_any_plain_argument_survives(text: str) -> None:
    argument = text.strip()
    assert read_again(written("send", argument, BUILT_IN), BUILT_IN) == [("send", argument)]


@given(st.lists(RAW, min_size=2, max_size=4))
def test_no_command_of_a_line_swallows_the_next(middles: list[str]) -> None:
    acts = [
        (name, argument)
        for middle in middles
        for name, argument, _ in arguments_of(f"[SEND: {middle}]")
        if argument
    ]
    line = joined([("\n", written(name, argument, BUILT_IN)) for name, argument in acts])
    assert len(read_again(line, BUILT_IN)) == len(acts)


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


def test_silence_is_a_command_that_does_nothing() -> None:
    assert arguments_of(SILENCE) == [("send", "", True)]


@pytest.mark.parametrize(
    ("between", "separator"),
    [("", ""), ("\n", "\n"), (" ", " "), ("\n\n", "\n\n"), ("\n\n\n", "\n"), (" and ", "\n"), ("-", "\n")],
)
def test_separators(between: str, separator: str) -> None:
    assert separator_of(between) == separator
