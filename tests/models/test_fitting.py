"""A request for a model that holds less than the one it was written for."""

from hypothesis import given
from hypothesis import strategies as st

from pixi.core.llm import (
    AssistantLine,
    Line,
    Request,
    SystemLine,
    ToolCall,
    ToolLine,
    ToolSchema,
    UserLine,
    estimate_all,
)
from pixi.models.fallback import fitted

PREFIX = SystemLine("You are Pixi.")
LOOK = ToolSchema("look", "look at something", {"type": "object"})


def turn(number: int, size: int) -> list[Line]:
    call = ToolCall(f"c{number}", "look", "{}")
    return [
        UserLine(f"mo: {number} " + "x" * size),
        AssistantLine("[NOTE: hm]", (call,)),
        ToolLine(call.id, "look", "a cat"),
        AssistantLine("[SEND: a cat]"),
    ]


def test_what_fits_stays_as_it_is() -> None:
    request = Request((PREFIX, *turn(1, 10)), tools=(LOOK,))
    assert fitted(request, 4_096) == request


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=12), st.integers(600, 6_000))
def test_whole_turns_go_the_oldest_first(sizes: list[int], context: int) -> None:
    turns = [turn(number, size) for number, size in enumerate(sizes)]
    lines = (PREFIX, *(line for each in turns for line in each))
    got = fitted(Request(lines, tools=(LOOK,)), context)
    assert got.tools == (LOOK,)
    assert got.lines[0] == PREFIX
    assert len(got.lines) % 4 == 1, "calls stay with their results"
    kept = len(got.lines) // 4
    assert kept >= 1
    assert estimate_all(got.lines) <= context
    if kept > 1:
        assert got.lines == lines[:1] + lines[-4 * kept :]
    if kept < len(turns) and kept > 1:
        assert estimate_all((*got.lines, *turns[-kept - 1])) > context * 0.7, "none goes without need"


def test_of_a_line_that_is_too_long_the_middle_goes() -> None:
    request = Request((PREFIX, UserLine("mo: begin " + "x" * 40_000 + " end")))
    said = fitted(request, 1_000).lines[1]
    assert said.text.startswith("mo: begin ")
    assert said.text.endswith(" end")
    assert "characters left out" in said.text
    assert len(said.text) < 4_000


def test_where_nothing_can_be_done_it_goes_as_it_is() -> None:
    alone = Request((SystemLine("x" * 10_000),))
    assert fitted(alone, 1_000) == alone
    odd = Request((AssistantLine("x" * 10_000),))
    assert fitted(odd, 1_000) == odd
    crowded = fitted(Request((SystemLine("x" * 10_000), UserLine("mo: " + "y" * 10_000))), 1_000)
    assert len(crowded.lines[1].text) < 1_000
