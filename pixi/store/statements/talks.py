"""Talks: which conversation a person has over HTTP under which name, and who takes part in any."""

from collections.abc import Iterable

from pixi.store.database import Database
from pixi.store.kept import Circle, Talk
from pixi.store.statements.branches import trunk
from pixi.store.statements.rows import unpack_message

_COLUMNS = "address, person, persona, name, began, last"


def keep(db: Database, talk: Talk) -> None:
    """Keep a talk; of one that is kept only `last` is raised."""
    db.execute(
        f"INSERT INTO talks ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > talks.last",
        (talk.address, talk.person, talk.persona, talk.name, talk.began, talk.last),
    )


def latest(db: Database, person: str, persona: str, limit: int) -> tuple[Talk, ...]:
    """The last talks of a person, the latest first; `persona`: with this one, "": with any."""
    wanted, values = _with(persona)
    found = db.execute(
        f"SELECT {_COLUMNS} FROM talks WHERE person = ?{wanted} ORDER BY last DESC, address LIMIT ?",
        (person, *values, max(0, limit)),
    )
    return tuple(Talk(*row) for row in found)


def talks_of(db: Database, person: str) -> tuple[Talk, ...]:
    """All talks of a person, the first begun first."""
    found = db.execute(f"SELECT {_COLUMNS} FROM talks WHERE person = ? ORDER BY began, address", (person,))
    return tuple(Talk(*row) for row in found)


def named(db: Database, person: str, name: str, persona: str) -> Talk | None:
    """The latest talk of a person under a name; `persona`: with this one, "": with any."""
    wanted, values = _with(persona)
    found = db.execute(
        f"SELECT {_COLUMNS} FROM talks WHERE person = ? AND name = ?{wanted}"
        " ORDER BY last DESC, address LIMIT 1",
        (person, name, *values),
    ).fetchone()
    return None if found is None else Talk(*found)


def circles(db: Database, conversations: Iterable[str]) -> dict[str, Circle]:
    """Who takes part in each of these conversations; a branch has the person of its trunk."""
    told: dict[str, Circle] = {}
    for address in conversations:
        owner = db.execute("SELECT person FROM talks WHERE address = ?", (trunk(address),)).fetchone()
        last = db.execute(
            "SELECT body FROM messages WHERE conversation = ? AND body IS NOT NULL"
            " ORDER BY number DESC LIMIT 1",
            (address,),
        ).fetchone()
        group = last is not None and unpack_message(last[0], 0, lambda _: b"").group
        told[address] = Circle(group, "" if owner is None else owner[0])
    return told


def _with(persona: str) -> tuple[str, tuple[str, ...]]:
    return (" AND persona = ?", (persona,)) if persona else ("", ())


def forget(db: Database, person: str) -> None:
    """Forget the talks of a person."""
    db.execute("DELETE FROM talks WHERE person = ?", (person,))


def forget_old(db: Database, before: float, most: int) -> int:
    """Forget at most so many talks in which nothing was said since a time; gives how many."""
    found = db.execute(
        "SELECT address FROM talks WHERE last < ? ORDER BY last LIMIT ?", (before, most)
    ).fetchall()
    db.executemany("DELETE FROM talks WHERE address = ?", found)
    return len(found)
