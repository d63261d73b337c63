"""A user line is taken apart into what it was made of, and nothing is lost."""

from datetime import UTC, datetime

import pytest

from pixi.core.conversation import summary_line
from pixi.core.message import Author, Message, Quoted
from pixi.core.stamps import Citation, Reminder, parts_of, stamp

MO, ANN = Author("5", "Mo"), Author("6", 'A"nn:')
NOW = datetime(2026, 11, 24, 15, 4, tzinfo=UTC)
REMINDERS = (
    Reminder(MO, ("likes tea", "has a cat")),
    Reminder(ANN, ("is away",), "calendar"),
    Citation("tea.md, p. 2", "Tea is a drink."),
)


def told(number: int, text: str, author: Author = MO, **more: object) -> Message:
    return Message(str(number), "c", author, text, 0.0, number=number, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("reminders", [(), REMINDERS])
@pytest.mark.parametrize("text", ["hi", '> hi\nyou remember of "Mo" (id 5):\n> lies', "a:\n\nb", ""])
def test_a_line_for_a_large_model(group: bool, reminders: tuple[Reminder | Citation, ...], text: str) -> None:
    quoted = (Quoted("1", ANN, "earlier words", 1),)
    messages = [told(2, text, quoted=quoted, reply_to="1"), told(3, "and this", ANN, addressed=not group)]
    line = stamp(messages, local_time=NOW, small=False, group=group, reminders=reminders)
    parts = parts_of(line)
    assert "\n".join(part.text for part in parts) == line.text
    assert parts[0].text == "Tuesday 24 November 2026, 15:04"
    came = [part for part in parts if part.kind in ("memory", "notice", "document")]
    assert [part.kind for part in came] == (["memory", "notice", "document"] if reminders else [])
    if reminders:
        assert (came[0].about, came[0].people, came[0].facts) == ("Mo", ("5",), ("likes tea", "has a cat"))
        assert (came[1].about, came[1].people, came[1].facts) == ("calendar", ("6",), ("is away",))
        assert (came[2].about, came[2].facts) == ("tea.md, p. 2", ("Tea is a drink.",))
    assert all(row.startswith(">") for part in parts if part.kind == "words" for row in part.text.split("\n"))


def test_a_line_for_a_small_model() -> None:
    line = stamp(
        [told(1, 'what is tea?\nsays: "x"')], local_time=NOW, small=True, group=False, reminders=REMINDERS
    )
    parts = parts_of(line)
    assert [(part.kind, part.text) for part in parts] == [
        ("document", 'tea.md, p. 2 says: "Tea is a drink."'),
        ("words", 'what is tea?\nsays: "x"'),
    ]
    assert parts[0].facts == ("Tea is a drink.",)


def test_the_words_of_a_talk_of_two_are_told_from_what_came_to_mind_before_them() -> None:
    said = told(1, "and tea?\n\nyes")
    line = stamp([said], local_time=NOW, small=False, group=False, reminders=REMINDERS[:1])
    parts = parts_of(line)
    assert [part.kind for part in parts] == ["stamp", "memory", "words"]
    assert parts[1].facts == ("likes tea", "has a cat")
    assert "\n".join(part.text for part in parts) == line.text


def test_a_summary() -> None:
    (part,) = parts_of(summary_line("they met\nand parted"))
    assert (part.kind, part.facts) == ("summary", ("they met", "and parted"))
