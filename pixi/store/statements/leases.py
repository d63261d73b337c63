"""Several processes on one conversation: which of them owns it, and which words the others must read again.

Every store that takes a lease is an owner: it has a number, and holds a lock under it that dies with its
process. So no store compares ids or times to find out who lives. (A worker that stands still, and holds its
lock, is noticed by the queue: `pixi.app.cluster.queue.STALLED_SECONDS`.) A conversation's lease names its
owner. Its own number grows whenever the owner changes, and a turn keeps the number that it began under: a
turn with an older one was left over by somebody who owned the conversation before.

A process may hold words of a conversation in memory. Each time words are taken out of one, in whichever
process, it gets a higher revision; so the others see which to read again.
"""

from collections.abc import Iterable

from pixi.core.errors import LeaseHeld, StoreOutdated
from pixi.store.database import Connection, Database, select_many
from pixi.store.kept import Forgotten
from pixi.store.statements.rows import OVERTAKEN

NOBODY = 0
"""The owner of a conversation that was released; numbers begin with 1."""


def lease(db: Connection, conversation: str, *, take: bool) -> int:
    """Own a conversation; return the number of its lease."""
    found = db.execute("SELECT owner, number FROM leases WHERE conversation = ?", (conversation,)).fetchone()
    if found is None:
        db.execute(
            "INSERT INTO leases (conversation, owner, number) VALUES (?, ?, 1)", (conversation, db.owner)
        )
        return 1
    owner, number = found
    if owner == db.owner:
        return int(number)
    if owner == NOBODY or not db.is_alive(owner):
        db.execute("DELETE FROM owners WHERE id = ?", (owner,))
    elif not take and _is_at_work(db, conversation):
        raise LeaseHeld(f"Another process is answering in {conversation!r} just now.")
    db.execute(
        "UPDATE leases SET owner = ?, number = number + 1 WHERE conversation = ?", (db.owner, conversation)
    )
    return int(number) + 1


def release(db: Connection, conversation: str) -> None:
    """Give a conversation up, though a turn may be open there: the next owner finishes it."""
    db.execute(
        "UPDATE leases SET owner = ? WHERE conversation = ? AND owner = ?", (NOBODY, conversation, db.owner)
    )


def owned_elsewhere(db: Connection, conversation: str) -> bool:
    """Return True if another store that lives owns a conversation, be it at work or not."""
    found = db.execute("SELECT owner FROM leases WHERE conversation = ?", (conversation,)).fetchone()
    return found is not None and found[0] not in (NOBODY, db.owner) and db.is_alive(found[0])


def check_owned(db: Connection, held: Iterable[tuple[int, int | None]]) -> None:
    """Check that turns are not ended, and that this store owns their conversations by the lease it had.

    Args:
        db: the connection.
        held: turns, each with the number of that lease; None: the turn began under it.

    Raises:
        StoreOutdated: nothing more is to be done in one of them.
    """
    asked = (
        "SELECT turns.id, finish, coalesce(owner, -1), number, lease FROM turns"
        " LEFT JOIN leases ON leases.conversation = turns.conversation WHERE turns.id IN ({})"
    )
    pairs = sorted(held, key=lambda pair: pair[0])
    known = {turn: state for turn, *state in select_many(db, asked, dict(pairs))}
    for turn, lease in pairs:
        finish, owner, number, began_under = known.get(turn, (None, db.owner, lease, lease))
        if finish is not None:
            raise StoreOutdated(f"Turn {turn} was ended by another process.")
        if owner != db.owner:
            raise StoreOutdated(f"Another process owns the conversation of turn {turn}.")
        if number != (began_under if lease is None else lease):
            raise StoreOutdated(f"Another process has owned the conversation of turn {turn} meanwhile.")


def check_lease(db: Connection, conversation: str, lease: int) -> None:
    """Check that this store owns a conversation by the lease of that number.

    Raises:
        StoreOutdated: it does not, or no more.
    """
    asked = "SELECT owner, number FROM leases WHERE conversation = ?"
    if db.execute(asked, (conversation,)).fetchone() != (db.owner, lease):
        raise StoreOutdated(f"Another process has owned the conversation {conversation!r} meanwhile.")


def _is_at_work(db: Connection, conversation: str) -> bool:
    """Return True if the owner of a conversation has a turn under way there, be it one that it recovers."""
    found = db.execute("SELECT 1 FROM turns WHERE conversation = ? AND finish IS NULL", (conversation,))
    return found.fetchone() is not None


def touch(db: Database, conversations: Iterable[str]) -> None:
    """Note that words were taken out of conversations: processes that hold them in memory read them again."""
    (last,) = db.execute("SELECT coalesce(max(revision), 0) FROM conversations").fetchone()
    db.executemany(
        "INSERT INTO conversations (address, generation, revision) VALUES (?, 0, ?)"
        " ON CONFLICT (address) DO UPDATE SET revision = excluded.revision",
        [(conversation, last + 1) for conversation in conversations],
    )


def generation_of(db: Database, conversation: str) -> int:
    """Return how often a conversation was reset."""
    found = db.execute("SELECT generation FROM conversations WHERE address = ?", (conversation,)).fetchone()
    return int(found[0]) if found else 0


def revision_of(db: Database, conversation: str) -> int:
    """Return the number of the last time that words were taken out of a conversation; 0 if never."""
    found = db.execute("SELECT revision FROM conversations WHERE address = ?", (conversation,)).fetchone()
    return int(found[0]) if found else 0


def revisions_of(db: Database, conversations: Iterable[str]) -> dict[str, int]:
    """Return the revisions of conversations; those that never lost a word are left out."""
    asked = "SELECT address, revision FROM conversations WHERE address IN ({})"
    return dict(select_many(db, asked, conversations))


def forgotten_since(db: Database, revision: int) -> Forgotten:
    """Return the conversations and turns that lost words after that revision, in whichever process."""
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
