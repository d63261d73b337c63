"""Facts about people: a few kept of each, replaced by what says the same, gone when they are forgotten."""

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from pixi.core.llm import AssistantLine, Line, Span, ToolCall, ToolLine, Usage, UserLine
from pixi.core.memory import Memory
from pixi.core.message import Audience, Author, Message
from pixi.core.reading import SILENCE
from pixi.store.opening import open_store
from pixi.store.sqlite import SqliteStore, schema
from pixi.store.statements import memories
from pixi.store.statements.memories import MOST
from pixi.store.store import Store
from tests.begun import begun
from tests.store.kinds import in_a_file

MO, ANN = "11", "12"


def fact(
    text: str,
    *,
    person: str = MO,
    persona: str = "Pixi",
    guild: str = "g",
    room: str = "general",
    audience: Audience = "all",
    told: float = 1.0,
) -> Memory:
    return Memory(0, persona, person, guild, room, audience, text, told)


def thing(number: int) -> str:
    """A fact that is like no other."""
    return f"owns {hashlib.sha256(str(number).encode()).hexdigest()[:20]}"


async def texts(store: Store, person: str = MO, persona: str = "Pixi") -> list[str]:
    return [memory.text for memory in await store.memories(person, persona)]


async def test_a_fact_is_kept_as_it_was_told(store: Store, url: str) -> None:
    kept, before = await store.remember(fact("likes tea 🍵 \u200c", told=5.5))
    assert before == ()
    assert kept.id > 0
    assert await store.memories(MO, "Pixi") == (kept,)
    await store.close()
    again = await open_store(url)
    assert await again.memories(MO, "Pixi") == (kept,)
    await again.close()


async def test_each_persona_remembers_for_itself_and_each_person_apart(store: Store) -> None:
    await store.remember(fact("likes tea"))
    await store.remember(fact("likes rum", persona="Captain"))
    await store.remember(fact("likes milk", person=ANN))
    assert await texts(store) == ["likes tea"]
    assert await texts(store, persona="Captain") == ["likes rum"]
    assert await texts(store, ANN) == ["likes milk"]


async def test_what_says_the_same_takes_the_place_of_the_older(store: Store) -> None:
    old, _ = await store.remember(fact("is allergic to peanuts"))
    await store.remember(fact("likes tea"))
    new, before = await store.remember(fact("is alergic to peanuts!", told=2.0))
    assert before == (old,)
    assert await texts(store) == ["likes tea", "is alergic to peanuts!"]
    assert new.id != old.id


async def test_what_two_processes_remember_at_once_is_kept_once(url: str, store: Store) -> None:
    other = await open_store(url)
    facts = [fact("likes tea", told=float(n)) for n in range(8)]
    await asyncio.gather(*([store, other][n % 2].remember(each) for n, each in enumerate(facts)))
    assert await texts(store) == ["likes tea"]
    await other.close()


async def test_not_where_it_was_told_to_another_circle(store: Store) -> None:
    """Else what was told in private would change what is known in public, or tell of it."""
    circles = [
        fact("likes tea"),
        fact("likes tea", guild="h"),
        fact("likes tea", room="mods", audience="some"),
        fact("likes tea", room="mods 2", audience="some"),
        fact("likes tea", guild="", room="dm", audience="one"),
    ]
    for one in circles:
        assert (await store.remember(one))[1] == ()
    assert len(await texts(store)) == len(circles)
    assert len((await store.remember(fact("likes tea", room="games")))[1]) == 1, "all of the guild read both"


async def test_of_too_many_the_oldest_goes_that_came_back_least(store: Store) -> None:
    kept = [(await store.remember(fact(thing(n), told=n)))[0] for n in range(MOST)]
    await store.remember(fact("somebody else's", person=ANN))
    await store.count_uses([one.id for one in kept[:3]])
    await store.remember(fact("likes tea", told=999))
    await store.remember(fact("likes rum", told=999))
    left = await texts(store)
    assert len(left) == MOST
    assert [thing(n) in left for n in range(6)] == [True, True, True, False, False, True]
    assert "likes tea" in left
    assert await texts(store, ANN) == ["somebody else's"]


async def test_a_fact_that_is_told_anew_stays_as_often_used(store: Store) -> None:
    old, _ = await store.remember(fact("likes green tea", told=0))
    await store.count_uses([old.id, old.id])
    await store.remember(fact("likes green tea", told=0))
    for number in range(MOST):
        await store.remember(fact(thing(number), told=number + 1))
    assert "likes green tea" in await texts(store)


async def test_a_guild_knows_what_was_told_in_it_and_nothing_else(store: Store) -> None:
    for one in (
        fact("a"),
        fact("b", person=ANN),
        fact("c", room="mods", audience="some"),
        fact("d", guild="", room="dm", audience="one"),
        fact("e", guild="h"),
        fact("f", persona="Captain"),
    ):
        await store.remember(one)
    assert [memory.text for memory in await store.memories_of_guild("g", "Pixi")] == ["a", "b", "c"]
    assert [memory.text for memory in await store.memories_of_guild("g", "Pixi", MO)] == ["a", "c"]
    assert await store.memories_of_guild("", "Pixi") == (), "no guild is not a guild"


@in_a_file
async def test_what_is_dropped_is_gone_from_the_files(store: Store, tmp_path: Path) -> None:
    kept, _ = await store.remember(fact("my canary"))
    assert any(b"canary" in file.read_bytes() for file in tmp_path.iterdir())
    await store.drop_memories([kept.id, 999])
    assert await texts(store) == []
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.iterdir())


@in_a_file
async def test_whoever_is_forgotten_is_remembered_no_more(store: Store, tmp_path: Path) -> None:
    for persona in ("Pixi", "Captain"):
        await store.remember(fact("my canary", persona=persona, audience="one", guild=""))
    await store.remember(fact("likes milk", person=ANN))
    assert await store.forget(MO) == (), "no conversation changed"
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.iterdir())
    assert await texts(store, ANN) == ["likes milk"]


async def test_a_person_is_told_what_is_remembered_of_them(store: Store) -> None:
    await store.remember(fact("likes tea", told=100.0))
    await store.remember(fact("likes milk", person=ANN))
    assert (await store.export(MO))["memories"] == [
        {"persona": "Pixi", "text": "likes tea", "time": "1970-01-01T00:01:40+00:00", "told_in": "general"}
    ]


async def test_what_was_shown_of_them_to_others_goes_with_them(store: Store, tmp_path: Path) -> None:
    """A manager had it listed: the answer was to the manager, and holds words that were told by Mo."""
    boss = Author("1", "boss")
    sent = Message("5", "general", boss, "what do you know of 11?", 1.0, group=True)
    await store.receive(sent)
    await store.receive(Message("6", "general", boss, "and of 12?", 1.0, group=True))
    asked = 'now\n"boss" (id 1):\n> what do you know of 11?'
    lines: tuple[Line, ...] = (
        UserLine(asked, spans=(Span(3, "stamp"), Span(len(asked) - 3, "stamp", ("1",)))),
        AssistantLine("", (ToolCall("c", "recall", '{"about": "11"}'),)),
        ToolLine("c", "recall", "> a canary"),
        AssistantLine("[SEND: a canary]"),
    )
    for message in ("5", "6"):
        turn = await begun(store, "general", 0, "Pixi", (message,))
        await store.end_turn(turn, lines, "stop", 2, Usage())
    await store.memories_shown("general", "5", [MO])
    await store.memories_shown("general", "6", [ANN])
    await store.memories_shown("general", "no such message", [MO])
    assert await store.forget(MO) == ("general",)
    assert (await store.load("general")).lines == (lines[0], AssistantLine(SILENCE), *lines)


def test_nothing_is_found_by_reading_through_the_table() -> None:
    with closing(schema.connect(None)) as db:
        statements: list[str] = []
        db.set_trace_callback(statements.append)
        for number in range(3):
            memories.remember(db, fact("likes tea", told=number))
        memories.memories(db, MO, "Pixi")
        memories.memories_of_guild(db, "g", "Pixi", MO)
        memories.count_uses(db, [1])
        memories.drop(db, [1])
        memories.export(db, MO)
        memories.shown(db, "general", "5", [MO])
        memories.forget(db, MO)
        db.set_trace_callback(None)
        for statement in set(statements):
            if statement.startswith(("SELECT", "DELETE", "UPDATE", "INSERT")):
                plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
                assert not any(step.startswith("SCAN") for step in plan), (statement, plan)


async def test_a_file_whose_audience_nobody_knows_tells_it_to_the_fewest(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.remember(fact("likes tea"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE memories SET audience = 'planet'")
    assert [memory.audience for memory in await store.memories(MO, "Pixi")] == ["one"]
    await store.close()
