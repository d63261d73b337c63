"""What the model of the kills reads from a request, and how an answer is judged."""

from datetime import UTC, datetime

import pytest

from pixi.core.message import Author, Message
from pixi.core.stamps import stamp
from tests.kill.questions import PARTS, Line, Report, wanted


def message(number: int, text: str, *, again: bool = False) -> Message:
    author = Author(str(number), f"Person {number}")
    return Message(str(number), "c", author, f"@Pixi {text}", 0.0, group=True, number=number, again=again)


def user(*messages: Message, broke_off: bool = False) -> Line:
    line = stamp(messages, local_time=datetime.now(UTC), small=False, group=True, broke_off=broke_off)
    return {"role": "user", "content": line.text}


def says(text: str) -> Line:
    return {"role": "assistant", "content": text}


def test_a_new_question_is_answered_in_full_whatever_was_said_to_others() -> None:
    (only,) = wanted([user(message(1, "q1 plain")), says("[SEND: q1 one]"), user(message(2, "q12 tool"))])
    assert (only.name, only.how, only.number, only.again) == ("q12", "tool", "2", False)
    assert only.parts == PARTS


@pytest.mark.parametrize("broke_off", [True, False])
def test_of_one_that_comes_due_again_is_said_what_the_history_does_not_hold(broke_off: bool) -> None:
    first, other = message(1, "q1 plain"), message(2, "q2 plain")
    again = user(message(1, "q1 plain", again=True), message(2, "q2 plain", again=True), broke_off=broke_off)
    found = wanted([user(first, other), says("[NOTE: hm]\n[SEND: q1 one]\n[REPLY #1: q1 two]"), again])
    assert [(each.name, each.number, each.parts) for each in found] == [
        ("q1", "1", ("three",)),
        ("q2", "2", PARTS),
    ]
    assert all(each.again for each in found)


def test_what_was_ordered_is_not_ordered_again() -> None:
    called = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"arguments": '{"thing": "q1"}'}}],
    }
    lines = [user(message(1, "q1 order")), called, {"role": "tool", "content": "ordered"}]
    (only,) = wanted([*lines, user(message(1, "q1 order", again=True))])
    assert only.called
    (only,) = wanted([*lines, user(message(2, "q11 order"))])
    assert not only.called


def test_a_question_that_was_taken_back_is_neither_lost_nor_half() -> None:
    report = Report()
    for name in ("q1", "q2", "q3"):
        report.judge(name, ["q2 one", "q3 one two three"], excused=False, taken_back=True)
    assert (report.clean, report.taken_back) == (True, 2)


@pytest.mark.parametrize(
    ("posts", "excused", "found"),
    [
        (["q1 one", "q1 two", "q1 three"], False, {}),
        (["q1 one two three"], False, {}),
        (["q1 one", "q1 two three", "q11 one"], False, {}),
        (["q1 one", "q1 three"], False, {"half": ["q1: one three"]}),
        (["q1 one", "q1 three", "q1 two"], False, {"half": ["q1: one three two"]}),
        (["q1 one", "q1 one", "q1 two", "q1 three"], False, {"twice": ["q1 one"]}),
        (["q11 one"], False, {"lost": ["q1"]}),
        (["q1 one"], True, {"told": 1}),
        (["q1 one two three"], True, {}),
    ],
)
def test_a_question_is_answered_or_told_or_lost(posts: list[str], excused: bool, found: object) -> None:
    report = Report()
    report.judge("q1", posts, excused=excused)
    told = {what: getattr(report, what) for what in ("told", "lost", "half", "twice")}
    assert {what: value for what, value in told.items() if value} == found
    assert report.clean == (found in ({}, {"told": 1}))
