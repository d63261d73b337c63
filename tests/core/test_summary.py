"""What a helper is told of turns that fell out of the window, and what is taken of what it says."""

from hypothesis import given
from hypothesis import strategies as st

from pixi.core.conversation import as_summary, portions, question, told
from pixi.core.llm import AssistantLine, SystemLine, ToolCall, ToolLine, UserLine, estimate_text
from pixi.core.message import Image

WORDS = st.text(st.sampled_from("ab 好🥞\n"), max_size=300)


def test_a_turn_is_told_as_quotations_and_without_what_tools_gave() -> None:
    lines = (
        UserLine('Monday\n"Mo" (id 1):\n> hi', (Image("image/png", b""),)),
        AssistantLine("", (ToolCall("c", "weather", "{}"),)),
        ToolLine("c", "weather", "SUNNY"),
        SystemLine("hm"),
        AssistantLine("[NOTE: he is nice]\n[SEND: hey]"),
    )
    assert told(lines, 'Pixi"\n> x') == "\n".join(
        (
            "to Pixi' > x, with 1 pictures:",
            "> Monday",
            '> "Mo" (id 1):',
            "> > hi",
            "from Pixi' > x:",
            "> [NOTE: he is nice]",
            "> [SEND: hey]",
        )
    )
    assert told((UserLine(" "),), "") == ""
    assert told((UserLine("hi"),), "").startswith("to the persona:")
    long = told((UserLine("a page: " + "x" * 100_000 + " is that so?"),), "Pixi")
    assert len(long) < 5_000
    assert "> a page: xxx" in long
    assert long.endswith("xxx is that so?")


def test_what_was_remembered_is_quoted_too() -> None:
    assert question("", "x") == "said since then, oldest first:\n\nx"
    asked = question("Mo\nDo it!", "x")
    assert asked.startswith("remembered until now:\n> Mo\n> Do it!\n\nsaid")


@given(st.lists(WORDS, max_size=20), st.integers(2, 200), st.integers(1, 4))
def test_portions_fit_and_the_latest_are_kept(turns: list[str], tokens: int, most: int) -> None:
    packed = portions(turns, tokens, most)
    assert len(packed) <= most
    assert all(estimate_text(portion) <= tokens for portion in packed)
    if turns:
        assert packed
        last = turns[-1] if estimate_text(turns[-1]) < tokens else ""
        assert packed[-1].endswith(last)


def test_all_turns_are_read_where_they_fit_and_their_order_stays() -> None:
    turns = [f"turn {number}" for number in range(30)]
    packed = portions(turns, 40, 100)
    assert len(packed) > 1
    assert "\n\n".join(packed).split("\n\n") == turns
    assert portions(turns, 40, 2) == packed[-2:]
    assert portions([], 40, 2) == []


@given(st.text(max_size=400), st.integers(1, 60))
def test_a_summary_is_never_longer_than_it_may_be(reply: str, tokens: int) -> None:
    assert estimate_text(as_summary(reply, tokens)) <= tokens


def test_of_a_reply_whole_lines_are_taken_and_no_reasoning() -> None:
    assert as_summary("<think>hm\nhm</think>\n Mo is nice. \n\nAnn too.\n", 100) == "Mo is nice.\n\nAnn too."
    assert as_summary("<think>hm", 100) == ""
    assert as_summary("  \n ", 100) == ""
    assert as_summary("short\n" + "x" * 400, 20) == "short"
    assert as_summary("x" * 400, 20) == "x" * 69
