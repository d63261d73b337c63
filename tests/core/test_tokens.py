"""How many tokens lines have, as far as their characters tell; and a line that is cut to so many."""

from pixi.core.llm import (
    AssistantLine,
    SystemLine,
    ToolCall,
    ToolLine,
    ToolSchema,
    UserLine,
    estimate,
    estimate_all,
    estimate_text,
    estimate_tools,
    shortened,
)
from pixi.core.message import Image

CAT = Image("image/png", b"cat")


def test_all_that_a_line_holds_counts() -> None:
    empty = estimate(SystemLine(""))
    assert estimate(SystemLine("x" * 350)) == empty + 100
    assert estimate(UserLine("好" * 100)) == empty + 80
    assert estimate(UserLine("", (CAT, CAT))) == estimate(ToolLine("c", "camera", "", (CAT, CAT))) > 2_000
    call = ToolCall("c", "weather", '{"place": "here"}')
    assert estimate(AssistantLine("", (call, call))) > estimate(AssistantLine("", (call,))) > empty
    assert estimate_all([SystemLine(""), UserLine("")]) == 2 * empty
    tool = ToolSchema("weather", "the weather of a place", {"type": "object"})
    assert estimate_tools([tool, tool]) == 2 * estimate_tools([tool]) > 0
    assert estimate_tools([]) == 0


def test_a_line_is_cut_to_its_tokens_whatever_it_is_written_in() -> None:
    for text in ("x" * 9_000, "好" * 3_000, "好" * 500 + "x" * 9_000 + "好" * 500, "🥞" * 40):
        for tokens in (60, 200, 900):
            short = shortened(UserLine(text), tokens)
            assert estimate(short) <= tokens
            assert short.text[:5] == text[:5]
            assert short.text[-5:] == text[-5:]


def test_where_there_is_no_room_at_all_only_the_gap_is_left() -> None:
    assert shortened(UserLine("hello there", (CAT,)), 5) == UserLine("\n[… 11 characters left out …]\n")
    assert estimate_text("") == 1
