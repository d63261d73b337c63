"""Rows of the HTTP server: talks and their people, files that people sent, and keys by their digests."""

import json
from collections.abc import Iterable
from typing import Any

from pixi.store.database import Database, select_many
from pixi.store.kept import ApiKey, Circle, SentFile, Talk
from pixi.store.statements.branches import trunk
from pixi.store.statements.rows import unpack_message

_TALK = "address, person, persona, name, began, last"


def keep_talk(db: Database, talk: Talk) -> None:
    """Keep a talk; of one that is kept only `last` is raised."""
    db.execute(
        f"INSERT INTO talks ({_TALK}) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > talks.last",
        (talk.address, talk.person, talk.persona, talk.name, talk.began, talk.last),
    )


def talks(db: Database, person: str, persona: str, limit: int) -> tuple[Talk, ...]:
    """Return the last talks of a person with a persona ("": with any), the latest first."""
    wanted, values = _with(persona)
    found = db.execute(
        f"SELECT {_TALK} FROM talks WHERE person = ?{wanted} ORDER BY last DESC, address LIMIT ?",
        (person, *values, max(0, limit)),
    )
    return tuple(Talk(*row) for row in found)


def talks_of(db: Database, person: str) -> tuple[Talk, ...]:
    """Return all talks of a person, the first begun first."""
    found = db.execute(f"SELECT {_TALK} FROM talks WHERE person = ? ORDER BY began, address", (person,))
    return tuple(Talk(*row) for row in found)


def talk(db: Database, person: str, name: str, persona: str = "") -> Talk | None:
    """Return the latest talk of a person under this name, with a persona ("": with any)."""
    wanted, values = _with(persona)
    found = db.execute(
        f"SELECT {_TALK} FROM talks WHERE person = ? AND name = ?{wanted}"
        " ORDER BY last DESC, address LIMIT 1",
        (person, name, *values),
    ).fetchone()
    return None if found is None else Talk(*found)


def circles(db: Database, conversations: Iterable[str]) -> dict[str, Circle]:
    """Return who takes part in each of these conversations; a branch has the person of its trunk."""
    told: dict[str, Circle] = {}
    for address in conversations:
        owner = db.execute("SELECT person FROM talks WHERE address = ?", (trunk(address),)).fetchone()
        last = db.execute(
            "SELECT body FROM messages WHERE conversation = ? AND body IS NOT NULL"
            " ORDER BY number DESC LIMIT 1",
            (address,),
        ).fetchone()
        group = last is not None and unpack_message(last[0]).group
        told[address] = Circle(group, "" if owner is None else owner[0])
    return told


def _with(persona: str) -> tuple[str, tuple[str, ...]]:
    return (" AND persona = ?", (persona,)) if persona else ("", ())


_FILE = "id, person, name, media_type, size, digest, sent_at"


def add_file(db: Database, file: SentFile, most_bytes: int) -> bool:
    """Keep a file of a new id; return False, and keep nothing, if all files of its person would be larger
    than `most_bytes` together.
    """
    if file_bytes(db, file.person) + file.size > most_bytes:
        return False
    db.execute(
        f"INSERT INTO files ({_FILE}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (file.id, file.person, file.name, file.media_type, file.size, file.digest, file.sent_at),
    )
    return True


def file_of(db: Database, file_id: str) -> SentFile | None:
    """Return the file of that id; None if there is none, or it was forgotten."""
    found = db.execute(f"SELECT {_FILE} FROM files WHERE id = ?", (file_id,)).fetchone()
    return None if found is None else SentFile(*found)


def files_of(db: Database, person: str) -> tuple[SentFile, ...]:
    """Return all files of a person, the first sent first."""
    found = db.execute(f"SELECT {_FILE} FROM files WHERE person = ? ORDER BY sent_at, id", (person,))
    return tuple(SentFile(*row) for row in found)


def file_bytes(db: Database, person: str) -> int:
    """Return the size of all files of a person together."""
    (size,) = db.execute("SELECT coalesce(sum(size), 0) FROM files WHERE person = ?", (person,)).fetchone()
    return int(size)


def files_among(db: Database, ids: Iterable[str]) -> frozenset[str]:
    """Return those of these ids that are there."""
    found = select_many(db, "SELECT id FROM files WHERE id IN ({})", ids)
    return frozenset(file_id for (file_id,) in found)


def drop_file(db: Database, file_id: str) -> None:
    """Forget a file."""
    db.execute("DELETE FROM files WHERE id = ?", (file_id,))


def forget(db: Database, person: str) -> None:
    """Forget the talks and the files of a person."""
    db.execute("DELETE FROM talks WHERE person = ?", (person,))
    db.execute("DELETE FROM files WHERE person = ?", (person,))


def forget_old(db: Database, before: float, most: int) -> int:
    """Forget at most `most` talks in which nothing was said since a time, and as many files that were sent
    before; return how many of those of which there were more.
    """
    counts = []
    for table, key, time in (("talks", "address", "last"), ("files", "id", "sent_at")):
        asked = f"SELECT {key} FROM {table} WHERE {time} < ? ORDER BY {time} LIMIT ?"
        found = db.execute(asked, (before, most)).fetchall()
        db.executemany(f"DELETE FROM {table} WHERE {key} = ?", found)
        counts.append(len(found))
    return max(counts)


_KEY = "name, digest, scopes, personas, origins, created, revoked, signs"


def add_key(db: Database, key: ApiKey) -> bool:
    """Keep a key; return False, and keep nothing, if one of that name is not revoked."""
    added = db.execute(
        f"INSERT INTO keys ({_KEY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name",
        (
            key.name,
            key.digest,
            json.dumps(key.scopes),
            json.dumps(key.personas),
            json.dumps(key.origins),
            key.created,
            key.revoked,
            key.signs,
        ),
    ).fetchone()
    return added is not None


def keys(db: Database) -> tuple[ApiKey, ...]:
    """Return all keys, revoked ones too, by their names and the older first."""
    return tuple(map(_as_key, db.execute(f"SELECT {_KEY} FROM keys ORDER BY name, created, digest")))


def key_of(db: Database, digest: str) -> ApiKey | None:
    """Return the key of that digest; None if there is none, or it was revoked."""
    found = db.execute(f"SELECT {_KEY} FROM keys WHERE digest = ? AND revoked IS NULL", (digest,)).fetchone()
    return None if found is None else _as_key(found)


def revoke_key(db: Database, name: str, at: float) -> bool:
    """Revoke a key, at a time in seconds since the epoch; return False if none of that name is in use."""
    found = db.execute(
        "UPDATE keys SET revoked = ? WHERE name = ? AND revoked IS NULL RETURNING name", (at, name)
    ).fetchone()
    return found is not None


def _as_key(row: tuple[Any, ...]) -> ApiKey:
    name, digest, scopes, personas, origins, created, revoked, signs = row
    scopes, personas, origins = (tuple(json.loads(each)) for each in (scopes, personas, origins))
    return ApiKey(name, digest, scopes, personas, origins, created, revoked, signs)
