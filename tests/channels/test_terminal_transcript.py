"""What a talk looks like: events in, lines out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.channels.terminal.rows import Line, height, tail, wrapped
from pixi.channels.terminal.transcript import CURSOR, Transcript
from pixi.core.events import (
    Answered,
    Asked,
    Failed,
    Grew,
    Noted,
    Opened,
    Performed,
    Reacted,
    Sent,
    Sourced,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from pixi.core.llm import Cited

OPENED = Opened("send", "message", "1.0")


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for _, text in line) for line in lines]


def told(*events: TurnEvent, notes: bool = True) -> list[str]:
    transcript = Transcript("Pixi", notes=notes)
    for event in events:
        transcript.happened(event)
    return plain(transcript.lines(80))


def test_a_turn_that_shows_nothing_is_told() -> None:
    silent: list[TurnEvent] = [Opened("note"), Noted("they sleep"), TurnEnded("stop", 1)]
    assert told(*silent, notes=False) == ["  · stays silent"]
    assert told(*silent, notes=True) == ["  · they sleep"]
    assert told(Noted("x"), Sent("hi"), TurnEnded("stop", 1), *silent, notes=False) == [
        "Pixi › hi",
        "  · stays silent",
    ]
    shown: list[TurnEvent] = [Reacted("🥞"), Failed("no"), Performed("wave", "")]
    for seen in shown:
        assert "stays silent" not in "".join(told(seen, TurnEnded("stop", 1), notes=False))
    assert told(Noted("x"), TurnEnded("cancelled", 1), notes=False) == []


def test_a_message_grows_and_is_then_delivered_in_its_place() -> None:
    transcript = Transcript("Pixi", notes=False)
    seen = []
    for event in (
        OPENED,
        Grew("send", "omg ", "1.0"),
        Grew("send", "pancakes??", "1.0"),
        Sent("omg pancakes??", "1.0"),
    ):
        transcript.happened(event)
        seen.append(plain(transcript.lines(80)))
    assert seen == [
        [],
        [f"Pixi › omg {CURSOR}"],
        [f"Pixi › omg pancakes??{CURSOR}"],
        ["Pixi › omg pancakes??"],
    ]


def test_further_lines_of_a_message_stand_under_its_first() -> None:
    assert told(Sent("one\ntwo")) == ["Pixi › one", "       two"]
    transcript = Transcript("蜜柑", notes=False)
    transcript.happened(Sent("一\n二"))
    assert plain(transcript.lines(80)) == ["蜜柑 › 一", "       二"]


def test_a_reaction_stands_on_the_line_it_answers() -> None:
    transcript = Transcript("Pixi", notes=False)
    transcript.say("1", "mo", "pancakes\nwith syrup")
    transcript.happened(Sent("yay"))
    transcript.react("1", "🥞")
    transcript.react("1", "🎉")
    assert plain(transcript.lines(80)) == ["mo › pancakes", "     with syrup   🥞 🎉", "Pixi › yay"]


def test_a_reaction_to_a_line_that_is_settled_says_so() -> None:
    transcript = Transcript("Pixi", notes=False)
    transcript.say("1", "mo", "hi")
    assert plain(transcript.take(80)) == ["mo › hi"]
    transcript.react("1", "🥞")
    assert plain(transcript.lines(80)) == ["  Pixi reacts 🥞"]


@pytest.mark.parametrize("notes", [True, False])
def test_notes_are_shown_where_they_are_switched_on(notes: bool) -> None:
    note = (Opened("note", "note", "1.0"), Grew("note", "they are", "1.0"), Noted("they are sad", "1.0"))
    events = (*note, Sent("hey", "1.1"))
    assert told(*events, notes=notes) == (["  · they are sad"] if notes else []) + ["Pixi › hey"]


def test_a_command_that_came_to_nothing_leaves_no_trace() -> None:
    second = (Opened("send", "message", "1.1"), Grew("send", "hi", "1.1"), Sent("hi", "1.1"))
    third = (Opened("send", "message", "1.2"), Grew("send", "there", "1.2"), Sent("there", "1.2"))
    assert told(OPENED, *second, *third) == ["Pixi › hi", "Pixi › there"]
    reaction = (Opened("react", "reaction", "1.0"), Grew("react", "x", "1.0"))
    assert told(*reaction, Sent("hi", "1.1"), TurnEnded("stop", 1)) == ["Pixi › hi"]


def test_any_command_that_makes_a_message_grows_as_one() -> None:
    shout = (Opened("shout", "message", "1.0"), Grew("shout", "hey", "1.0"))
    assert told(*shout) == [f"Pixi › hey{CURSOR}"]
    assert told(*shout, Sent("HEY!", "1.0")) == ["Pixi › HEY!"]


def test_what_was_cut_off_is_marked() -> None:
    cut = (OPENED, Grew("send", "i was about ", "1.0"))
    assert told(*cut, TurnEnded("cancelled", 1)) == ["Pixi › i was about … (stopped)"]
    assert told(*cut, TurnEnded("stop", 1)) == ["  · stays silent"]


def test_tools_other_commands_and_errors_each_have_a_line() -> None:
    assert told(
        ToolCalled("1", "search", {"query": "syrup"}),
        ToolAnswered("1", "search", True, {"found": 2}),
        ToolAnswered("2", "dice", False, "no such die"),
        Opened("wave", None, "1.0"),
        Performed("wave", "wildly", "1.0"),
        Sourced((Cited("https://syrup.example/", "All of it"), Cited("https://x.example/"))),
        Failed("The model does not answer."),
    ) == [
        "  · uses search: query syrup",
        "  · dice failed: no such die",
        "  · wave: wildly",
        "  · All of it https://syrup.example/",
        "  · https://x.example/",
        "  The model does not answer.",
    ]


def test_nothing_that_others_write_drives_the_terminal() -> None:
    evil = "\x1b[2J\x9b31mx\x07\r"
    transcript = Transcript(f"P{evil}", notes=True)
    transcript.say("1", evil, evil)
    transcript.react("1", evil)
    transcript.react("gone", evil)
    for event in (
        TurnStarted(1, evil, evil, (evil,)),
        Asked(evil, evil, evil, evil, 0.0),
        Answered(evil, "no"),
        OPENED,
        Grew("send", evil, "1.0"),
        Sent(evil, "1.0"),
        Noted(evil),
        Performed(evil, evil),
        ToolCalled("1", evil, {evil: evil}),
        ToolAnswered("1", evil, False, evil),
        Sourced((Cited(evil, evil),)),
        Failed(evil),
        Reacted(evil),
        OPENED,
        Grew("send", evil, "1.0"),
        TurnEnded("error", 1),
    ):
        transcript.happened(event)
        shown = "".join(plain(transcript.lines(80)))
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


def test_settled_lines_are_taken_until_the_rest_fits() -> None:
    transcript = Transcript("Pixi", notes=False)
    for number in range(5):
        transcript.happened(Sent(str(number)))
    assert plain(transcript.take(80, room=2)) == ["Pixi › 0", "Pixi › 1", "Pixi › 2"]
    assert plain(transcript.take(80)) == ["Pixi › 3", "Pixi › 4"]
    assert transcript.empty


def test_what_still_grows_is_not_taken_nor_what_stands_below_it() -> None:
    transcript = Transcript("Pixi", notes=False)
    transcript.happened(Sent("done"))
    transcript.happened(OPENED)
    transcript.happened(Grew("send", "grow", "1.0"))
    transcript.tell("below")
    assert plain(transcript.take(80)) == ["Pixi › done"]
    assert plain(transcript.lines(80)) == [f"Pixi › grow{CURSOR}", "  below"]


def test_hidden_notes_do_not_stay_behind() -> None:
    transcript = Transcript("Pixi", notes=False)
    transcript.happened(Noted("hm"))
    assert transcript.take(80) == []
    assert transcript.empty


def test_rows_are_counted_as_the_terminal_wraps_them() -> None:
    assert height([[("", "x" * 80)]], 80) == 1
    assert height([[("", "x" * 81)], []], 80) == 3
    assert height([[("", "你" * 41)]], 80) == 2


def test_the_tail_is_what_fits() -> None:
    lines: list[Line] = [[("", str(number))] for number in range(5)]
    assert plain(tail(lines, 80, 2)) == ["3", "4"]
    assert plain(tail(lines, 80, 0)) == ["4"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("one  two   three", ["one  two", "three"]),
        ("a very-very-long-word", ["a very-v", "ery-long", "-word"]),
        ("蜜柑蜜柑蜜柑", ["蜜柑蜜柑", "蜜柑"]),
        ("  indented", ["indented"]),
        ("one ", ["one "]),
        ("exactly8 exactly8", ["exactly8", "exactly8"]),
    ],
)
def test_text_is_wrapped_between_words_by_the_cells_it_takes(text: str, rows: list[str]) -> None:
    assert wrapped(text, 8) == rows


@given(st.text(alphabet="ab 蜜\t"), st.integers(min_value=-1, max_value=12))
def test_wrapping_loses_nothing_but_space_at_the_ends_of_rows(text: str, columns: int) -> None:
    rows = wrapped(text, columns)
    assert "".join("".join(rows).split()) == "".join(text.split())


def test_a_long_message_is_wrapped_under_its_first_word() -> None:
    transcript = Transcript("Pixi", notes=False)
    transcript.happened(Sent("pancakes are " * 3))
    assert plain(transcript.lines(24)) == [
        "Pixi › pancakes are",
        "       pancakes are",
        "       pancakes are",
    ]


def test_a_name_wider_than_the_terminal_leaves_room_for_words() -> None:
    transcript = Transcript("P" * 50, notes=False)
    transcript.happened(Sent("hi there\nfriend"))
    assert plain(transcript.lines(30)) == ["P" * 50 + " › hi there", " " * 10 + "friend"]
