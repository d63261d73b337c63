"""Pictures of messages and lines, each kept once per conversation for as long as something shows it."""

import sqlite3
from collections.abc import Callable, Iterable

from pixi.core.errors import StoreError
from pixi.store.rows import Row, digests_in, naming


def keep(db: sqlite3.Connection, conversation: str, row: Row) -> None:
    """Keep those that a row names."""
    for digest, data in row.pictures.items():
        db.execute(
            "INSERT INTO pictures (conversation, digest, data) VALUES (?, ?, ?)"
            " ON CONFLICT (conversation, digest) DO NOTHING",
            (conversation, digest, data),
        )


def fetching(db: sqlite3.Connection, conversation: str) -> Callable[[str], bytes]:
    """Gives a conversation's pictures by their digests."""

    def fetch(digest: str) -> bytes:
        found = db.execute(
            "SELECT data FROM pictures WHERE conversation = ? AND digest = ?", (conversation, digest)
        ).fetchone()
        if found is None:
            raise StoreError(f"A picture of {conversation!r} is missing from the store.")
        return bytes(found[0])

    return fetch


def drop_unused(db: sqlite3.Connection, conversation: str, bodies: Iterable[bytes]) -> None:
    """Of the pictures that these rows named, drop those that no other row names; they are gone already.

    This reads through the conversation, which is seldom asked for.
    """
    for digest in {digest for body in bodies for digest in digests_in(body)}:
        db.execute(
            "DELETE FROM pictures WHERE conversation = ?1 AND digest = ?2"
            " AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1 AND instr(body, ?3))"
            " AND NOT EXISTS (SELECT 1 FROM lines WHERE conversation = ?1 AND instr(body, ?3))",
            (conversation, digest, naming(digest)),
        )
