"""Branches: turns that were taken out of a conversation, kept under an address beside it, and put back."""

import re
import time

from pixi.core.errors import StoreError
from pixi.store.database import Database
from pixi.store.statements import windows
from pixi.store.statements.leases import touch
from pixi.store.statements.rows import digests_in, drop_unused_pictures


def rewind(db: Database, conversation: str, turn: int) -> str:
    """Take a turn and all after it out of a conversation, whose lease is to be held.

    What was said in them is kept beside it; gives the address. Nothing waits there, and `reset`,
    `forget`, `export` and `forget_old` reach it. The ids of its messages are free again. What waits,
    waits on. A turn that was left half-done is not gone on with.
    The address tells after which turn they came (0: none), and their first.
    """
    cut = (conversation, turn)
    (first,) = db.execute("SELECT min(id) FROM turns WHERE conversation = ? AND id >= ?", cut).fetchone()
    (after,) = db.execute("SELECT max(id) FROM turns WHERE conversation = ? AND id < ?", cut).fetchone()
    beside = f"{conversation}~{after or 0}.{first or turn}"
    # One that was left half-done is not gone on with: nothing of it is to happen any more.
    left = "SELECT id FROM turns WHERE conversation = ? AND id >= ? AND finish IS NULL"
    db.execute(f"DELETE FROM commands WHERE turn IN ({left})", cut)
    db.execute(
        "UPDATE turns SET finish = 'cancelled', ended = ?"
        " WHERE conversation = ? AND id >= ? AND finish IS NULL",
        (time.time(), *cut),
    )
    db.execute("UPDATE messages SET again = NULL WHERE conversation = ? AND turn >= ? AND again = 0", cut)
    _move(db, conversation, turn, beside)
    windows.rewind(db, conversation, turn)
    touch(db, [conversation])
    return beside


def of(db: Database, conversation: str) -> tuple[str, ...]:
    """Return the addresses of turns that `rewind` took out of a conversation, oldest first.

    `turns` tells of them; of those that were forgotten no words are left.
    """
    found = db.execute(
        "SELECT conversation, min(id) FROM turns WHERE conversation >= ? AND conversation < ?"
        " GROUP BY conversation ORDER BY 2",
        (f"{conversation}~0", f"{conversation}~:"),  # a colon comes after the digits
    )
    return tuple(address for address, _ in found if trunk(address) == conversation)


def trunk(address: str) -> str:
    """Return the address of the conversation that a branch was taken out of; of a conversation, its own."""
    return re.sub(r"~\d+\.\d+$", "", address)


def after(branch: str) -> int:
    """Return the turn behind which a branch was taken out; 0 if none stood before it."""
    return int(branch.rpartition("~")[2].partition(".")[0])


def restore(db: Database, conversation: str, branch: str) -> None:
    """Put turns back that `rewind` took out of a conversation, whose lease is to be held.

    What came since then in their place is taken out, as by `rewind`. What waits, waits on. If the turn
    that they came after was taken out too, it is put back first.

    Raises:
        StoreError: nothing is kept under that address.
    """
    if branch not in of(db, conversation):
        raise StoreError(f"Nothing that was taken out of {conversation!r} is kept as {branch!r}.")
    before, first = after(branch), int(branch.rpartition(".")[2])
    found = db.execute("SELECT conversation FROM turns WHERE id = ?", (before,)).fetchone()
    if found is not None and found[0] != conversation:
        restore(db, conversation, found[0])
    (later,) = db.execute(
        "SELECT min(id) FROM turns WHERE conversation = ? AND id > ?", (conversation, before)
    ).fetchone()
    if later is not None:
        rewind(db, conversation, later)
    _drop_said_again(db, conversation, branch)
    # What waits came later than what is put back, and is counted anew.
    waiting = db.execute(
        "UPDATE messages SET number = NULL WHERE conversation = ? AND turn IS NULL RETURNING position",
        (conversation,),
    ).fetchall()
    _move(db, branch, first, conversation)
    db.executemany(
        "UPDATE messages SET number ="
        " (SELECT coalesce(max(number), 0) + 1 FROM messages WHERE conversation = ?) WHERE position = ?",
        [(conversation, position) for (position,) in sorted(waiting)],
    )
    touch(db, [conversation])


def _drop_said_again(db: Database, conversation: str, branch: str) -> None:
    """Drop what waits, or was withdrawn, under the id of a message that is put back: it is that message."""
    same = "conversation = ? AND turn IS NULL AND id IN (SELECT id FROM messages WHERE conversation = ?)"
    at = (conversation, branch)
    db.execute(f"DELETE FROM quotes WHERE message IN (SELECT position FROM messages WHERE {same})", at)
    dropped = db.execute(f"DELETE FROM messages WHERE {same} RETURNING body", at).fetchall()
    drop_unused_pictures(db, conversation, [body for (body,) in dropped if body is not None])


def _move(db: Database, conversation: str, turn: int, to: str) -> None:
    """Move a turn and all after it to another address, with their messages, lines and pictures."""
    cut = (conversation, turn)
    bodies = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND turn >= ? AND body IS NOT NULL"
        " UNION ALL SELECT body FROM lines WHERE conversation = ? AND turn >= ?",
        (*cut, *cut),
    )
    moved = [body for (body,) in bodies]
    db.executemany(
        "INSERT INTO pictures (conversation, digest, data)"
        " SELECT ?, digest, data FROM pictures WHERE conversation = ? AND digest = ? ON CONFLICT DO NOTHING",
        [(to, conversation, digest) for digest in {name for body in moved for name in digests_in(body)}],
    )
    for table, number in (("messages", "turn"), ("lines", "turn"), ("turns", "id")):
        db.execute(
            f"UPDATE {table} SET conversation = ? WHERE conversation = ? AND {number} >= ?", (to, *cut)
        )
    drop_unused_pictures(db, conversation, moved)
