"""The history's window: it fits, it is cut in turns and rarely, and it is the same after a restart."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pixi.core.conversation import Conversation, estimate, estimate_all, turns_of
from pixi.core.lines import AssistantLine, Line, SystemLine, ToolCall, ToolLine, UserLine
from pixi.core.message import Image

CALL = ToolCall("c", "weather", "{}")


@st.composite
def turns(draw: st.DrawFn) -> tuple[Line, ...]:
    words = draw(st.sampled_from(["hi ", "好", "🥞", "word "])) * draw(st.integers(0, 400))
    lines: list[Line] = [UserLine(words)]
    for _ in range(draw(st.integers(0, 2))):
        lines += [AssistantLine("", (CALL,)), ToolLine("c", "weather", "sun " * draw(st.integers(0, 200)))]
    return (*lines, AssistantLine("[SEND: " + "x" * draw(st.integers(0, 300)) + "]"))


TALKS = st.lists(turns(), max_size=30)


@settings(deadline=None)
@given(TALKS, st.integers(200, 4_000), st.integers(0, 300), st.integers(0, 9_000))
def test_the_prompt_fits_and_holds_whole_turns(
    talk: list[tuple[Line, ...]], context: int, prefix: int, length: int
) -> None:
    window = Conversation(context_tokens=context, prefix_tokens=prefix)
    for turn in talk:
        window.append(turn)
    said = window.fit(UserLine("Mo: " + "w" * length))
    assert prefix + estimate_all(window.lines) + estimate(said) <= max(context, prefix + 70)
    whole = [line for turn in talk for line in turn]
    assert list(window.lines) == whole[len(whole) - len(window.lines) :]
    assert not window.lines or isinstance(window.lines[0], UserLine)
    for kept in turns_of(window.lines):
        calls = [call.id for line in kept if isinstance(line, AssistantLine) for call in line.calls]
        results = [line.call_id for line in kept if isinstance(line, ToolLine)]
        assert calls == results


@settings(deadline=None)
@given(TALKS, st.integers(200, 4_000))
def test_the_window_is_the_same_when_it_is_read_back(talk: list[tuple[Line, ...]], context: int) -> None:
    window = Conversation(context_tokens=context)
    lines: list[Line] = []
    for turn in talk:
        said = turn[0]
        assert isinstance(said, UserLine)
        fitted = window.fit(said)
        window.append((fitted, *turn[1:]))
        lines += (fitted, *turn[1:])
    assert Conversation(lines, context_tokens=context).lines == window.lines


def test_it_is_cut_seldom_and_then_by_half() -> None:
    window = Conversation(context_tokens=2_000)
    first_lines = set()
    for number in range(1_000):
        window.append((UserLine(f"Mo: message {number}"), AssistantLine("[SEND: fine, and you?]")))
        first_lines.add(window.lines[0])
    assert len(first_lines) <= 40
    assert len(window.lines) >= 40


def test_a_huge_message_keeps_its_beginning_and_its_end() -> None:
    window = Conversation(context_tokens=1_000)
    said = window.fit(UserLine("Mo: read this " + "x" * 100_000 + " what do you think?"))
    assert said.text.startswith("Mo: read this")
    assert said.text.endswith("what do you think?")
    assert "characters left out" in said.text
    assert estimate(said) <= 500
    assert window.fit(said) == said


def test_old_turns_make_room_for_a_long_message() -> None:
    window = Conversation(context_tokens=1_000)
    turn = (UserLine("Mo: " + "x" * 100), AssistantLine("[SEND: ok]"))
    while len(window.lines) < 30:
        window.append(turn)
    said = window.fit(UserLine("Mo: " + "w" * 1_200))
    assert 0 < len(window.lines) < 30
    assert estimate_all(window.lines) + estimate(said) <= 900


def test_too_many_pictures_are_left_out() -> None:
    window = Conversation(context_tokens=8_192)
    said = window.fit(UserLine("Mo: look", tuple(Image("image/png", bytes([n])) for n in range(20))))
    assert len(said.images) < 4
    assert "look" in said.text


def test_a_server_that_counts_more_tokens_makes_the_window_narrower() -> None:
    window = Conversation(context_tokens=2_000)
    for number in range(20):
        window.append((UserLine(f"Mo: {number} " + "x" * 200), AssistantLine("[SEND: ok]")))
    before = estimate_all(window.lines)
    window.counted(before, 3 * before)
    assert estimate_all(window.lines) * 3 <= 1_500
    after = window.spare_tokens
    for fewer in (10, 201):
        window.counted(estimate_all(window.lines), fewer)
        assert window.spare_tokens == after


def test_the_guess_of_a_request_is_that_of_all_its_lines() -> None:
    said, prefix = UserLine("Mo: and now? 🥞"), (SystemLine("You are Pixi."),)
    window = Conversation(context_tokens=4_000, prefix_tokens=estimate_all(prefix))
    for number in range(200):
        window.append((UserLine(f"Mo: {number} " + "x" * 200), AssistantLine("[SEND: ok]")))
        assert window.guess(said) == estimate_all((*prefix, *window.lines, said))


def test_a_server_that_does_not_count_changes_nothing() -> None:
    window = Conversation([UserLine("hi"), AssistantLine("[SEND: hi]")], context_tokens=2_000)
    before = window.spare_tokens
    window.counted(before, 0)
    assert window.spare_tokens == before
    assert 0 < before < 2_000
