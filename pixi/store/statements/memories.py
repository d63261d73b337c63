"""Facts that personas remember of people: a few of each, and where they were told."""

from collections.abc import Collection
from typing import Any, get_args

from msgspec.structs import astuple, replace

from pixi.core.errors import StoreError
from pixi.core.memory import Memory, same_facts
from pixi.core.message import Audience
from pixi.store.database import Database
from pixi.store.statements.inbox import LAST_TURN
from pixi.store.statements.rows import OVERTAKEN

MOST = 200
"""Facts that a persona keeps of one person."""

_COLUMNS = "id, persona, person, guild, conversation, audience, text, told"
_AUDIENCES: dict[str, Audience] = {audience: audience for audience in get_args(Audience)}


def remember(db: Database, memory: Memory, message_id: str = "") -> tuple[Memory, tuple[Memory, ...]]:
    """Keep a fact; return it with its number, and the facts that it replaces.

    `StoreError` where somebody was forgotten in the turn that answers that message of the conversation.

    It takes the place of what says the same and was told to the same circle. Where there are too many then,
    the one goes that came back least often, of these the oldest.
    """
    if message_id and _is_overtaken(db, memory.conversation, message_id):
        raise StoreError("Somebody was forgotten meanwhile; nothing more is remembered of this.")
    older = memories(db, memory.person, memory.persona)
    circle = [one for one in older if one.where == memory.where]
    same = tuple(circle[at] for at in same_facts(memory.text, [one.text for one in circle]))
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
        (*astuple(memory)[1:], uses),
    ).fetchone()
    return replace(memory, id=number), same


def _is_overtaken(db: Database, conversation: str, message_id: str) -> bool:
    """Return True if a message is answered in a turn in which somebody was forgotten."""
    found = db.execute(
        f"SELECT generation FROM messages JOIN turns ON turns.id = {LAST_TURN}"
        " WHERE messages.conversation = ? AND messages.id = ?",
        (conversation, message_id),
    ).fetchone()
    return found is not None and found[0] == OVERTAKEN


def memories(db: Database, person: str, persona: str) -> tuple[Memory, ...]:
    """Return the facts that a persona remembers of a person, wherever it was told them, oldest first."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE person = ? AND persona = ? ORDER BY told, id",
        (person, persona),
    )
    return tuple(_memory(row) for row in found)


def memories_of_guild(
    db: Database, guild: str, persona: str, person: str | None = None
) -> tuple[Memory, ...]:
    """Return the facts that a persona was told in a guild, by this person or by anybody, oldest first."""
    if not guild:
        return ()
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE guild = ? AND persona = ?"
        f"{'' if person is None else ' AND person = ?'} ORDER BY told, id",
        (guild, persona) if person is None else (guild, persona, person),
    )
    return tuple(_memory(row) for row in found)


def page(db: Database, person: str, persona: str, before: int | None, limit: int) -> tuple[Memory, ...]:
    """Return the facts before a number, the latest first: of this person and persona ("": of any)."""
    wanted = [(column, value) for column, value in (("person", person), ("persona", persona)) if value]
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE id < ?{''.join(f' AND {column} = ?' for column, _ in wanted)}"
        " ORDER BY id DESC LIMIT ?",
        (2**63 - 1 if before is None else before, *(value for _, value in wanted), limit),
    )
    return tuple(_memory(row) for row in found)


def count_uses(db: Database, ids: Collection[int]) -> None:
    """Note that facts came back."""
    db.executemany("UPDATE memories SET uses = uses + 1 WHERE id = ?", [(number,) for number in ids])


def drop(db: Database, ids: Collection[int]) -> None:
    """Forget facts."""
    db.executemany("DELETE FROM memories WHERE id = ?", [(number,) for number in ids])


def forget(db: Database, person: str) -> None:
    """Forget all facts of a person."""
    db.execute("DELETE FROM memories WHERE person = ?", (person,))


def shown(db: Database, conversation: str, message_id: str, people: Collection[str]) -> None:
    """Note that the answer to a message of somebody else tells of people: it goes when they are forgotten."""
    db.executemany(
        "INSERT INTO quotes (person, message)"
        " SELECT ?, position FROM messages WHERE conversation = ? AND id = ? ON CONFLICT DO NOTHING",
        [(person, conversation, message_id) for person in people],
    )


def export(db: Database, person: str) -> list[dict[str, Any]]:
    """Return all facts of a person, as plain data, the times in seconds since the epoch."""
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
