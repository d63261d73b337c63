"""What holds for the command language on every input, however odd and however cut."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.core.language import (
    BUILT_IN,
    CommandEnded,
    CommandStarted,
    CommandStream,
    CommandText,
    Event,
    Prose,
    Thought,
)
from pixi.core.reading import commands_in, written
from tests.conformance.reading import check_shape, merged, pieces_at, read
from tests.properties.fragments import CANARY, FRAGMENTS, PEOPLE, may_hide_a_canary

any_character = st.characters(codec=None, exclude_categories=())
replies = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.text(any_character, max_size=6)), max_size=24
).map("".join)
calm_fragments = [fragment for fragment in FRAGMENTS if not may_hide_a_canary(fragment)]
calm_replies = (
    st.lists(
        st.one_of(st.sampled_from(calm_fragments), st.text("[]`:=* \\\n\u200b/SENDx", max_size=6)),
        max_size=24,
    )
    .map("".join)
    .filter(lambda reply: not may_hide_a_canary(reply))
)
cuts = st.lists(st.floats(0, 1), max_size=10)


def _cut(reply: str, at: list[float]) -> list[str]:
    return pieces_at(reply, [round(share * len(reply)) for share in at])


@given(replies, cuts)
def test_cutting_changes_nothing(reply: str, at: list[float]) -> None:
    whole = read([reply], people=PEOPLE)
    cut = read(_cut(reply, at), people=PEOPLE)
    assert merged(cut.events) == merged(whole.events)
    assert cut.cut_short == whole.cut_short


@given(replies)
def test_one_character_at_a_time_changes_nothing(reply: str) -> None:
    assert merged(read(reply, people=PEOPLE).events) == merged(read([reply], people=PEOPLE).events)


@pytest.mark.parametrize(
    ("before", "unit", "bound", "behind"),
    [
        ("", "a", 65_536, "</think>[SEND: b]"),
        pytest.param("", "\n", 65_536, "```\n[SEND: b]\n```\nc", marks=pytest.mark.nightly),
        ("[SEND]", "a", 4_096, "[/SEND]"),
        ("[NOTE: a]b\n", " ", 64, "[SEND: b]"),
        ("[NOTE: a]b", "*", 64, "[SEND: b]"),
        ("[NOTE: a\n", " ", 32, "[SEND: b]"),
        ("[", " ", 24, "SEND: b]"),
        ("[SEND", " ", 24, ": b]"),
        ("[SEND #", " ", 4, "3: b]"),
        ("[SEND #", "3", 9, ": b]"),
        ("[SEND #3", " ", 24, ": b]"),
        ("[" + " " * 24 + "SEND" + " " * 24 + "#    3", " ", 24, ": b]"),
        ("<|", "a", 32, "|>[SEND: b]"),
        ("<tool-call tool=", "a", 194, ">{}</tool-call>"),
    ],
)
def test_cutting_changes_nothing_where_patience_ends(before: str, unit: str, bound: int, behind: str) -> None:
    for longer in (-1, 0, 1, 2):
        reply = before + unit * (bound + longer) + behind
        whole = merged(read([reply]).events)
        assert merged(read(reply).events) == whole, longer
        assert merged(read([reply[:-1], reply[-1]]).events) == whole, longer


@given(replies, cuts)
def test_commands_start_end_and_add_up(reply: str, at: list[float]) -> None:
    check_shape(read(_cut(reply, at), people=PEOPLE).events)


@given(st.text(any_character, max_size=200))
def test_arbitrary_text_is_read(reply: str) -> None:
    check_shape(read([reply]).events)


@given(calm_replies)
def test_nothing_broken_swallows_a_message_on_its_own_line(reply: str) -> None:
    events = read([reply + CANARY]).events
    assert events[-1:] == (CommandEnded("send", "canary", True),)


ODD_NAMES = (
    "straße",
    "ışık",
    "İPUCU",
    "ſt",
    "ŉ",
    "_x",
    "x_",
    "x",
    "x-y",
    "x y",
    "a:b",
    "[x]",
    "",
    " ",
    "发送",
)
odd_names = st.lists(st.sampled_from(ODD_NAMES), max_size=5)
odd_replies = st.lists(
    st.one_of(
        st.sampled_from(ODD_NAMES).flatmap(
            lambda name: st.sampled_from(
                (f"[{name}: a]", f"[{name.upper()}: a]", f"[/{name}]", f"\n[{name} b]")
            )
        ),
        st.sampled_from(FRAGMENTS),
    ),
    max_size=8,
).map("".join)


@given(odd_replies, odd_names, cuts)
def test_cutting_changes_nothing_whatever_the_names(reply: str, names: list[str], at: list[float]) -> None:
    whole = merged(read([reply], names).events)
    assert merged(read(_cut(reply, at), names).events) == whole


@given(replies)
def test_only_registered_names_come_out(reply: str) -> None:
    names = {event.name for event in read([reply]).events if isinstance(event, CommandStarted)}
    assert names <= {"send", "note", "react"}
    assert not any(isinstance(event, CommandEnded) for event in read([reply], names=[]).events)


@given(replies)
def test_events_hold_no_more_than_was_written(reply: str) -> None:
    events = merged(read(reply).events)
    spoken = sum(len(event.text) for event in events if isinstance(event, Prose | CommandText | Thought))
    assert spoken <= len(reply)
    assert len(events) <= 3 * len(reply)


@given(
    replies,
    st.sampled_from(("[{}: ", "[{} ", "【{}：", "[**{}:** ", "[{} - ", "[{}]")),
    st.integers(1, 999_999_999),
)
def test_a_number_changes_the_target_and_nothing_else(rest: str, form: str, number: int) -> None:
    assume(form != "[{} " or rest.lstrip()[:1] not in ("", "#", "＃"))
    plain = merged(read([form.format("SEND") + rest], people=PEOPLE).events)
    assume(plain and isinstance(plain[0], CommandStarted))
    first = next((at for at, event in enumerate(plain) if isinstance(event, CommandEnded)), -1)
    expected = [
        replace(event, target=number)
        if isinstance(event, CommandStarted | CommandEnded) and at <= first
        else event
        for at, event in enumerate(plain)
    ]
    assert merged(read([form.format(f"SEND #{number}") + rest], people=PEOPLE).events) == expected


@given(replies)
def test_the_clean_form_of_a_command_names_the_same_message(reply: str) -> None:
    for event in read([reply]).events:
        if isinstance(event, CommandEnded):
            (again,) = commands_in(written(event.name, event.argument, BUILT_IN, event.target), BUILT_IN)
            assert (again.name, again.target) == (event.name, event.target)


# ------------------------------------------------------------------ what is held back

TAIL = 64
"""Characters that may wait for what comes next: the longest tag, name or mark, with room to spare."""

plain_words = st.text(
    st.sampled_from("abcdefg hijklm nopqrstuvwxyz,.!?'()/+%&$ éñß你好سلام🥞\n"), max_size=400
)
pieces_of_plain_words = st.lists(plain_words, max_size=8)


def _said(events: list[Event], kind: type[Prose] | type[CommandText] | type[Thought]) -> int:
    return sum(len(event.text) for event in events if isinstance(event, kind))


@given(pieces_of_plain_words)
@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ("[NOTE: x] ", Prose),
        ("[NOTE: x] a <3 b < c [1] d :] ", Prose),
        ("[NOTE: x] [Scene: ", Prose),
        ("[NOTE: x] <thinker ", Prose),
        ("[SEND: ", CommandText),
        ("[SEND: see [1] ", CommandText),
        ("[SEND: see [", CommandText),
        ("[SEND: <think> ", CommandText),
        ("[SEND ", CommandText),
        ("[SEND #3: ", CommandText),
        ("[SEND #3 ", CommandText),
        ("[SEND #", CommandText),
        ("【SEND：", CommandText),
        ("<think>", Thought),
        ("<think>[SEND: ", Thought),
    ],
)
def test_only_a_bounded_tail_is_held_back(
    before: str, kind: type[Prose] | type[CommandText] | type[Thought], pieces: list[str]
) -> None:
    stream = CommandStream(people=PEOPLE)
    events = stream.feed(before)
    fed = 0
    for piece in pieces:
        events += stream.feed(piece)
        fed += len(piece)
        assert _said(events, kind) >= fed - TAIL - _blank_edges(pieces)


def _blank_edges(pieces: list[str]) -> int:
    """The blanks at the edges of an argument are no part of it, and may be left out."""
    text = "".join(pieces)
    return (len(text) - len(text.lstrip())) + max((len(p) - len(p.rstrip()) for p in pieces), default=0)


@pytest.mark.parametrize(
    "reply",
    [
        "[SEND: hi]",
        "[send:hi]",
        "【SEND：你好】",
        "[SEND hello]",
        "[SNED: hi]",
        "[REACT #3: 😂]",
        "[reply # 3 : hi]",
        "[REACT #3 😂]",
        "**[SEND: hi]",
        "[**SEND**: hi]",
        "[SEND: see [1] and [2]]",
        "[SEND: use `]` ok]",
        "[SEND: ```\n]\n```]",
        "[SEND: a \\] b]",
        "[SEND: sad :[ haha]",
        "[SEND: happy :] haha]",
        "[NOTE: i will use [SEND: hi] to greet]",
        "[NOTE: a\n[SEND: b]",
        "Sure! [SEND: hi]",
        "<think>a</think>[SEND: hi]",
        "a <3 b [1] :] [SEND: hi]",
    ],
)
def test_a_command_is_performed_the_moment_its_bracket_arrives(reply: str) -> None:
    stream = CommandStream()
    before = stream.feed(reply[:-1])
    after = stream.feed("]" if reply.endswith("]") else reply[-1])
    assert any(isinstance(event, CommandEnded) for event in after), (before, after)


def test_a_command_starts_when_its_name_is_certain() -> None:
    stream = CommandStream()
    assert CommandStarted("send") in stream.feed("[SEND: h")


def test_a_happy_emoticon_waits_for_the_end_of_its_line_and_no_longer() -> None:
    stream = CommandStream()
    stream.feed("[SEND: happy :] and so on")
    assert CommandEnded("send", "happy :", True) in stream.feed("\n")


def test_a_closed_tool_call_comes_at_once() -> None:
    stream = CommandStream()
    assert len(stream.feed('<tool-call tool="a">{"q": "</tool-call>"}</tool-call>')) == 1
