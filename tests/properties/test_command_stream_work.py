"""The work of reading a reply grows with its length, and with nothing else."""

import time
import tracemalloc

import pytest

from pixi.core.commands import CommandEnded, CommandStream

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

FEW, MANY = 300, 1200
"""Repetitions of a unit. Four times as many may cost ALLOWED times the work: 4 if linear, 16 if quadratic."""

ALLOWED = 9.0

FLOOR_S = 0.02
"""Where the longer reply costs less processor time than this, noise outweighs any ratio."""


def _seconds(reply: str, step: int) -> float:
    """Processor time for one reply in pieces of `step` characters."""
    stream = CommandStream()
    begun = time.process_time()
    for at in range(0, len(reply), step):
        stream.feed(reply[at : at + step])
    stream.close()
    return time.process_time() - begun


def _is_linear(unit: str, opening: str, step: int) -> bool:
    """Whether the longer of two replies costs about as much more as it is longer; noise gets three tries."""
    for _ in range(3):
        large = _seconds(opening + unit * MANY, step)
        if large < FLOOR_S or large <= ALLOWED * _seconds(opening + unit * FEW, step):
            return True
    return False


@pytest.mark.parametrize("opening", OPENINGS)
def test_work_is_linear(opening: str) -> None:
    assert [unit for unit in NASTY if not _is_linear(unit, opening, step=4)] == []


def test_work_is_linear_in_one_piece() -> None:
    assert [unit for unit in NASTY if not _is_linear(unit, "", step=1 << 20)] == []


@pytest.mark.parametrize("step", [1, 4, 1 << 20])
def test_ten_thousand_commands_come_out(step: int) -> None:
    reply = "[SEND: a]" * 10_000
    stream = CommandStream()
    events = [event for at in range(0, len(reply), step) for event in stream.feed(reply[at : at + step])]
    assert sum(isinstance(event, CommandEnded) for event in events) == 10_000


@pytest.mark.parametrize("unit", ["[", "]", "`", ":]", "a"])
def test_a_megabyte_of_one_sign_is_nothing(unit: str) -> None:
    assert _seconds(unit * (1_048_576 // len(unit)), 4096) < 1.0


@pytest.mark.parametrize("unit", ["<", "[SEND: ", "[SEND: :] ", "[SEND: a\n", "\n", "[ "])
def test_a_quarter_of_a_megabyte_of_openings_is_read_in_seconds(unit: str) -> None:
    assert _seconds(unit * (262_144 // len(unit)), 4096) < 5.0


@pytest.mark.parametrize("step", [1, 7])
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
def test_what_was_read_is_not_kept(unit: str, step: int) -> None:
    stream = CommandStream()

    def read_on() -> int:
        reply = unit * 600
        for at in range(0, len(reply), step):
            stream.feed(reply[at : at + step])
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = read_on()
        assert read_on() - before < 2_000
    finally:
        tracemalloc.stop()
