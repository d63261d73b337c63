"""Rows of the HTTP server: talks and their people, files that people sent, and keys by their digests."""

import dataclasses
import json
from collections.abc import Collection
from typing import Any

from msgspec.structs import astuple, replace

from pixi.store.database import Database, select_many
from pixi.store.kept import ApiKey, Circle, KeyedRequest, SentFile, Talk
from pixi.store.statements import branches
from pixi.store.statements.rows import unpack_message

_TALK = "address, person, persona, name, began, last"

_DAY = 86_400.0
DAYS_OF_A_REQUEST = 30
"""Days for which a request with a key is known again by that alone."""
_OLD_AT_ONCE = 10
_UNDER_WAY = 60.0  # seconds within which a message is on record, or will never be


def keep_talk(db: Database, talk: Talk, request: KeyedRequest | None = None) -> KeyedRequest | None:
    """Keep a talk, and the request by which something is said there now; of a talk that is kept only `last`
    is raised.

    Returns:
        The request of that key as it is on record: its message and time are those of the first that came.
        If its digest is another one, nothing is kept.
    """
    if request is not None and (digest := _keep_request(db, talk, request)) != request.digest:
        return KeyedRequest(request.key, digest, "")
    db.execute(
        f"INSERT INTO talks ({_TALK}) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > talks.last",
        astuple(talk),
    )
    return None if request is None else _taken_over(db, talk, request.key)


def _keep_request(db: Database, talk: Talk, request: KeyedRequest) -> str:
    """Keep a request, unless there is one of its key, and forget a few that are old; return the digest of the
    one that is there now.
    """
    (digest,) = db.execute(
        "INSERT INTO requests (key, digest, person, conversation, message, sent_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET digest = requests.digest RETURNING digest",
        (request.key, request.digest, talk.person, talk.address, request.message, talk.last),
    ).fetchone()
    db.execute(
        "DELETE FROM requests WHERE key IN"
        " (SELECT key FROM requests WHERE sent_at < ? ORDER BY sent_at LIMIT ?)",
        (talk.last - DAYS_OF_A_REQUEST * _DAY, _OLD_AT_ONCE),
    )
    return str(digest)


def _taken_over(db: Database, talk: Talk, key: str) -> KeyedRequest | None:
    """Return the request of that key; one whose message never came on record is said in this talk.

    Its message keeps its time for a minute: another server may just be saying it.
    """
    there = request(db, key)
    if there is not None and not there.address and there.sent_at != talk.last:
        sent_at = there.sent_at if there.sent_at > talk.last - _UNDER_WAY else talk.last
        db.execute(
            "UPDATE requests SET conversation = ?, sent_at = ? WHERE key = ?", (talk.address, sent_at, key)
        )
        there = replace(there, name=talk.name, sent_at=sent_at)
    return there


def request(db: Database, key: str) -> KeyedRequest | None:
    """Return the request of that key; None if none came, or it was forgotten."""
    found = db.execute(
        "SELECT digest, message, conversation, name, sent_at FROM requests"
        " JOIN talks ON address = conversation WHERE key = ?",
        (key,),
    ).fetchone()
    if found is None:
        return None
    digest, message, conversation, name, sent_at = found
    # The id is free again once its turn was set aside, so that a later request may have said it as well.
    for address in (conversation, *reversed(branches.of(db, conversation))):
        there = db.execute(
            "SELECT 1 FROM messages WHERE conversation = ? AND id = ? AND sent_at = ?",
            (address, message, sent_at),
        ).fetchone()
        if there is not None:
            return KeyedRequest(key, digest, message, name, address, sent_at)
    return KeyedRequest(key, digest, message, name, sent_at=sent_at)


def requests_of(db: Database, person: str) -> tuple[tuple[str, str, float], ...]:
    """Return address, id of the message and time of each request of a person with a key, in that order."""
    found = db.execute(
        "SELECT conversation, message, sent_at FROM requests WHERE person = ? ORDER BY sent_at, key",
        (person,),
    )
    return tuple(found.fetchall())


def forget_requests(db: Database, conversation: str) -> None:
    """Forget the requests by which something was said in a conversation."""
    db.execute("DELETE FROM requests WHERE conversation = ?", (conversation,))


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


def circles(db: Database, conversations: Collection[str]) -> dict[str, Circle]:
    """Return who takes part in each of these conversations; a branch has the person of its trunk."""
    told: dict[str, Circle] = {}
    for address in conversations:
        owner = db.execute(
            "SELECT person FROM talks WHERE address = ?", (branches.trunk(address),)
        ).fetchone()
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
        astuple(file),
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


def files_among(db: Database, ids: Collection[str]) -> frozenset[str]:
    """Return those of these ids that are there."""
    found = select_many(db, "SELECT id FROM files WHERE id IN ({})", ids)
    return frozenset(file_id for (file_id,) in found)


def drop_file(db: Database, file_id: str) -> None:
    """Forget a file."""
    db.execute("DELETE FROM files WHERE id = ?", (file_id,))


def forget(db: Database, person: str) -> None:
    """Forget the talks, the files and the requests of a person."""
    for table in ("talks", "files", "requests"):
        db.execute(f"DELETE FROM {table} WHERE person = ?", (person,))


def forget_old(db: Database, before: float, most: int) -> int:
    """Forget at most `most` talks in which nothing was said since a time, and as many files and requests that
    were sent before; return how many of those of which there were most.
    """
    counts = []
    for table, key, time in (
        ("talks", "address", "last"),
        ("files", "id", "sent_at"),
        ("requests", "key", "sent_at"),
    ):
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
        [json.dumps(each) if isinstance(each, tuple) else each for each in dataclasses.astuple(key)],
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
