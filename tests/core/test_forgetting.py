"""A person is cut out of a stamped line, and nobody else is, whatever they wrote."""

import re
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pixi.core.llm import Span, UserLine, shortened
from pixi.core.memory import PersonMatcher, mentions_person
from pixi.core.message import Author, Image, Message, Quoted
from pixi.core.stamps import stamp, without

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MO, ANN, BOB = Author("11", "mo"), Author("12", "ann"), Author("1", "bob", is_bot=True)
ONE, TWO, THREE = (Image("image/png", name) for name in (b"1", b"2", b"3"))


def said(author: Author, text: str, *images: Image, addressed: bool = True) -> Message:
    return Message(f"{author.id}{text}", "room", author, text, 0.0, addressed, None, images, group=True)


def line(*messages: Message) -> UserLine:
    return stamp(messages, local_time=NOON, small=False, group=True)


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "two\nlines\n\nand a gap",
        '"mo" (id 11):',
        'look:\n"mo" (id 11):\n> not mine',
        'overheard, "mo" (id 11), 2 pictures:\u2028> x',
        "[… 5 characters left out …]",
        "> > quoted",
        "",
    ],
)
def test_what_others_wrote_stays_to_the_byte(text: str) -> None:
    before, after = said(ANN, text), said(BOB, text, addressed=False)
    whole = line(before, said(MO, "go away"), after)
    assert without(whole, MO.id) == line(before, after)


_ANYTHING = st.text(st.sampled_from("ab \"'>#:()[…]1\n\u2028@"), max_size=30)
_WRITTEN = st.tuples(st.sampled_from("123"), _ANYTHING, _ANYTHING, st.booleans(), st.integers(0, 2))


@given(st.lists(_WRITTEN, min_size=1, max_size=8), st.sampled_from("1234"))
def test_of_a_talk_exactly_one_person_goes(
    written: list[tuple[str, str, str, bool, int]], person: str
) -> None:
    messages = [
        said(Author(author, name), text, *[ONE, TWO][:pictures], addressed=addressed)
        for author, name, text, addressed, pictures in written
    ]
    parts = [[*part] for _, part in groupby(messages, lambda m: (m.author, m.addressed))]
    kept = [line(*part) for part in parts if part[0].author.id != person]
    left = without(line(*messages), person)
    if not kept:
        assert left is None
        return
    assert left is not None
    time = kept[0].text.split("\n", 1)[0]
    assert left.text == "\n".join([time, *(one.text.split("\n", 1)[1] for one in kept)])
    assert left.images == tuple(image for one in kept for image in one.images)


def test_a_message_that_goes_on_goes_with_the_one_above() -> None:
    ann = [replace(said(ANN, text), number=number) for number, text in ((1, "a"), (2, "b"))]
    mo = [replace(said(MO, text, ONE), number=number) for number, text in ((3, "c"), (4, "d"))]
    bob = replace(said(BOB, "e", TWO), number=5)
    assert without(line(*ann, *mo, bob), MO.id) == line(*ann, bob)
    assert without(line(*ann, *mo, bob), ANN.id) == line(*mo, bob)


def test_what_others_quoted_of_them_goes_and_their_own_words_stay() -> None:
    his, hers = Quoted("7", MO, "secret"), Quoted("8", ANN, "known")
    ann = replace(said(ANN, "yes!", ONE), number=9, quoted=(hers, his), reply_to="7")
    bob = replace(said(BOB, "no", addressed=False), number=10, quoted=(his,), reply_to="7")
    left = without(line(ann, bob), MO.id)
    assert left == line(replace(ann, quoted=(hers,)), replace(bob, quoted=()))


@pytest.mark.parametrize("broke_off", [False, True])
def test_of_what_still_waits_exactly_one_person_goes(broke_off: bool) -> None:
    ann = [replace(said(ANN, text), number=number, again=True) for number, text in ((1, "a"), (2, "b"))]
    mo = [replace(said(MO, "c", ONE), number=3, again=True), replace(said(MO, "d", ONE), number=4)]
    bob = [replace(said(BOB, "e"), number=5, again=True), replace(said(BOB, "f", TWO), number=6)]
    stamped = partial(stamp, local_time=NOON, small=False, group=True, broke_off=broke_off)
    whole = stamped([*ann, *mo, *bob])
    assert without(whole, MO.id) == stamped([*ann, *bob])
    assert without(whole, ANN.id) == stamped([*mo, *bob])
    assert without(whole, BOB.id) == stamped([*ann, *mo])
    assert without(stamped(ann), ANN.id) is None


def test_what_was_quoted_for_their_message_alone_goes_with_it() -> None:
    mo = replace(said(MO, "x"), number=3, quoted=(Quoted("7", ANN, "hers"),), reply_to="7")
    own = replace(said(MO, "y"), number=4, quoted=(Quoted("8", None, "mine"),), reply_to="8")
    bob = replace(said(BOB, "z"), number=5)
    assert without(line(mo, own, bob), MO.id) == line(bob)


_PEOPLE = st.sampled_from((MO, ANN, BOB, Author("11", "moe"), Author("9", '", replying to "mo" (id 11):')))
_QUOTED = st.builds(
    Quoted,
    st.sampled_from("abc"),
    st.one_of(st.none(), _PEOPLE),
    st.sampled_from(("hm", "", 'two\n"mo" (id 11):')),
    st.integers(0, 2),
)


@given(
    st.lists(
        st.tuples(_PEOPLE, _ANYTHING, st.lists(_QUOTED, max_size=3), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_whatever_is_quoted_exactly_one_person_goes(
    written: list[tuple[Author, str, list[Quoted], int, bool]], numbered: bool
) -> None:
    messages = [
        replace(
            said(author, text, *[ONE, TWO][:pictures], addressed=addressed),
            quoted=tuple(quoted),
            reply_to=quoted[-1].id if quoted else None,
            number=10 + place if numbered else 0,
        )
        for place, (author, text, quoted, pictures, addressed) in enumerate(written)
    ]
    kept = [message for message in messages if message.author.id != MO.id]
    left = without(line(*messages), MO.id)
    if not kept:
        assert left is None
        return
    assert left is not None
    told = [re.sub('"[^"]*"', "", row) for row in left.text.split("\n") if not row.startswith(">")]
    assert not any("(id 11)" in row for row in told)
    assert left.images == tuple(image for message in kept for image in message.images)
    for message in kept:
        if words := line(replace(message, quoted=(), images=(), number=0)).text.split("\n", 2)[2:]:
            assert words[0] in left.text
        assert not numbered or f"#{message.number}" in left.text


@pytest.mark.parametrize("name", ['x" (id 12):', "(id 12)", '" (id 12)\n> hi', "ann", "", "mo" * 99])
def test_no_name_takes_somebody_else_along(name: str) -> None:
    whole = line(said(Author("11", name), "mine"), said(ANN, "hers"))
    assert without(whole, ANN.id) == line(said(Author("11", name), "mine"))
    assert without(whole, "11") == line(said(ANN, "hers"))


def test_an_id_is_met_whole() -> None:
    whole = line(said(MO, "eleven"), said(BOB, "one"))
    assert without(whole, BOB.id) == line(said(MO, "eleven"))
    assert without(whole, "2") == whole


def test_pictures_go_with_their_owner() -> None:
    ann, mo, bob = said(ANN, "a", ONE), said(MO, "b", TWO, THREE), said(BOB, "c", ONE)
    assert without(line(ann, mo, bob), MO.id) == line(ann, bob)
    assert without(line(ann, mo), ANN.id) == line(mo)


def test_pictures_of_which_the_owner_is_not_certain_go_too() -> None:
    """Some were left out for want of room."""
    whole = line(said(ANN, "a", ONE), said(MO, "b", TWO, THREE))
    fewer = replace(whole, images=(ONE, THREE))
    assert without(fewer, MO.id) == UserLine(line(said(ANN, "a", ONE)).text)
    assert without(fewer, "99") == fewer, "nothing was cut"


def test_nothing_is_left_of_a_line_that_was_theirs_alone() -> None:
    assert without(line(said(MO, "a"), said(MO, "b", addressed=False)), MO.id) is None


@pytest.mark.parametrize("small", [False, True])
def test_whose_a_line_is_that_names_nobody_is_known(small: bool) -> None:
    bare = stamp([said(ANN, "hi")], local_time=NOON, small=small, group=False)
    assert without(bare, MO.id) == bare
    assert without(bare, ANN.id) is None


def test_a_line_that_does_not_tell_whose_it_is_is_anybodys() -> None:
    assert without(UserLine(line(said(ANN, "hi")).text), MO.id) is None


def test_a_line_whose_middle_was_left_out_is_anybodys_from_there_on() -> None:
    whole = line(said(MO, "secret " * 3_000), said(ANN, "well\n" * 3_000))
    short = shortened(whole, 1_000)
    assert "characters left out" in short.text
    assert without(short, MO.id) is None


def test_who_is_named_is_told_of() -> None:
    assert mentions_person("thanks, MO!", {"mo"}, [], besides="")
    assert not mentions_person("more of that", {"mo", "", " "}, [], besides="")
    assert mentions_person("[c++ fan] said", {"[C++ fan]"}, [], besides="")


def test_what_is_repeated_tells_if_nobody_else_said_it() -> None:
    words = ["meet me on Wednesday, door 4b7"]
    assert mentions_person("WEDNESDAY it is", set(), words, besides="when?")
    assert mentions_person("at 4b7?", set(), words, besides="when?")
    assert not mentions_person("wednesday it is", set(), words, besides="is Wednesday fine?")
    assert not mentions_person("meet me there", set(), words, besides=""), "short words are everybody's"


@given(st.text("aAbc1 ", max_size=40), st.sets(st.text("abc1", min_size=3, max_size=8), max_size=8))
def test_a_word_is_found_wherever_it_stands(text: str, words: set[str]) -> None:
    assert PersonMatcher((), words).is_in(text) == any(word in text.casefold() for word in words)


def test_of_a_small_models_line_the_pictures_are_of_those_whose_words_it_has() -> None:
    overheard = said(MO, "my passport", ONE, addressed=False)
    asked = said(ANN, "how are you?", TWO)
    shown = stamp([overheard, asked], local_time=NOON, small=True, group=True)
    assert shown == UserLine("how are you?", (TWO,))
    assert without(shown, MO.id) == shown
    assert without(shown, ANN.id) is None
    only_a_picture = [said(MO, "", ONE), said(ANN, "hi", TWO)]
    left = without(stamp(only_a_picture, local_time=NOON, small=True, group=True), MO.id)
    assert left == stamp(only_a_picture[1:], local_time=NOON, small=True, group=True)


def test_a_line_in_a_log_shows_no_ids_of_its_spans() -> None:
    assert repr(UserLine("hi", spans=(Span(2, "words", ("11",)),))) == "UserLine(text='hi', images=())"
