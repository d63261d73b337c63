"""Messages that together are too long for a model: what is meant for the persona is the last to go."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.core.llm import UserLine, estimate
from pixi.core.message import Author, Image, Message, Quoted
from pixi.core.stamps import LineFitter, Reminder, stamp, without

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANN, MO = Author("9", "Ann"), Author("11", "Mo")
CAT = Image("image/png", b"cat")
STAMPED = partial(stamp, local_time=NOON, small=False, group=True)


def said(number: int, text: str, author: Author = MO, *, addressed: bool = True) -> Message:
    return Message(f"m{number}", "c", author, text, 0.0, addressed=addressed, group=True, number=number)


def overheard(number: int, text: str) -> Message:
    return said(number, text, ANN, addressed=False)


def line_of(
    messages: Sequence[Message], tokens: float, reminders: Sequence[Reminder] = (), *, small: bool = False
) -> UserLine:
    line = LineFitter(partial(STAMPED, small=small), reminders, tokens).line(messages)
    assert estimate(line) <= tokens
    return line


TEXTS = st.sampled_from(["word ", "好", "🥞", "line\n"]).flatmap(
    lambda piece: st.integers(1, 600).map(lambda times: (piece * times).strip())
)
MESSAGES = st.lists(st.tuples(TEXTS, st.booleans(), st.integers(0, 2)), min_size=1, max_size=12)


@given(MESSAGES, st.integers(64, 3_000), st.booleans())
def test_as_long_as_all_that_is_meant_fits_none_of_its_words_are_cut(
    drawn: list[tuple[str, bool, int]], tokens: int, small: bool
) -> None:
    messages = [
        replace(
            said(number, f"<{number}>{text}<{number}/>", MO if addressed else ANN, addressed=addressed),
            images=(CAT,) * pictures,
        )
        for number, (text, addressed, pictures) in enumerate(drawn, 1)
    ]
    meant = [message for message in messages if message.addressed]
    reminders = [Reminder(MO, ("he likes tea " * 20,))]
    line = line_of(messages, tokens, reminders, small=small)
    assert line == line_of(messages, tokens, reminders, small=small)
    if meant and estimate(stamp(meant, local_time=NOON, small=small, group=True)) <= tokens:
        shown = line.text.replace("\n> ", "\n")
        assert all(f"\n{message.text}\n" in f"\n{shown}\n" for message in meant)
        assert len(line.images) >= sum(len(message.images) for message in meant)


def test_what_was_overheard_goes_first_the_oldest_first() -> None:
    chatter = [overheard(number, f"chatter {number} " + "x" * 300) for number in range(1, 9)]
    asked = said(9, "what is the capital of France? " + "y" * 300)
    line = line_of([*chatter[:4], asked, *chatter[4:]], 450)
    assert asked.text in line.text
    told = [number for number in range(1, 9) if f"chatter {number}" in line.text]
    assert told
    assert told == list(range(told[0], 9))
    assert told[0] > 1
    gaps = line.text.count("characters left out")
    assert gaps <= 1
    if gaps:
        assert line.text.index("characters left out") < line.text.index(f"chatter {told[1]}")


def test_of_one_long_overheard_message_there_stays_what_has_room() -> None:
    page = replace(overheard(1, "It begins. " + "x" * 40_000 + " It ends."), images=(CAT,))
    line = line_of([page, said(2, "what do you think of that?")], 500)
    for words in ("It begins.", "It ends.", "characters left out", "what do you think of that?"):
        assert words in line.text
    assert line.images == ()
    assert estimate(line) > 400


def test_whoever_replies_to_what_was_left_out_quotes_it() -> None:
    page = overheard(1, "Pancakes are flat. " + "x" * 3_000)
    quote = Quoted("m1", ANN, page.text, number=1)
    other = overheard(2, "z" * 700)
    asked = replace(said(3, "is that so?"), reply_to="m1", quoted=(quote,))
    line = line_of([page, other, asked], 300)
    assert 'earlier, "Ann" (id 9):\n> Pancakes are flat. ' in line.text
    assert 'replying to "Ann" (id 9):\n> is that so?' in line.text


def test_quotations_and_then_memories_go_before_words_do() -> None:
    quote = Quoted("m0", ANN, "q" * 450)
    asked = replace(said(3, "and? " + "y" * 300), reply_to="m0", quoted=(quote,))
    reminder = Reminder(MO, ("he likes tea " * 10,))
    both = line_of([asked], 1_000, [reminder])
    assert "qqq" in both.text
    assert "he likes tea" in both.text
    one = line_of([asked], 200, [reminder])
    assert "qqq" not in one.text
    assert "he likes tea" in one.text
    none = line_of([asked], 150, [reminder])
    assert "he likes tea" not in none.text
    assert asked.text in none.text
    assert 'replying to "Ann" (id 9)' in none.text


def test_pictures_go_before_words_the_oldest_first_and_it_is_told() -> None:
    pictures = tuple(Image("image/png", bytes([number])) for number in range(20))
    first, second = said(1, "look", ANN), said(2, "which is the best?")
    line = line_of([replace(first, images=pictures[:12]), replace(second, images=pictures[12:])], 3_000)
    assert line.images == pictures[-2:]
    assert "> look\n> [… 12 pictures left out …]" in line.text
    assert "2 pictures:\n> which is the best?\n> [… 6 pictures left out …]" in line.text


def test_of_huge_messages_the_middle_of_the_longest_goes() -> None:
    short, huge = said(1, "hello. " + "s" * 500), said(2, "read this " + "x" * 100_000 + " well?", ANN)
    line = line_of([short, replace(huge, images=(CAT,) * 9)], 3_000)
    assert short.text in line.text
    assert "> read this xxx" in line.text
    assert "> [… " in line.text
    assert line.text.endswith(" well?\n> [… 8 pictures left out …]")
    assert line.images == (CAT,)
    assert estimate(line) > 2_800


def test_a_picture_for_which_there_is_room_stays_with_a_huge_message() -> None:
    line = line_of([replace(said(1, "look at this " + "x" * 100_000), images=(CAT,))], 5_000)
    assert line.images == (CAT,)
    assert "pictures left out" not in line.text


def test_where_they_are_too_many_the_oldest_go_and_it_is_told() -> None:
    many = [said(number, f"message {number} " + "x" * 400) for number in range(1, 301)]
    line = line_of(many, 2_000)
    assert "> [… 2" in line.text
    assert "messages left out …]" in line.text
    assert "message 300 " in line.text
    assert "message 1 " not in line.text


@pytest.mark.parametrize("tokens", [20, 64])
def test_where_there_is_hardly_any_room_it_fits_all_the_same(tokens: int) -> None:
    line = line_of([said(1, "x" * 5_000), said(2, "y" * 5_000, ANN)], tokens)
    assert "left out" in line.text


def test_a_person_can_still_be_taken_out_of_it() -> None:
    line = line_of([said(1, "secret " * 3_000), said(2, "well? " * 3_000, ANN)], 1_000)
    left = without(line, MO.id)
    assert left is not None
    assert "secret" not in left.text
    assert "Mo" not in left.text
    assert "well? " in left.text


def test_messages_that_were_all_overheard_are_not_all_left_out() -> None:
    line = line_of([overheard(1, "a" * 900), overheard(2, "b" * 900)], 200)
    assert "aaa" in line.text
    assert "bbb" in line.text


def test_what_still_waits_takes_no_room_for_what_is_not_shown_of_it() -> None:
    quote = Quoted("m0", ANN, "q" * 450)
    again = replace(said(1, "x" * 40_000, ANN), images=(CAT,) * 9, quoted=(quote,), reply_to="m0", again=True)
    new = replace(said(2, "y" * 1_500), images=(CAT,))
    line = line_of([again, new], 2_000)
    assert line == stamp([again, new], local_time=NOON, small=False, group=True)
    assert "left out" not in line.text


@given(MESSAGES, st.lists(st.booleans(), min_size=12, max_size=12), st.integers(64, 3_000), st.booleans())
def test_whatever_still_waits_the_line_fits(
    drawn: list[tuple[str, bool, int]], again: list[bool], tokens: int, broke_off: bool
) -> None:
    messages = [
        replace(said(number, text, addressed=addressed), images=(CAT,) * pictures, again=addressed and waits)
        for number, ((text, addressed, pictures), waits) in enumerate(zip(drawn, again, strict=False), 1)
    ]
    line = LineFitter(partial(STAMPED, broke_off=broke_off), (), tokens).line(messages)
    assert estimate(line) <= tokens
    meant = [message for message in messages if message.addressed]
    whole = stamp(meant, local_time=NOON, small=False, group=True, broke_off=broke_off) if meant else line
    if meant and estimate(whole) <= tokens:
        assert _still_wait(line) == _still_wait(whole)


def _still_wait(line: UserLine) -> list[str]:
    return re.findall(r"^(#\d+)\b.*still waits", line.text, re.MULTILINE)
