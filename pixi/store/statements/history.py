"""Turns that have ended: what is told of them later, and how they were asked."""

from collections.abc import Iterator, Mapping, Sequence

from pixi.core.conversation import PastTurn
from pixi.core.llm import Usage
from pixi.core.message import Message
from pixi.store.database import Database, portions, select_many
from pixi.store.kept import MOST_ENDED, Alternative, AnsweredMessage, LookedBack, Tally, TurnRecord
from pixi.store.statements import branches, windows
from pixi.store.statements.inbox import under
from pixi.store.statements.journal import effects_of
from pixi.store.statements.rows import (
    no_picture,
    picture_fetcher,
    unpack_framing,
    unpack_line,
    unpack_message,
)

_LAST = 2**63 - 1

_ANSWERED = (
    "(EXISTS (SELECT 1 FROM messages WHERE messages.turn = turns.id)"
    " OR EXISTS (SELECT 1 FROM messages WHERE messages.again = turns.id))"
)
"""True of a turn, and not of an attempt at one that was begun again or put off."""


def turn_behind(db: Database, prefix: str, platform_id: str) -> TurnRecord | None:
    """Return the turn that posted this message, in a conversation whose address begins with `prefix`."""
    found = db.execute(
        "SELECT turns.id FROM effects JOIN turns ON turns.id = effects.turn"
        " WHERE platform_id = ? AND conversation >= ? AND conversation < ?",
        (platform_id, *under(prefix)),
    ).fetchone()
    return None if found is None else record_of(db, found[0])


def turns(db: Database, conversation: str, limit: int, before: int | None = None) -> tuple[TurnRecord, ...]:
    """Return the last turns that ended in a conversation, oldest first, without those that were begun
    again.

    `before`: only those before the turn of this number.
    """
    found = db.execute(
        "SELECT id FROM turns WHERE conversation = ? AND finish IS NOT NULL AND id < ?"
        f" AND {_ANSWERED} ORDER BY id DESC LIMIT ?",
        (conversation, _LAST if before is None else before, max(0, limit)),
    ).fetchall()
    return tuple(record_of(db, turn) for (turn,) in reversed(found))


def ended_after(db: Database, last: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the latest turns that have ended in conversations, after the one that is given for each."""
    latest = (
        "SELECT * FROM (SELECT conversation, id FROM turns"
        f" WHERE conversation = ? AND id > ? AND finish IS NOT NULL AND {_ANSWERED}"
        f" ORDER BY id DESC LIMIT {MOST_ENDED}) AS latest"
    )
    ended = {conversation: list[int]() for conversation in last}
    for some in portions(list(last.items())):
        found = db.execute(" UNION ALL ".join([latest] * len(some)), [each for pair in some for each in pair])
        for conversation, turn in found.fetchall():
            ended[conversation].append(turn)
    return {conversation: tuple(turns) for conversation, turns in ended.items()}


def answer_to(db: Database, conversation: str, message_id: str) -> AnsweredMessage | None:
    """Return a message that came, and the turn that answers it, or did; None if it never came."""
    found = db.execute(
        "SELECT body, CASE again WHEN 0 THEN NULL ELSE coalesce(again, turn) END FROM messages"
        " WHERE conversation = ? AND id = ?",
        (conversation, message_id),
    ).fetchone()
    if found is None:
        return None
    body, turn = found
    text = None if body is None else unpack_message(body).text
    return AnsweredMessage(text, None if turn is None else record_of(db, turn))


def messages_of(
    db: Database, turns: Sequence[int], *, overheard: bool = False, pictures: bool = False
) -> dict[int, tuple[Message, ...]]:
    """Return the messages that turns answered, oldest first, of each turn that has any.

    `overheard`: also those that were not meant for the persona. Without `pictures` theirs have no bytes.
    """
    found: dict[int, list[Message]] = {}
    meant = "" if overheard else " AND addressed = 1"
    messages = (
        f"SELECT turn, number, body, conversation FROM messages WHERE turn IN ({{}}){meant}"
        " AND body IS NOT NULL ORDER BY position"
    )
    for turn, number, body, conversation in select_many(db, messages, turns):
        fetch = picture_fetcher(db, conversation) if pictures else no_picture
        found.setdefault(turn, []).append(unpack_message(body, number, fetch))
    return {turn: tuple(messages) for turn, messages in found.items()}


def alternatives(db: Database, conversation: str) -> tuple[Alternative, ...]:
    """Return those of `branches` that can stand in the conversation again, oldest first: some words are
    left.
    """
    found: list[Alternative] = []
    for branch in branches.of(db, conversation):
        first = db.execute(
            "SELECT id, began FROM turns WHERE conversation = ? AND EXISTS (SELECT 1 FROM messages"
            " WHERE messages.turn = turns.id AND addressed = 1 AND body IS NOT NULL) ORDER BY id LIMIT 1",
            (branch,),
        ).fetchone()
        if first is not None:
            after, beside = _place_of(db, conversation, branches.after(branch))
            found.append(Alternative(first[0], after, beside, branch, float(first[1])))
    return tuple(sorted(found, key=lambda each: each.turn))


def _place_of(db: Database, conversation: str, after: int) -> tuple[int, str]:
    """Return the turn behind which a branch stood, as people see it, and where that turn is now."""
    found = db.execute("SELECT conversation FROM turns WHERE id = ?", (after,)).fetchone()
    beside = conversation if found is None else found[0]
    # It may have been an attempt at a turn, of which nothing is told.
    (told,) = db.execute(
        "SELECT max(id) FROM turns WHERE conversation = ? AND id <= ? AND finish IS NOT NULL"
        f" AND {_ANSWERED}",
        (beside, after),
    ).fetchone()
    return told or 0, beside


def last_asked(db: Database, conversation: str) -> tuple[int | None, tuple[Message, ...]]:
    """Return the last messages to a persona, oldest first, and the turn that has them.

    None: they wait for one; or there are none.
    """
    fetch = picture_fetcher(db, conversation)
    asked = (
        "SELECT number, body FROM messages WHERE conversation = ? AND {} AND addressed = 1"
        " AND body IS NOT NULL ORDER BY position"
    )
    waiting = db.execute(asked.format("turn IS NULL"), (conversation,)).fetchall()
    if waiting:
        return None, tuple(unpack_message(body, number, fetch) for number, body in waiting)
    found = db.execute(
        "SELECT id FROM turns WHERE conversation = ? AND EXISTS (SELECT 1 FROM messages"
        " WHERE messages.turn = turns.id AND addressed = 1 AND body IS NOT NULL) ORDER BY id DESC LIMIT 1",
        (conversation,),
    ).fetchone()
    if found is None:
        return None, ()
    messages = db.execute(asked.format("turn = ?"), (conversation, found[0]))
    return found[0], tuple(unpack_message(body, number, fetch) for number, body in messages)


def tally(db: Database, prefix: str, since: float) -> Tally:
    """Add up the turns that began at `since` or later, in conversations under `prefix`."""
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


def record_of(db: Database, turn: int) -> TurnRecord:
    """Return a turn that is on record."""
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
    fetch = picture_fetcher(db, conversation)
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


def look_back(db: Database, turn: int) -> LookedBack | None:
    """Return a turn of this number that has ended, with how it was asked; None if there is none."""
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
        messages=_messages_of_turn(db, conversation, turn),
        past=tuple(sorted(_past(db, conversation, turn, first), key=lambda each: each.id)),
        summary=windows.summary_of(db, branches.trunk(conversation)),
        framing=framing,
    )


def _messages_of_turn(db: Database, conversation: str, turn: int) -> tuple[Message, ...]:
    """Return the messages that a turn answered or overheard, and those that came due again in it."""
    found = db.execute(
        "SELECT position, number, body FROM messages WHERE turn = ? AND body IS NOT NULL"
        " UNION SELECT position, number, body FROM messages"
        " WHERE again = ? AND conversation = ? AND body IS NOT NULL ORDER BY 1",
        (turn, turn, conversation),
    ).fetchall()
    fetch = picture_fetcher(db, conversation)
    return tuple(unpack_message(body, number, fetch) for _, number, body in found)


def _first_turn(db: Database, conversation: str, turn: int) -> int:
    """Return the turn where the window may have begun of a turn of which that is not on record."""
    (first,) = db.execute(
        "SELECT coalesce(max(first_turn), 0) FROM windows WHERE conversation = ? AND first_turn <= ?",
        (branches.trunk(conversation), turn),
    ).fetchone()
    return int(first)


def _past(db: Database, conversation: str, before: int, first: int) -> Iterator[PastTurn]:
    """Yield the turns of a conversation before one, and for a branch those that it came after."""
    while True:
        for turn in windows.turns_from(db, conversation, first, picture_fetcher(db, conversation)):
            if turn.id < before:
                yield turn
        if branches.trunk(conversation) == conversation:
            return
        after = branches.after(conversation)
        found = db.execute("SELECT conversation FROM turns WHERE id = ?", (after,)).fetchone()
        if found is None:
            return
        conversation, before = found[0], after + 1
