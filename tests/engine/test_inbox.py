"""The inbox: which messages a turn takes, and where those go that it gives back."""

from msgspec.structs import replace

from pixi.core.message import Author, Message
from pixi.engine.inbox import Inbox
from pixi.testing import RecordingChannel

_CHANNEL = RecordingChannel()


def inbox_of(text: str) -> Inbox:
    """An inbox whose messages are told by letters: a capital is meant for the persona."""
    inbox = Inbox()
    for number, letter in enumerate(text, 1):
        message = _CHANNEL.message(letter, id=letter, addressed=letter.isupper(), author=letter.lower())
        inbox.hear(replace(message, number=number), arrived=float(number))
    return inbox


def told(inbox: Inbox) -> str:
    return "".join(message.id for message in inbox.messages)


def test_a_turn_takes_the_oldest_and_what_was_overheard_until_the_next() -> None:
    inbox = inbox_of("aBcDeFg")
    taken = inbox.take(2)
    assert told(taken) == "aBcDe"
    assert told(inbox) == "Fg"
    assert taken.arrivals == {"a": 1.0, "B": 2.0, "c": 3.0, "D": 4.0, "e": 5.0}
    assert inbox.arrivals == {"F": 6.0, "g": 7.0}
    assert told(inbox.take(2)) == "Fg"
    assert not inbox.wants_answer


def test_where_nothing_may_be_taken_what_was_overheard_before_comes_along() -> None:
    inbox = inbox_of("aBc")
    assert told(inbox.take(0)) == "a"
    assert told(inbox) == "Bc"


def test_what_is_given_back_goes_to_its_old_place() -> None:
    inbox = inbox_of("ABCDE")
    first = inbox.take(2)
    second = inbox.take(2)
    inbox.add(second)
    inbox.add(first)
    assert told(inbox) == "ABCDE"
    assert inbox.arrivals == {letter: float(number) for number, letter in enumerate("ABCDE", 1)}


def test_those_who_are_deferred_stay_and_count_for_nothing() -> None:
    inbox = inbox_of("ABCD")
    turn = inbox.take(3)
    inbox.defer(turn, frozenset({"author:b"}))
    assert told(turn) == "AC"
    assert told(inbox) == "BD"
    assert told(inbox.take(1)) == "D"
    assert not inbox.wants_answer
    inbox.deferred = frozenset()
    assert inbox.wants_answer


def test_overheard_messages_that_are_too_many_are_answered_along() -> None:
    inbox = inbox_of("abcDe")
    inbox.pass_over(2)
    assert told(inbox) == "cDe"
    assert inbox.take(1).ids == ("a", "b", "c", "D", "e")
    assert inbox.ids == ()


def test_messages_are_revised_removed_and_blanked() -> None:
    inbox = inbox_of("ABC")
    assert inbox.revise("A", "new")
    assert not inbox.revise("A", "new")
    assert not inbox.revise("X", "new")
    inbox.remove("B", "X")
    inbox.blank("C")
    assert [message.text for message in inbox.messages] == ["new", "(this message was deleted)"]
    found = inbox.find("C")
    assert isinstance(found, Message)
    assert found.author == Author("author:c", "c")
    assert inbox.answered.id == "C"
