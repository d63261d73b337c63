"""What personas remember of people: a few facts of each, and where they were told."""

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

from pixi.core.memory import Memory, those_that_say_the_same
from pixi.core.venue import Audience

MOST = 200
"""Facts that a persona keeps of one person."""

_COLUMNS = "id, persona, person, guild, conversation, audience, text, told"
_AUDIENCES: dict[str, Audience] = {audience: audience for audience in get_args(Audience)}


def remember(db: sqlite3.Connection, memory: Memory) -> tuple[Memory, tuple[Memory, ...]]:
    """Keep a fact; gives it as it is kept, and those that it took the place of.

    It takes the place of what says the same and was told to the same circle. Where there are too many then,
    the one goes that came back least often, of these the oldest.
    """
    older = memories(db, memory.person, memory.persona)
    circle = [one for one in older if one.where == memory.where]
    same = tuple(circle[at] for at in those_that_say_the_same(memory.text, [one.text for one in circle]))
    uses = 0
    for one in same:
        (used,) = db.execute("DELETE FROM memories WHERE id = ? RETURNING uses", (one.id,)).fetchone()
        uses += used
    surplus = len(older) - len(same) + 1 - MOST
    if surplus > 0:
        db.execute(
            "DELETE FROM memories WHERE id IN (SELECT id FROM memories WHERE person = ? AND persona = ?"
            " ORDER BY uses, told, id LIMIT ?)",
            (memory.person, memory.persona, surplus),
        )
    (number,) = db.execute(
        "INSERT INTO memories (persona, person, guild, conversation, audience, text, told, uses)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            memory.persona,
            memory.person,
            memory.guild,
            memory.conversation,
            memory.audience,
            memory.text,
            memory.told,
            uses,
        ),
    ).fetchone()
    return replace(memory, id=number), same


def memories(db: sqlite3.Connection, person: str, persona: str) -> tuple[Memory, ...]:
    """What a persona remembers of a person, oldest first."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE person = ? AND persona = ? ORDER BY told, id",
        (person, persona),
    )
    return tuple(_memory(row) for row in found)


def memories_of_guild(
    db: sqlite3.Connection, guild: str, persona: str, person: str | None
) -> tuple[Memory, ...]:
    """What a persona was told in a guild, by this person or by anybody, oldest first."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE guild = ?1 AND persona = ?2"
        " AND (?3 IS NULL OR person = ?3) ORDER BY told, id",
        (guild, persona, person),
    )
    return tuple(_memory(row) for row in found) if guild else ()


def count_uses(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Note that facts came back."""
    db.executemany("UPDATE memories SET uses = uses + 1 WHERE id = ?", [(number,) for number in ids])


def drop(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Forget facts."""
    db.executemany("DELETE FROM memories WHERE id = ?", [(number,) for number in ids])


def forget(db: sqlite3.Connection, person: str) -> None:
    """Forget all facts of a person."""
    db.execute("DELETE FROM memories WHERE person = ?", (person,))


def shown(db: sqlite3.Connection, conversation: str, message_id: str, people: Iterable[str]) -> None:
    """Note that the answer to a message of somebody else tells of people: it goes when they are forgotten."""
    db.executemany(
        "INSERT OR IGNORE INTO quotes (person, message)"
        " SELECT ?, position FROM messages WHERE conversation = ? AND id = ?",
        [(person, conversation, message_id) for person in people],
    )


def export(db: sqlite3.Connection, person: str) -> list[dict[str, Any]]:
    """All facts of a person, as plain data, the times in seconds since the epoch."""
    found = db.execute(f"SELECT {_COLUMNS} FROM memories WHERE person = ? ORDER BY told, id", (person,))
    return [
        {"persona": one.persona, "text": one.text, "time": one.told, "told_in": one.conversation}
        for one in map(_memory, found)
    ]


def _memory(row: tuple[Any, ...]) -> Memory:
    number, persona, person, guild, conversation, audience, text, told = row
    # An audience that nobody knows is the narrowest.
    known = _AUDIENCES.get(audience, "one")
    return Memory(number, persona, person, guild, conversation, known, text, told)
