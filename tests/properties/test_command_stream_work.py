"""The work of reading a reply grows with its length, and with nothing else.

Work is counted, not timed: how long it takes is in `benchmarks/parser.py`.
"""

import tracemalloc

import pytest

from pixi.core.language import CommandEnded, CommandStream
from tests.steps import steps_of

# fmt: off
NASTY = (
    "[", "]", "[[]", "[ ", "[S", "[SEND", "[SEND:", "[SEND: ", "[SEND: a ", "[SEND: a\n", "[SEND]",
    "[SEND]a ", "[/SEND]", "[SEND: a]", "[SEND: a [b] ", "[NOTE: a [SEND: b] ", "[SEND: a] :] ",
    "[SEND: :] ", ":]", ":[", "[:]", "\\[", "\\", "【", "【SEND：", "`", "``", "```", "` ", "[SEND: `",
    "[SEND: ` ]", "[SEND: ```\n", "```\n]", "`]` ", "<", "<t", "<think", "<think>", "</think>",
    "<think></think>", "<|", "<|a", "<|a|>", "</s", "</tool-call>", "<tool-call ", '<tool-call tool="a">',
    '<tool-call tool="a">"', '<tool-call tool="a">{}</tool-call>', "\n", "\r", "\r\n", " ", "\n ", "\nU",
    "\nUser", "User", "*", "**[", "- ", "\n- ", "\n> [", "\u200b", "[\u200b", "[SNED: ", "[REAKT", "a", "#",
    "[SEND #", "[SEND # ", "[SEND #3", "[SEND #3]", "[SEND #3 ", "[REPLY #3: a ", "[SNED #3",
    "a ", "🥞", "SEND", "S",
)
# fmt: on
OPENINGS = ("", "[SEND: ", "[SEND: :] ` ", "[NOTE: a [SEND: ``` ", '<tool-call tool="a">"')

ALLOWED = 4.5
"""Times the steps for four times the length: 4 if linear, 16 if quadratic."""

SPARE = 10
"""Steps more for each character of the longer reply: a shorter one may be read a quicker way."""

WHOLE = 1 << 20
"""Characters in a piece that holds all of a reply."""


def _steps(reply: str, piece: int) -> int:
    """Return the steps of reading a reply in pieces of so many characters."""

    def read() -> None:
        stream = CommandStream()
        for at in range(0, len(reply), piece):
            stream.feed(reply[at : at + piece])
        stream.close()

    return steps_of(read)


def _superlinear(opening: str, *, repeated: int, piece: int, tail: str = "") -> list[str]:
    """Return the units of which four times as many cost more than four times the steps."""
    CommandStream().feed("[SEND: a]")  # what is made once for all streams is not counted
    found = []
    for unit in NASTY:
        longer = opening + unit * repeated * 4 + tail
        most = ALLOWED * _steps(opening + unit * repeated + tail, piece) + SPARE * len(longer)
        if _steps(longer, piece) > most:
            found.append(unit)
    return found


@pytest.mark.parametrize("opening", OPENINGS)
def test_work_is_linear(opening: str) -> None:
    assert _superlinear(opening, repeated=15, piece=4) == []


def test_work_is_linear_in_one_piece() -> None:
    assert _superlinear("", repeated=40, piece=WHOLE) == []


def test_work_is_linear_where_a_command_on_a_new_line_ends_what_is_open() -> None:
    assert _superlinear("[SEND: `", repeated=15, piece=WHOLE, tail="\n\n[SEND: ok]") == []


@pytest.mark.nightly
@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("piece", [1, 4, WHOLE])
def test_work_is_linear_at_length(opening: str, piece: int) -> None:
    assert _superlinear(opening, repeated=60, piece=piece) == []
    assert _superlinear(opening, repeated=60, piece=piece, tail="\n\n[SEND: ok]") == []


@pytest.mark.parametrize("piece", [4, WHOLE])
def test_ten_thousand_commands_come_out(piece: int) -> None:
    reply = "[SEND: a]" * 10_000
    stream = CommandStream()
    events = [event for at in range(0, len(reply), piece) for event in stream.feed(reply[at : at + piece])]
    assert sum(isinstance(event, CommandEnded) for event in events) == 10_000


@pytest.mark.nightly
@pytest.mark.parametrize("unit", ["[", "`", "a", "<", "[SEND: ", "\n"])
def test_a_megabyte_is_read_to_its_end(unit: str) -> None:
    stream = CommandStream()
    reply = unit * (1_048_576 // len(unit))
    for at in range(0, len(reply), 4096):
        stream.feed(reply[at : at + 4096])
    stream.close()


@pytest.mark.parametrize("piece", [1, 7])
@pytest.mark.parametrize(
    "unit",
    [
        "[SEND: a]\n",
        "[SEND]\n",
        "[SEND]a[/SEND]",
        "[NOTE: `]` [b]]\n",
        "a [NOTE: :] b]\n",
        "<think>a</think>\n",
    ],
)
def test_what_was_read_is_not_kept(unit: str, piece: int) -> None:
    stream = CommandStream()

    def read_on() -> int:
        reply = unit * 200
        for at in range(0, len(reply), piece):
            stream.feed(reply[at : at + piece])
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = read_on()
        assert read_on() - before < 2_000, "bytes"
    finally:
        tracemalloc.stop()
