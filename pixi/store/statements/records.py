"""What is told of turns later: which of them posted a message, the last ones, and what they came to."""

from pixi.core.deltas import Usage
from pixi.store.database import Database
from pixi.store.kept import Tally, TurnRecord
from pixi.store.statements import pictures
from pixi.store.statements.inbox import under
from pixi.store.statements.journal import effects_of
from pixi.store.statements.rows import unpack_line

_ANSWERED = (
    "(EXISTS (SELECT 1 FROM messages WHERE messages.turn = turns.id)"
    " OR EXISTS (SELECT 1 FROM messages WHERE messages.again = turns.id))"
)
"""True of a turn, and not of an attempt at one that was begun again or put off."""


def turn_behind(db: Database, prefix: str, platform_id: str) -> TurnRecord | None:
    """The turn that posted this message, in a conversation under a prefix."""
    found = db.execute(
        "SELECT turns.id FROM effects JOIN turns ON turns.id = effects.turn"
        " WHERE platform_id = ? AND conversation >= ? AND conversation < ?",
        (platform_id, *under(prefix)),
    ).fetchone()
    return None if found is None else _record(db, found[0])


def turns(db: Database, conversation: str, limit: int) -> tuple[TurnRecord, ...]:
    """The last turns that were ended in a conversation, oldest first."""
    found = db.execute(
        "SELECT id FROM turns WHERE conversation = ? AND finish IS NOT NULL"
        f" AND {_ANSWERED} ORDER BY id DESC LIMIT ?",
        (conversation, max(0, limit)),
    ).fetchall()
    return tuple(_record(db, turn) for (turn,) in reversed(found))


def tally(db: Database, prefix: str, since: float) -> Tally:
    """What the turns came to that began since then, in conversations under a prefix."""
    count, prompt, cached, completion, cost = db.execute(
        f"SELECT count(CASE WHEN {_ANSWERED} THEN 1 END), {_sum('prompt_tokens')}, {_sum('cached_tokens')},"
        f" {_sum('completion_tokens')}, {_sum('cost')} FROM turns WHERE began >= ?"
        # What is added keeps it from reading through all turns that there ever were, by their conversations.
        " AND conversation || '' >= ? AND conversation || '' < ?",
        (since, *under(prefix)),
    ).fetchone()
    return Tally(int(count), Usage(int(prompt), int(cached), int(completion)), float(cost))


def _sum(column: str) -> str:
    return f"coalesce(sum({column}), 0)"


def _record(db: Database, turn: int) -> TurnRecord:
    conversation, persona, model, began, finish, steps, prompt, cached, completion, cost = db.execute(
        "SELECT conversation, persona, model, began, finish, steps,"
        " prompt_tokens, cached_tokens, completion_tokens, cost FROM turns WHERE id = ?",
        (turn,),
    ).fetchone()
    people = db.execute(
        "SELECT position, author FROM messages WHERE turn = ? AND addressed = 1 AND author IS NOT NULL"
        " UNION SELECT position, author FROM messages"
        " WHERE again = ? AND conversation = ? AND author IS NOT NULL ORDER BY 1",
        (turn, turn, conversation),
    )
    lines = db.execute("SELECT kind, body FROM lines WHERE turn = ? ORDER BY position", (turn,))
    fetch = pictures.fetching(db, conversation)
    return TurnRecord(
        turn,
        conversation,
        persona,
        model,
        float(began),
        finish,
        steps or 0,
        Usage(prompt or 0, cached or 0, completion or 0),
        cost,
        people=tuple(dict.fromkeys(author for _, author in people)),
        lines=tuple(unpack_line(kind, body, fetch) for kind, body in lines),
        effects=effects_of(db, turn),
    )
