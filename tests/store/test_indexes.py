"""No call reads through a table: what it costs does not grow with what is kept of others."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from pixi.core.deltas import Usage
from pixi.core.lines import AssistantLine, UserLine
from pixi.core.message import Author, Image, Message, Quoted
from pixi.store.kept import Place
from pixi.store.sqlite import schema
from pixi.store.statements import (
    chosen,
    inbox,
    journal,
    people,
    records,
    told,
)

TABLES = ("messages", "turns", "lines", "effects", "pictures", "quotes", "watermarks", "conversations")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(schema.connect(None)) as connection:
        yield connection


def everything(db: sqlite3.Connection) -> None:
    """Each statement of the store, at least once."""
    room = "discord:1:7:pixi"
    picture = Image("image/png", b"cat")
    mo, ann = Author("11", "mo"), Author("12", "ann")
    inbox.receive(db, Message("0", room, mo, "hm", 1.0, addressed=False))
    for number in range(1, 5):
        quoted = (Quoted("0", mo, "hm"), Quoted("9", None, "oh"))
        author = (mo, ann)[number % 2]
        inbox.receive(db, Message(str(number), room, author, "x", 1.0, images=(picture,), quoted=quoted))
    inbox.revise(db, room, "3", "y")
    inbox.withdraw(db, room, "3")
    inbox.message_id(db, room, 1)
    inbox.unanswered(db, "discord:", 0.0)
    for ids in (("0", "1", "2"), ("4",)):
        turn = journal.begin_turn(db, room, 0, "pixi", ids, model="quick")
        journal.record(db, [journal.Intent(turn, 0, "send", "x", 0)])
        journal.record(db, [journal.Settlement(turn, 0, "done", "900")])
        journal.load(db, room)
        lines = (UserLine("x", (picture,)), AssistantLine("y")) if "1" in ids else ()
        journal.end_turn(db, turn, lines, finish="stop", steps=1, usage=Usage(), cost=None)
    records.turn_behind(db, "discord:1:", "900")
    records.turns(db, room, 3)
    records.tally(db, "discord:1:", 0.0)
    chosen.set_place(db, "discord:1:7:", Place(home=True))
    chosen.set_place(db, "discord:1:7:", Place())
    chosen.mark(db, {"discord:1:7:": 1})
    chosen.watermarks(db, "discord:")
    told.export(db, mo.id)
    people.forget(db, mo.id)
    journal.begin_turn(db, room, 0, "pixi", ("4",), model="")
    people.forget(db, ann.id)
    journal.reset(db, room)


def test_nothing_is_found_by_reading_through_a_table(db: sqlite3.Connection) -> None:
    statements: list[str] = []
    db.set_trace_callback(statements.append)
    everything(db)
    db.set_trace_callback(None)
    looked_at = [one for one in dict.fromkeys(statements) if one.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(looked_at) > 40
    for statement in looked_at:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        through = [step for step in plan if step.startswith("SCAN") and step.split()[1] in TABLES]
        assert not through, f"{statement}\n{plan}"


def test_a_message_finds_its_number_by_one_look(db: sqlite3.Connection) -> None:
    """However many there are: the number of steps that the database takes stays the same."""

    def steps(count: int) -> int:
        taken = 0

        def step() -> int:
            nonlocal taken
            taken += 1
            return 0

        db.set_progress_handler(step, 1)
        inbox.receive(db, Message(str(count), "room", Author("1", "mo"), "x", 1.0))
        db.set_progress_handler(None, 0)
        return taken

    few = [steps(count) for count in range(10)][-1]
    for count in range(10, 3_000):
        inbox.receive(db, Message(str(count), "room", Author("1", "mo"), "x", 1.0))
    assert steps(3_000) <= few + 5


def test_what_turns_came_to_lately_is_told_without_reading_through_the_older_ones(
    db: sqlite3.Connection,
) -> None:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    for count in range(1_000):
        room = f"discord:1:{count}:pixi"
        inbox.receive(db, Message("1", room, Author("1", "mo"), "x", 1.0))
        journal.begin_turn(db, room, 0, "pixi", ("1",), model="")
    db.execute("UPDATE turns SET began = id")
    db.set_progress_handler(step, 1)
    assert records.tally(db, "discord:", 999.0).turns == 2
    db.set_progress_handler(None, 0)
    assert steps < 200
