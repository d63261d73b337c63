"""What is told of a turn from the record: as those saw it who were there."""

import pytest
from msgspec.structs import replace

from pixi.channels.http.replies import acts_of, messages_reacted_to, recorded_events
from pixi.core.events import Pictured, Reacted, Sent, Shown
from pixi.core.llm import AssistantLine, Cited, Usage, sources_note
from pixi.core.message import (
    Author,
    Card,
    Message,
    Picture,
    card_on_record,
    carried_by,
    picture_from_record,
    picture_on_record,
)
from pixi.store.kept import Effect, TurnRecord
from pixi.store.sqlite import MEMORY, SqliteStore

ADDRESS = "http:x:pixi"
CARD = Card("Bowl", "In Venice.", link="https://example.org/", type="spot_card", data={"city": "Venice"})


def record_of(*effects: Effect) -> TurnRecord:
    return TurnRecord(7, ADDRESS, "Pixi", "m", 0.0, "stop", 1, Usage(), None, ("web:local",), (), effects)


def test_acts_have_the_ids_that_they_had_also_behind_one_that_was_refused() -> None:
    record = record_of(
        Effect(7, 1, "send", "a", "refused", command=0),
        Effect(7, 2, "send", "b", "done", command=0),
        Effect(7, 3, "send", "c", "done", command=1),
        Effect(7, 4, "card", card_on_record(CARD), "done"),
    )
    told = [(type(act), getattr(act, "id", "")) for act in acts_of(record, "m1", {})]
    assert told == [(Sent, "7.0.2"), (Sent, "7.1"), (Shown, "7.t4")]


def test_a_card_is_told_whole() -> None:
    record = record_of(Effect(7, 1, "card", card_on_record(CARD), "done"))
    assert acts_of(record, "m1", {}) == [Shown(CARD)]


async def test_a_reaction_is_told_on_the_message_that_it_names() -> None:
    store = await SqliteStore.open(MEMORY)
    await store.receive(Message("m0", ADDRESS, Author("web:local", "you"), "ha", 1.0))
    record = record_of(
        Effect(7, 1, "react", "🥞", "done", command=0),
        Effect(7, 2, "react", "😂", "done", target=1, command=1),
        Effect(7, 3, "react", "👀", "done", target=99, command=2),
    )
    named = await messages_reacted_to(store, record)
    assert acts_of(record, "m1", named) == [
        Reacted("🥞", message="m1"),
        Reacted("😂", message="m0"),
        Reacted("👀", message=""),
    ]
    forms = await recorded_events(store, record, "m1")
    assert [(form["event"], form["turn"], form["seq"]) for form in forms] == [
        ("turn_start", 7, 0),
        ("react", 7, 1),
        ("react", 7, 2),
        ("react", 7, 3),
        ("turn_end", 7, 4),
    ]
    await store.close()


@pytest.mark.parametrize("address", ["", "https://files.example/cat.gif"])
def test_a_picture_is_told_with_its_words_and_where_it_is(address: str) -> None:
    picture = Picture("excited cat", "https://service.example/cat", "Cats of All", address=address)
    record = record_of(
        Effect(7, 1, "picture", picture_on_record(picture, "[GIF: excited cat]"), "done", command=0)
    )
    assert acts_of(record, "m1", {}) == [Pictured(picture)]
    for command in ("a cat", "[GIF: cat]", "[GIF: a\nvery \\] excited cat]", "[OWN]"):
        kept = picture_on_record(picture, command)
        assert acts_of(record_of(Effect(7, 1, "picture", kept, "done", command=0)), "m1", {}) == [
            Pictured(picture)
        ]
        assert picture_from_record(kept)[1] == command


@pytest.mark.parametrize(
    ("kept", "words"), [("{} {} Cats\n[GIF: excited cat]", "excited cat"), ("{} {} Cats\na cat", "a cat")]
)
def test_a_picture_of_an_older_record_has_the_words_of_its_command(kept: str, words: str) -> None:
    link, address = "https://service.example/cat", "https://files.example/cat.gif"
    assert picture_from_record(kept.format(link, address))[0] == Picture(words, link, "Cats", address=address)


async def test_what_a_turn_rested_on_and_that_it_failed_is_told_again() -> None:
    store = await SqliteStore.open(MEMORY)
    note = sources_note([Cited("https://x.example/", "All of it")])
    lines = (AssistantLine(f"[NOTE: {note}][SEND: so]"),)
    record = replace(record_of(Effect(7, 1, "send", "so", "done", command=1)), lines=lines, finish="error")
    told = await recorded_events(store, record, "m1")
    assert [form["event"] for form in told] == ["turn_start", "send", "sources", "error", "turn_end"]
    assert told[2]["sources"] == [{"url": "https://x.example/", "title": "All of it"}]
    await store.close()


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("hi", []),
        ('look\n[picture "a b.png"]', [("a b.png", True)]),
        ('[picture "a.png"; you cannot see pictures here]', [("a.png", True)]),
        (
            'x\n[file "n.txt":]\nsays\n[picture "no.png"]\n[end of "n.txt"]\n[file "b", 1.2 kB, not read]',
            [("n.txt", False), ("b", False)],
        ),
        ('[file "he said "hi".txt":]\nhi\n[end of "he said "hi".txt"]', [('he said "hi".txt', False)]),
    ],
)
def test_what_a_message_carries_is_known_from_its_text(text: str, carried: list[tuple[str, bool]]) -> None:
    assert carried_by(text) == carried
