"""What operators are told of all talks, people and memories."""

import pytest

from pixi.core.llm import AssistantLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Author, Message
from pixi.core.spending import UsageEntry
from pixi.store.kept import Circle, FoundWords, Talk, TalkFilter, TurnSums
from pixi.store.statements import listing
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import everywhere

ROOM, DIRECT = "discord:1:77:pixi", "discord:1:78:edda"
PAGE = "http:aa:pixi"
MO, ANN = Author("11", "Mo"), Author("12", "Ännchen")
USER = Author("web:shop:7", "Kim")


async def say(
    store: Store,
    address: str,
    text: str,
    at: float,
    *,
    by: Author = MO,
    reply: str = "",
    persona: str = "Pixi",
    cost: float | None = 0.5,
) -> int:
    """Say something, and have it answered; gives the turn, 0 where it waits."""
    message = Message(f"m{at}", address, by, text, at, group=address == ROOM)
    await store.receive(message)
    if not reply:
        return 0
    turn = await begun(store, address, 0, persona, (message.id,), model="quick")
    await store.intend(turn, 0, "send", reply)
    await store.settle(turn, 0, "done")
    lines = (UserLine(text), AssistantLine(f"[SEND: {reply}]"))
    assert await store.end_turn(turn, lines, "stop", 1, Usage(10, 4, 2), cost=cost)
    return turn


async def talk_everywhere(store: Store) -> None:
    await say(store, ROOM, "Where is the Cat?", 100.0, reply="On the roof.")
    await say(store, ROOM, "And the dog?", 300.0, by=ANN, reply="In the CELLAR.", cost=None)
    await say(store, DIRECT, "psst", 200.0, by=ANN, reply="hush", persona="Edda")
    await store.keep_talk(Talk(PAGE, USER.id, "pixi", "one", 250.0, 250.0))
    await say(store, PAGE, "hello", 250.0, by=USER)


@everywhere
async def test_talks_are_listed_with_what_they_came_to(store: Store) -> None:
    await talk_everywhere(store)
    room, page, direct = await store.list_talks(TalkFilter(), 9)
    assert (room.address, room.circle, room.name, room.persona) == (ROOM, Circle(group=True), "", "Pixi")
    assert (room.model, room.people, room.first, room.last) == ("quick", (MO, ANN), 100.0, 300.0)
    assert room.said == "And the dog?"
    assert (room.messages, room.sums) == (2, TurnSums(2, 20, 8, 4, 0.5, 1))
    assert (page.address, page.circle, page.name) == (PAGE, Circle(person=USER.id), "one")
    assert (page.persona, page.model, page.sums.turns) == ("", "", 0)
    assert (direct.address, direct.circle, direct.persona) == (DIRECT, Circle(), "Edda")


@everywhere
async def test_a_page_of_talks_begins_behind_the_last_one(store: Store) -> None:
    await talk_everywhere(store)
    (first,) = await store.list_talks(TalkFilter(), 1)
    rest = await store.list_talks(TalkFilter(), 9, (first.last, first.address))
    assert [each.address for each in rest] == [PAGE, DIRECT]
    await say(store, DIRECT, "psst!", 400.0, by=ANN)
    assert [each.address for each in await store.list_talks(TalkFilter(), 9, (300.0, ROOM))] == [PAGE]


FILTERS = [
    (TalkFilter(prefix="discord:"), [ROOM, DIRECT]),
    (TalkFilter(prefix="http:"), [PAGE]),
    (TalkFilter(place="discord:1:78"), [DIRECT]),
    (TalkFilter(place="discord:1:7"), []),
    (TalkFilter(place="web:shop"), [PAGE]),
    (TalkFilter(place="web:sho"), []),
    (TalkFilter(place=":"), []),
    (TalkFilter(persona="Edda"), [DIRECT]),
    (TalkFilter(person="12"), [ROOM, DIRECT]),
    (TalkFilter(person=USER.id), [PAGE]),
    (TalkFilter(since=200.0, until=260.0), [PAGE, DIRECT]),
    (TalkFilter(person="12", since=200.0, until=260.0), [DIRECT]),
    (TalkFilter(person="12", persona="Pixi"), [ROOM]),
    (TalkFilter(person="' OR 1 --"), []),
]


@everywhere
async def test_a_filter_lets_through_what_fits(store: Store) -> None:
    await talk_everywhere(store)
    for wanted, addresses in FILTERS:
        assert [each.address for each in await store.list_talks(wanted, 9)] == addresses, wanted


@everywhere
async def test_what_was_taken_out_is_no_talk_of_its_own(store: Store) -> None:
    await talk_everywhere(store)
    (turn,) = await store.turns(DIRECT, 1)
    await store.lease(DIRECT)
    branch = await store.rewind(DIRECT, turn.id)
    await say(store, DIRECT, "anew", 500.0, by=ANN)
    assert [each.address for each in await store.list_talks(TalkFilter(), 9)] == [DIRECT, ROOM, PAGE]
    assert (await store.circles([branch, DIRECT])) == {branch: Circle(), DIRECT: Circle()}


@everywhere
async def test_words_are_found_in_what_was_said_and_answered(store: Store) -> None:
    await talk_everywhere(store)
    second, first = reversed([each.id for each in await store.turns(ROOM, 9)])
    assert await store.find_words(ROOM, ["cat", "the"]) == FoundWords(first, MO, "Where is the Cat?", None)
    assert await store.find_words(ROOM, ["cellar"]) == FoundWords(second, None, "In the CELLAR.", None)
    assert await store.find_words(ROOM, ["the"]) == FoundWords(second, ANN, "And the dog?", None)
    assert await store.find_words(ROOM, ["the"], second) == FoundWords(first, MO, "Where is the Cat?", None)
    assert await store.find_words(ROOM, ["the", "cow"]) == FoundWords(None, None, "", None)
    assert await store.find_words(PAGE, ["hell"]) == FoundWords(0, USER, "hello", None)
    assert await store.find_words(PAGE, ["hush"]) == FoundWords(None, None, "", None)


@everywhere
async def test_a_long_talk_is_looked_through_in_portions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_TURNS_AT_ONCE", 2)
    await talk_everywhere(store)
    await say(store, ROOM, "Thanks.", 310.0, reply="Welcome.")
    none = await store.find_words(ROOM, ["cat"])
    assert (none.turn, none.left) == (None, (await store.turns(ROOM, 2))[0].id)
    assert (await store.find_words(ROOM, ["cat"], none.left)).text == "Where is the Cat?"


@everywhere
async def test_everybody_is_listed_of_whom_something_is_kept(store: Store) -> None:
    await talk_everywhere(store)
    await store.spend([UsageEntry(1, "99", messages=1), UsageEntry(1, "", messages=1)])
    told = await store.list_people("", 9)
    assert [person for _, person in told] == [USER.id, "12", "11", "99"]
    assert told[-1] == (0, "99")
    assert await store.list_people("", 9, told[1]) == told[2:]
    assert await store.list_people("", 1) == told[:1]
    assert [person for _, person in await store.list_people("ÄNN", 9)] == ["12"]
    assert [person for _, person in await store.list_people("shop", 9)] == [USER.id]
    assert await store.names_of(["12", "99", "nobody"]) == {"12": "Ännchen", "99": "", "nobody": ""}
    (known,) = await store.people("12")
    assert (known.messages, known.files) == (2, 0)
    await store.forget("12")
    assert [person for _, person in await store.list_people("", 9)] == [USER.id, "11", "99"]


@everywhere
async def test_memories_are_listed_the_latest_first(store: Store) -> None:
    kept = [
        (await store.remember(Memory(0, persona, person, "", ROOM, "one", text, 1.0)))[0]
        for persona, person, text in (
            ("Pixi", "11", "They like CATS."),
            ("Pixi", "12", "They have a dog."),
            ("Edda", "11", "They bake bread."),
        )
    ]
    cats, dog, bread = kept
    assert await store.list_memories("", "", ()) == ((bread, dog, cats), None)
    assert await store.list_memories("11", "", ()) == ((bread, cats), None)
    assert await store.list_memories("11", "Edda", ()) == ((bread,), None)
    assert await store.list_memories("", "", ("they", "cats")) == ((cats,), None)
    assert await store.list_memories("", "", (), bread.id) == ((dog, cats), None)


async def test_many_memories_are_looked_through_in_portions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_FACTS_SHOWN", 2)
    monkeypatch.setattr(listing, "_FACTS_AT_ONCE", 1)
    kept = [
        (await store.remember(Memory(0, "Pixi", str(person), "", ROOM, "one", "likes cats", 1.0)))[0]
        for person in range(3)
    ]
    assert await store.list_memories("", "", ()) == ((kept[2], kept[1]), kept[1].id)
    assert await store.list_memories("", "", (), kept[1].id) == ((kept[0],), None)
    assert await store.list_memories("", "", ("cats",)) == ((kept[2],), kept[2].id)
    assert await store.list_memories("", "", ("dogs",)) == ((), kept[2].id)


@everywhere
async def test_turns_are_added_up_by_persona(store: Store) -> None:
    await talk_everywhere(store)
    began = [each.began for address in (ROOM, DIRECT) for each in await store.turns(address, 9)]
    told = await store.usage_by_persona(min(began), max(began) + 1)
    assert told == {"Edda": TurnSums(1, 10, 4, 2, 0.5, 0), "Pixi": TurnSums(2, 20, 8, 4, 0.5, 1)}
    assert await store.usage_by_persona(0.0, min(began)) == {}


@everywhere
async def test_what_a_person_used_is_added_up_over_days(store: Store) -> None:
    await store.spend([UsageEntry(day, "11", messages=day) for day in (1, 2, 3)])
    assert (await store.used(3, "person", "11")).messages == 3
    assert (await store.used(3, "person", "11", since=2)).messages == 5
