"""Which conversations lost words, for processes that hold some of them in memory."""

from collections.abc import Iterable

from pixi.store.database import Database
from pixi.store.kept import Forgotten
from pixi.store.statements.many import select_many
from pixi.store.statements.rows import OVERTAKEN


def touch(db: Database, conversations: Iterable[str]) -> None:
    """Words were taken out of these: whoever holds them in memory reads them again."""
    (last,) = db.execute("SELECT coalesce(max(revision), 0) FROM conversations").fetchone()
    db.executemany(
        "INSERT INTO conversations (address, generation, revision) VALUES (?, 0, ?)"
        " ON CONFLICT (address) DO UPDATE SET revision = excluded.revision",
        [(conversation, last + 1) for conversation in conversations],
    )


def revision_of(db: Database, conversation: str) -> int:
    """The number of the last time that words were taken out of a conversation; 0: never."""
    found = db.execute("SELECT revision FROM conversations WHERE address = ?", (conversation,)).fetchone()
    return int(found[0]) if found else 0


def revisions_of(db: Database, conversations: Iterable[str]) -> dict[str, int]:
    """The same of several conversations; those are left out that never lost a word."""
    asked = "SELECT address, revision FROM conversations WHERE address IN ({})"
    return dict(select_many(db, asked, conversations))


def since(db: Database, revision: int) -> Forgotten:
    """What lost words after that revision, and the turns under way that `forget` overtook."""
    found = db.execute(
        "SELECT address, revision FROM conversations WHERE revision > ? ORDER BY revision, address",
        (revision,),
    ).fetchall()
    turns = db.execute("SELECT id FROM turns WHERE finish IS NULL AND generation = ?", (OVERTAKEN,))
    return Forgotten(
        revision=max((number for _, number in found), default=revision),
        conversations=tuple(address for address, _ in found),
        turns=frozenset(turn for (turn,) in turns) if found else frozenset(),
    )
