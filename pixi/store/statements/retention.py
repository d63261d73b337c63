"""Forgets what was said long ago, in portions, so that nobody waits long for the database."""

from collections import defaultdict

from pixi.store.database import Database
from pixi.store.statements import files, pictures, talks, windows
from pixi.store.statements.forgotten import touch
from pixi.store.statements.inbox import LAST_TURN
from pixi.store.statements.many import change_many, select_many

PORTION = 200
"""Messages, turns and deeds at once: some milliseconds."""


def forget_old(db: Database, before: float) -> bool:
    """Forget a portion of what was said before a time; whether there may be more.

    That there was a message, and its id, stays, so that one which arrives again is still the same. What
    personas remember of people stays as well: they are told it, and can have it forgotten.
    """
    gone: defaultdict[str, list[bytes]] = defaultdict(list)
    counts = (
        _forget_messages(db, before, gone),
        _forget_turns(db, before, gone),
        _forget_deeds(db, before),
        talks.forget_old(db, before, PORTION),
        files.forget_old(db, before, PORTION),
    )
    for conversation, bodies in gone.items():
        pictures.drop_unused(db, conversation, bodies)
    windows.forget(db, gone)
    touch(db, gone)
    return PORTION in counts


def _forget_messages(db: Database, before: float, gone: defaultdict[str, list[bytes]]) -> int:
    """Those of turns under way are left to the next time."""
    found = db.execute(
        "SELECT position, messages.conversation, body FROM messages"
        f" LEFT JOIN turns ON turns.id = {LAST_TURN}"
        " WHERE author IS NOT NULL AND sent_at < ? AND (turn IS NULL OR finish IS NOT NULL)"
        " ORDER BY sent_at LIMIT ?",
        (before, PORTION),
    ).fetchall()
    for _, conversation, body in found:
        gone[conversation] += () if body is None else (body,)
    places = [(position,) for position, *_ in found]
    db.executemany("DELETE FROM quotes WHERE message = ?", places)
    db.executemany("UPDATE messages SET body = NULL, author = NULL WHERE position = ?", places)
    return len(found)


def _forget_turns(db: Database, before: float, gone: defaultdict[str, list[bytes]]) -> int:
    """What turns said and did. What they cost stays."""
    last = db.execute(
        "SELECT id FROM turns WHERE began < ? ORDER BY began DESC LIMIT 1", (before,)
    ).fetchone()
    if last is None:
        return 0
    found = db.execute(
        "SELECT DISTINCT turn FROM lines WHERE turn <= ? ORDER BY turn LIMIT ?", (last[0], PORTION)
    ).fetchall()
    acted = db.execute(
        "SELECT DISTINCT turn FROM effects JOIN turns ON turns.id = turn"
        " WHERE turn <= ? AND finish IS NOT NULL ORDER BY turn LIMIT ?",
        (last[0], PORTION),
    ).fetchall()
    turns = [turn for (turn,) in found]
    for conversation, body in select_many(
        db, "SELECT conversation, body FROM lines WHERE turn IN ({})", turns
    ):
        gone[conversation].append(body)
    change_many(db, "DELETE FROM lines WHERE turn IN ({})", turns)
    change_many(db, "UPDATE turns SET framing = NULL WHERE id IN ({})", turns)
    change_many(db, "DELETE FROM effects WHERE turn IN ({})", [turn for (turn,) in acted])
    return max(len(found), len(acted))


def _forget_deeds(db: Database, before: float) -> int:
    """For whom tools changed something, and what they were given. That they did, and when, stays."""
    found = db.execute(
        "SELECT id FROM audit WHERE began < ? AND (person <> '' OR arguments <> '' OR approved_by <> '')"
        " ORDER BY began LIMIT ?",
        (before, PORTION),
    ).fetchall()
    db.executemany("UPDATE audit SET person = '', arguments = '', approved_by = '' WHERE id = ?", found)
    return len(found)
