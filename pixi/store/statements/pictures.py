"""Pictures of messages and lines, each kept once per conversation for as long as something shows it."""

from collections.abc import Callable, Iterable

from pixi.store.database import Database
from pixi.store.statements.rows import EncodedValue, digests_in


def keep(db: Database, conversation: str, row: EncodedValue) -> None:
    """Keep those that a row names."""
    for digest, data in row.pictures.items():
        db.execute(
            "INSERT INTO pictures (conversation, digest, data) VALUES (?, ?, ?)"
            " ON CONFLICT (conversation, digest) DO NOTHING",
            (conversation, digest, data),
        )


def fetching(db: Database, conversation: str) -> Callable[[str], bytes]:
    """Gives a conversation's pictures by their digests."""

    def fetch(digest: str) -> bytes:
        found = db.execute(
            "SELECT data FROM pictures WHERE conversation = ? AND digest = ?", (conversation, digest)
        ).fetchone()
        if found is None or not isinstance(found[0], bytes):
            raise ValueError(f"a picture of {conversation!r} is missing from the store")
        return found[0]

    return fetch


def drop_unused(db: Database, conversation: str, gone: Iterable[bytes]) -> None:
    """Of the pictures that these rows named before they went, drop those that no other row names.

    This reads through the conversation, which is seldom asked for.
    """
    unused = {digest for body in gone for digest in digests_in(body)}
    if not unused:
        return
    rows = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND body IS NOT NULL"
        " UNION ALL SELECT body FROM lines WHERE conversation = ?",
        (conversation, conversation),
    )
    for (body,) in rows:
        unused.difference_update(digests_in(body))
    db.executemany(
        "DELETE FROM pictures WHERE conversation = ? AND digest = ?",
        [(conversation, digest) for digest in unused],
    )
