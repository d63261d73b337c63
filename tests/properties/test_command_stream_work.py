"""The work of reading a reply grows with its length, and with nothing else."""

import time

import pytest

from pixi.core.commands import CommandStream

NASTY = (
    *(
        "[",
        "]",
        "[[]",
        "[ ",
        "[S",
        "[SEND",
        "[SEND:",
        "[SEND: ",
        "[SEND: a ",
        "[SEND: a\n",
        "[SEND]",
        "[SEND]a ",
        "[/SEND]",
    ),
    *(
        "[SEND: a]",
        "[SEND: a [b] ",
        "[NOTE: a [SEND: b] ",
        "[SEND: a] :] ",
        "[SEND: :] ",
        ":]",
        ":[",
        "[:]",
        "\\[",
        "\\",
        "【",
        "【SEND：",
    ),
    *("`", "``", "```", "` ", "[SEND: `", "[SEND: ` ]", "[SEND: ```\n", "```\n]", "`]` "),
    *(
        "<",
        "<t",
        "<think",
        "<think>",
        "</think>",
        "<think></think>",
        "<|",
        "<|a",
        "<|a|>",
        "</s",
        "<tool-call ",
        '<tool-call tool="a">',
    ),
    *(
        '<tool-call tool="a">"',
        '<tool-call tool="a">{}</tool-call>',
        "</tool-call>",
        "\n",
        "\r",
        "\r\n",
        " ",
        "\n ",
        "\nU",
        "\nUser",
        "User",
    ),
    *(
        "*",
        "**[",
        "- ",
        "\n- ",
        "\n> [",
        "\u200b",
        "[\u200b",
        "[SNED: ",
        "[REAKT",
        "a",
        "a ",
        "🥞",
        "SEND",
        "S",
    ),
)
OPENINGS = (
    "",
    "[SEND: ",
    "[SEND: :] ",
    "[SEND: ` ",
    "[SEND: ``` ",
    "[NOTE: a [SEND: ",
    "[SEND]",
    '<tool-call tool="a">"',
    "[NOTE: x] ",
)

SMALL, LARGE = 16_384, 65_536
ALLOWED = 9.0
"""Four times the text may cost this many times the work: 4 when linear, 16 when quadratic."""

FLOOR_S = 0.02
"""Below this many seconds for the large reply nothing is quadratic that anybody would notice."""


def _seconds(reply: str, step: int) -> float:
    """Processor time for one reply in pieces of `step` characters."""
    stream = CommandStream()
    begun = time.process_time()
    for at in range(0, len(reply), step):
        stream.feed(reply[at : at + step])
    stream.close()
    return time.process_time() - begun


def _is_linear(unit: str, opening: str, step: int) -> bool:
    """Whether the larger of two replies costs about as much more as it is longer; noise gets three tries."""
    for _ in range(3):
        large = _seconds(opening + unit * (LARGE // len(unit)), step)
        if large < FLOOR_S:
            return True
        small = min(_seconds(opening + unit * (SMALL // len(unit)), step) for _ in range(2))
        if large <= ALLOWED * small:
            return True
    return False


@pytest.mark.parametrize("step", [4, LARGE * 2], ids=["in pieces", "whole"])
@pytest.mark.parametrize("opening", OPENINGS)
def test_work_is_linear(opening: str, step: int) -> None:
    slow = [unit for unit in NASTY if not _is_linear(unit, opening, step)]
    assert slow == []


@pytest.mark.parametrize("unit", ["[", "]", "[SEND: ", "`", "<", ":]", "[SEND: :] "])
def test_a_megabyte_is_read_in_seconds(unit: str) -> None:
    assert _seconds(unit * (1_048_576 // len(unit)), 4096) < 5.0
