"""Keys of the HTTP server, by the digests of their secrets."""

import json
from typing import Any

from pixi.store.database import Database
from pixi.store.kept import ApiKey

_COLUMNS = "name, digest, scopes, personas, origins, created, revoked, signs"


def add(db: Database, key: ApiKey) -> bool:
    """Keep a key; False if one of that name is in use."""
    added = db.execute(
        f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING RETURNING name",
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


def every(db: Database) -> tuple[ApiKey, ...]:
    """All keys, by their names and the older first."""
    return tuple(map(_key, db.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY name, created, digest")))


def of_digest(db: Database, digest: str) -> ApiKey | None:
    """The key of that digest, unless it was revoked."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM keys WHERE digest = ? AND revoked IS NULL", (digest,)
    ).fetchone()
    return None if found is None else _key(found)


def revoke(db: Database, name: str, at: float) -> bool:
    """Revoke the key of that name which is in use; False: there is none."""
    found = db.execute(
        "UPDATE keys SET revoked = ? WHERE name = ? AND revoked IS NULL RETURNING name", (at, name)
    ).fetchone()
    return found is not None


def _key(row: tuple[Any, ...]) -> ApiKey:
    name, digest, scopes, personas, origins, created, revoked, signs = row
    scopes, personas, origins = (tuple(json.loads(each)) for each in (scopes, personas, origins))
    return ApiKey(name, digest, scopes, personas, origins, created, revoked, signs)
