"""Looks back at a turn: what stands on record of how it was asked, and of what came before it."""

from collections.abc import Iterator

from pixi.core.conversation import PastTurn
from pixi.core.message import Message
from pixi.store.database import Database
from pixi.store.kept import LookedBack
from pixi.store.statements import branches, pictures, windows
from pixi.store.statements.records import record_of
from pixi.store.statements.rows import unpack_framing, unpack_message


def look_back(db: Database, turn: int) -> LookedBack | None:
    """See `Store.look_back`."""
    found = db.execute(
        "SELECT conversation, framing FROM turns WHERE id = ? AND finish IS NOT NULL", (turn,)
    ).fetchone()
    if found is None:
        return None
    conversation, body = found
    framing = None if body is None else unpack_framing(body)
    first = _first_turn(db, conversation, turn) if framing is None else framing.first_turn
    return LookedBack(
        record_of(db, turn),
        branches.trunk(conversation),
        messages=_messages(db, conversation, turn),
        past=tuple(sorted(_past(db, conversation, turn, first), key=lambda each: each.id)),
        summary=windows.summary_of(db, branches.trunk(conversation)),
        framing=framing,
    )


def _messages(db: Database, conversation: str, turn: int) -> tuple[Message, ...]:
    """Those that a turn answered or overheard, and those that came due again in it."""
    found = db.execute(
        "SELECT position, number, body FROM messages WHERE turn = ? AND body IS NOT NULL"
        " UNION SELECT position, number, body FROM messages"
        " WHERE again = ? AND conversation = ? AND body IS NOT NULL ORDER BY 1",
        (turn, turn, conversation),
    ).fetchall()
    fetch = pictures.fetching(db, conversation)
    return tuple(unpack_message(body, number, fetch) for _, number, body in found)


def _first_turn(db: Database, conversation: str, turn: int) -> int:
    """Where the window of a turn may have begun of which that is not on record."""
    (first,) = db.execute(
        "SELECT coalesce(max(first_turn), 0) FROM windows WHERE conversation = ? AND first_turn <= ?",
        (branches.trunk(conversation), turn),
    ).fetchone()
    return int(first)


def _past(db: Database, conversation: str, before: int, first: int) -> Iterator[PastTurn]:
    """The turns of a conversation before one, and of a branch those that it came after."""
    while True:
        for turn in windows.turns_from(db, conversation, first, pictures.fetching(db, conversation)):
            if turn.id < before:
                yield turn
        if branches.trunk(conversation) == conversation:
            return
        after = int(conversation.rpartition("~")[2].partition(".")[0])
        found = db.execute("SELECT conversation FROM turns WHERE id = ?", (after,)).fetchone()
        if found is None:
            return
        conversation, before = found[0], after + 1
