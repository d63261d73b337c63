"""What counts as said before, and how a reply that begins like it is held back, at every cut of its text."""

import pytest

from pixi.core.language import BUILT_IN, CommandEnded, CommandText
from pixi.core.llm import AssistantLine, Line, UserLine
from pixi.core.reading import CommandEvent, RepeatFilter, ReplyReading, last_messages, wants_repeat
from pixi.core.spending import Limits

BEFORE = "I'm so glad you like it!"


def sifted(pieces: list[str], said: list[str]) -> tuple[list[list[CommandEvent]], bool]:
    """What is let through after each piece of a reply, and whether it is a repeat."""
    reading = ReplyReading(BUILT_IN, people=(), limits=Limits(), commands_left=20, prose="auto")
    repeats = RepeatFilter(said)
    let = [repeats.sift(reading.feed(piece)) for piece in pieces]
    return let, repeats.found


def performed(events: list[list[CommandEvent]]) -> list[str]:
    return [event.argument for step in events for event in step if isinstance(event, CommandEnded)]


@pytest.mark.parametrize(
    "again",
    [
        f"[SEND: {BEFORE}]",
        "[REACT: 🥞]\n[SEND: im so GLAD you like it... 🥞]",
        "[NOTE: they liked it]\n[REACT: 🥞]\n[SEND: **I’m so glad**, you like it][SEND: more]",
    ],
)
def test_nothing_of_a_repeat_is_let_through_at_any_cut(again: str) -> None:
    for cut in range(len(again) + 1):
        let, found = sifted([again[:cut], again[cut:]], ["hi", BEFORE])
        assert (let, found) == ([[], []], True)
    assert sifted(list(again), [BEFORE]) == ([[]] * len(again), True)


@pytest.mark.parametrize(
    "new", ["I'm so glad you like it here!", "I'm so glad", "I am glad you like it", "hm"]
)
def test_another_message_loses_nothing_at_any_cut(new: str) -> None:
    reply = f"[REACT: 🥞]\n[SEND: {new}]\n[SEND: {BEFORE}]"
    for cut in range(len(reply) + 1):
        let, found = sifted([reply[:cut], reply[cut:]], [BEFORE])
        assert (performed(let), found) == (["🥞", new, BEFORE], False)


def test_a_message_flows_from_the_first_letter_that_is_its_own() -> None:
    let, _ = sifted(["[SEND: I'm so ", "gl", "ee", "ful"], [BEFORE])
    assert [step != [] for step in let] == [False, False, True, True]
    assert [event.text for event in let[2] if isinstance(event, CommandText)] == ["I'm so ", "gl", "ee"]


@pytest.mark.parametrize("other", ["[STICKER: cat]", "[GIF: cat]"])
def test_what_is_more_than_a_note_or_a_reaction_is_not_held_back(other: str) -> None:
    reading = ReplyReading(
        {**BUILT_IN, "sticker": (), "gif": ()}, people=(), limits=Limits(), commands_left=9, prose="auto"
    )
    repeats = RepeatFilter([BEFORE])
    assert repeats.sift(reading.feed(f"{other}[SEND: {BEFORE}]"))
    assert not repeats.found


@pytest.mark.parametrize(
    ("before", "is_repeat"),
    [
        ("good night, my friend", False),  # four words may be said again
        ("good night, my dear friend", True),
        ("早上好呀朋友", False),
        ("今天早上的雾真的很大呢", True),
        ("", False),
    ],
)
def test_only_a_message_of_more_than_four_words_is_a_repeat(before: str, is_repeat: bool) -> None:
    _, found = sifted([f"[SEND: {before}]"], [before])
    assert found is is_repeat


def test_only_the_last_five_messages_count_and_they_are_read_from_the_history() -> None:
    history: list[Line] = [
        UserLine("[SEND: not said by the persona]"),
        AssistantLine("[SEND: one]\n[SEND: two]"),
        AssistantLine("[NOTE: no message]\n[REACT: 🥞]"),
        AssistantLine("[SEND: three]\n[SEND #2: four \\[4\\]]\n[SEND: five]\n[SEND: six]"),
    ]
    assert last_messages(history, BUILT_IN) == ["two", "three", "four [4]", "five", "six"]
    assert last_messages(history[:2], BUILT_IN) == ["one", "two"]
    assert not sifted([f"[SEND: {BEFORE}]"], [BEFORE, *"abcde"])[1]


@pytest.mark.parametrize(
    "asked",
    [
        "say that again",
        "Sorry, can you say that again?",
        "again!",
        "what did you say?",
        "please repeat the last line",
        "sag das nochmal",
        "Kannst du das bitte wiederholen?",
        "¿puedes decirlo otra vez?",
        "repítelo",
        "tu peux répéter ?",
        "redis-le",
        "もう一度言って",
        "pode repetir?",
        "diz de novo",
        "请再说一遍",
        "重复一下",
        "say: i'm so glad you like it",
    ],
)
def test_a_repeat_that_was_asked_for_is_wanted(asked: str) -> None:
    assert wants_repeat(asked, [BEFORE])


@pytest.mark.parametrize(
    "asked",
    [
        "i failed my exam again",
        "i am so glad",
        "hi",
        "",
        "don't say that again",
        "you say that again and again",
        "please do not repeat yourself",
        "you are so repetitive",
        "我再去一次",
    ],
)
def test_other_messages_ask_for_no_repeat(asked: str) -> None:
    assert not wants_repeat(asked, [BEFORE, "hi"])
