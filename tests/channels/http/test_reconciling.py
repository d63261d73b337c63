"""Which talk a program's history goes on."""

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from pixi.channels.http import reconciliation
from pixi.channels.http.completion_requests import read_request
from pixi.channels.http.reconciliation import (
    ClientLine,
    Continuation,
    KeptTalk,
    KeptTurn,
    reconcile,
    reconcile_named,
)
from pixi.channels.http.requests import words_in


def lines(*texts: str) -> tuple[ClientLine, ...]:
    """A person's words and answers in turn."""
    return tuple(ClientLine("assistant" if n % 2 else "user", text) for n, text in enumerate(texts))


def talk(name: str, *texts: str, whole: bool = True) -> KeptTalk:
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return KeptTalk(name, tuple(KeptTurn(n, a, b or "…") for n, (a, b) in enumerate(pairs, 1)), whole)


TEA = talk("tea", "hi", "Hello!", "tea?", "Yes.\n\nWith milk.", "now?", "")
RAIN = talk("rain", "rain?", "Yes.")
GREETING = ClientLine("assistant", "*She looks up.*")
OTHER = lines("who are you", "A model.")


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ((), Continuation()),
        ((GREETING,), Continuation()),
        (lines("hi", "Hello!", "tea?", "Yes. With milk.", "now?", "…"), Continuation("tea")),
        (lines(" hi ", "Hello!", "tea?", "Yes.\nWith  milk.", "now?", ""), Continuation("tea")),
        ((GREETING, *lines("rain?", "Yes.")), Continuation("rain")),
        (lines("hi", "Hello!", "tea?", "Yes. With", "now?", "…"), Continuation("tea")),
        (lines("hi", "Hello!", "tea?", "Yes. With milk.", "now?"), Continuation("tea")),
        (lines("tea?", "Yes. With milk.", "now?", "…"), Continuation("tea")),
        (lines("hi", "Hello!"), Continuation("tea", 2)),
        (lines("hi", "Hello!", "tea?", "Yes. With milk."), Continuation("tea", 3)),
        (lines("hi"), Continuation("tea", 2)),
        (lines("hi", ""), Continuation(history=lines("hi", ""))),
        (OTHER, Continuation(history=OTHER)),
        (lines("hi", "Goodbye!"), Continuation(history=lines("hi", "Goodbye!"))),
        (lines("hi", "Hello!", "no", "Well."), Continuation(history=lines("hi", "Hello!", "no", "Well."))),
    ],
)
def test_a_history_is_found(told: tuple[ClientLine, ...], found: Continuation) -> None:
    assert reconcile(told, [TEA, RAIN]) == found


def test_the_latest_of_two_same_talks_is_taken() -> None:
    assert reconcile(lines("rain?", "Yes."), [talk("new", "rain?", "Yes."), RAIN]) == Continuation("new")


def test_an_equal_talk_comes_before_one_that_is_longer() -> None:
    longer = talk("longer", "rain?", "Yes.", "much?", "No.")
    assert reconcile(lines("rain?", "Yes."), [longer, RAIN]) == Continuation("rain")


def test_a_talk_without_its_begin_is_compared_by_its_end_alone() -> None:
    cut = talk("cut", "hi", "Hello!", "tea?", "Yes.", whole=False)
    assert reconcile(lines("hi", "Hello!"), [cut]) == Continuation(history=lines("hi", "Hello!"))
    assert reconcile(lines("tea?", "Yes."), [cut]) == Continuation("cut")


@pytest.mark.parametrize(
    ("told", "complete", "found"),
    [
        ((), False, Continuation("tea")),
        ((), True, Continuation("tea", 1)),
        (lines("hi", "Hello!"), True, Continuation("tea", 2)),
        (lines("hi", ""), True, Continuation("tea", 2)),
        (OTHER, True, Continuation("tea")),
        (lines("hi", "Hello!", "tea?", "Yes. With milk.", "now?", "…"), True, Continuation("tea")),
    ],
)
def test_a_named_talk_is_never_left(
    told: tuple[ClientLine, ...], complete: bool, found: Continuation
) -> None:
    assert reconcile_named(told, [TEA], complete=complete) == found


def test_a_program_that_dropped_all_but_the_last_answer_goes_on_with_the_talk_that_it_names() -> None:
    rain = talk("rain", "rain?", "Yes.", "much?", "A little.")
    last = ClientLine("assistant", "A  little.")
    assert reconcile_named((last,), [rain], complete=True) == Continuation("rain")
    assert reconcile_named((GREETING,), [rain], complete=True) == Continuation("rain", 1)
    assert reconcile((last,), [rain]) == Continuation(), "without a name it could be any talk's"


def test_a_program_may_keep_a_shorter_answer_and_drop_the_words_with_which_it_asked_for_it() -> None:
    asked = ("hi", "Hello!", "tea?", "Yes, with milk.", "More Concise", "Yes.", "now?", "Soon.")
    tea = talk("tea", *asked)
    theirs = lines("hi", "Hello!", "tea?", "Yes.", "now?", "Soon.")
    assert reconcile(theirs, [tea]) == reconcile_named(theirs, [tea], complete=True) == Continuation("tea")
    assert (
        reconcile(theirs[:4], [tea])
        == reconcile_named(theirs[:4], [tea], complete=True)
        == Continuation("tea", 4)
    )
    assert reconcile(theirs[:2], [tea]) == Continuation("tea", 2)
    twice = talk("tea", *asked[:6], "More Concise", "Y.", *asked[6:])
    assert reconcile(lines("hi", "Hello!", "tea?", "Y."), [twice]) == Continuation("tea", 5)
    other = lines("hi", "Hello!", "tea?", "No.")
    assert reconcile(other, [tea]) == Continuation(history=other)


def test_a_turn_that_is_being_written_counts_with_what_it_has_said() -> None:
    written = KeptTalk("tea", (*TEA.turns[:1], KeptTurn(2, "tea?", "Yes. With")))
    for stopped in ("Yes. W", "Yes.", ""):
        assert reconcile(lines("hi", "Hello!", "tea?", stopped), [written]) == Continuation("tea")
    assert reconcile(lines("hi", "Hello!"), [written]) == Continuation("tea", 2), "the words were edited"
    waiting = KeptTalk("tea", (*written.turns, KeptTurn(0, "well?", "…", stays=True)))
    assert reconcile(lines("hi", "Hello!", "tea?", "Yes.", "well?"), [waiting]) == Continuation("tea")
    for told in (lines("hi", "Hello!"), lines("hi", "Hello!", "tea?", "Yes.")):
        assert reconcile(told, [waiting]) == Continuation(history=told), (
            "nothing is taken from one who waits for it"
        )
        assert reconcile_named(told, [waiting], complete=True) == Continuation("tea")


def test_what_a_program_told_stands_before_the_first_turn() -> None:
    told = (GREETING, *lines("who are you", "A model.", "so?"))
    other = KeptTalk("other", (KeptTurn(7, "hi", "Hello!", told), KeptTurn(8, "tea?", "Yes.")))
    theirs = lines("who are you", "A model.", "so? hi", "Hello!", "tea?", "Yes.")
    assert reconcile(theirs, [other]) == Continuation("other")
    assert reconcile(theirs[:4], [other]) == Continuation("other", 8)
    assert reconcile(theirs[:2], [other]) == Continuation(history=theirs[:2]), (
        "many talks may begin like that"
    )
    assert reconcile_named(theirs[:2], [other], complete=True) == Continuation("other", 7, history=theirs[:2])
    assert reconcile_named(theirs[:2], [other], complete=False) == Continuation("other")
    assert reconcile_named(theirs[:1], [other], complete=True) == Continuation("other", 7, history=theirs[:1])
    assert reconcile_named((), [other], complete=True) == Continuation("other", 7)


def test_the_begin_of_a_very_long_line_is_enough() -> None:
    kept = KeptTalk("long", (KeptTurn(1, "hi", "Hello!", lines("x " * 3_000, "A model.")),))
    assert reconcile(lines("x " * 2_500, "A model.", "hi", "Hello!"), [kept]) == Continuation("long")


def test_a_person_who_goes_back_to_an_earlier_answer_has_that_put_back() -> None:
    stands = talk("tea", "tea?", "Yes. With milk.", "now?", "Soon.")
    before = KeptTalk("tea", (KeptTurn(7, "tea?", "Yes."), KeptTurn(8, "why?", "So.")), branch="tea~0.7")
    ways = [stands, before]
    assert reconcile(lines("tea?", "Yes.", "why?", "So."), ways) == Continuation("tea", branch="tea~0.7")
    short = [stands, KeptTalk("tea", before.turns[:1], branch="tea~0.7")]
    assert reconcile(lines("tea?", "Yes."), short) == Continuation("tea", branch="tea~0.7"), (
        "it is that, word for word"
    )
    assert reconcile_named(lines("tea?", "Yes."), short, complete=True) == Continuation(
        "tea", branch="tea~0.7"
    )
    other = [talk("tea", "tea?", "No."), before]
    assert reconcile(lines("tea?", "Yes."), other) == Continuation("tea", 8, "tea~0.7")


def test_a_talk_as_it_stands_comes_before_what_was_set_aside_in_a_later_one() -> None:
    later = [talk("later", "hi", "Hi!!", "tea?", "Yes."), replace(talk("later", "hi", "Hello!"), branch="b")]
    assert reconcile(lines("hi", "Hello!"), [*later, talk("earlier", "hi", "Hello!")]) == Continuation(
        "earlier"
    )
    cut = [later[0], replace(talk("later", "hi", "Hello!", "rain?", "No."), branch="b")]
    assert reconcile(lines("hi", "Hello!"), [*cut, TEA]) == Continuation("tea", 2)


def test_a_turn_that_stands_in_many_branches_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()

    def counted(text: str) -> str:
        read[text] += 1
        return text

    monkeypatch.setattr(reconciliation, "words_of", counted)
    tea = talk("tea", "hi", "Hello!", "tea?", "Yes.")
    reconcile(OTHER, [tea, *(replace(tea, branch=f"b{n}") for n in range(5))])
    assert read["tea?"] == 1


PARTS = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}]
APART = [{"type": "text", "text": text} for text in ("first", "", "second")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        (None, ""),
        (PARTS, "a\nb"),
        (APART, "first\n\nsecond"),
        (["a", {"type": "text"}, {"type": "text", "text": 3}], ""),
    ],
)
def test_content_is_a_text_or_parts(content: object, text: str) -> None:
    messages = [{"role": "assistant", "content": content}, {"role": "user", "content": "hi"}]
    body = json.dumps({"model": "pixi", "messages": messages}).encode()
    assert read_request(body).history[0].text == text


@pytest.mark.parametrize(
    ("parts", "words"), [(PARTS, "a\nb"), (APART, "first\nsecond"), ("hello", ""), (None, ""), (7, "")]
)
def test_parts_of_a_page_are_a_list(parts: object, words: str) -> None:
    assert words_in(parts) == words
