"""The journal: turns, the acts on record, and the lines that they leave in the history."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pixi.core.conversation import Bounds
from pixi.core.deltas import Usage
from pixi.core.errors import StoreError, StoreOutdated
from pixi.core.events import Finish
from pixi.core.lines import Line
from pixi.store.database import Database
from pixi.store.kept import Effect, Outcome, SavedConversation, UnfinishedTurn
from pixi.store.statements import pictures, windows
from pixi.store.statements.auditing import changes_of, forget_arguments
from pixi.store.statements.forgotten import revision_of, touch
from pixi.store.statements.many import marks, portions, select_many
from pixi.store.statements.rows import OVERTAKEN, kind_of, pack_line, pack_text, unpack_message, unpack_text


def load(db: Database, conversation: str, context_tokens: int | None = None) -> SavedConversation:
    """What is known of a conversation, from where the window of such a model begins; None: all of it."""
    generation = _generation(db, conversation)
    fetch = pictures.fetching(db, conversation)
    bounds = Bounds(0) if context_tokens is None else windows.bounds_of(db, conversation, context_tokens)
    waiting = db.execute(
        "SELECT body, number FROM messages WHERE conversation = ? AND turn IS NULL AND body IS NOT NULL"
        " ORDER BY position",
        (conversation,),
    )
    turns = db.execute(
        "SELECT id, generation FROM turns WHERE conversation = ? AND finish IS NULL ORDER BY id",
        (conversation,),
    )
    return SavedConversation(
        generation,
        turns=windows.turns_from(db, conversation, bounds.first_turn, fetch),
        waiting=tuple(unpack_message(body, number, fetch) for body, number in waiting),
        unfinished=tuple(
            _unfinished(db, turn, fetch) if begun == generation else UnfinishedTurn(turn, (), ())
            for turn, begun in turns
        ),
        bounds=bounds,
        summary=windows.summary_of(db, conversation),
        revision=revision_of(db, conversation),
    )


def _unfinished(db: Database, turn: int, fetch: Callable[[str], bytes]) -> UnfinishedTurn:
    messages = db.execute(
        "SELECT body, number FROM messages WHERE turn = ? AND body IS NOT NULL ORDER BY position", (turn,)
    )
    return UnfinishedTurn(
        turn,
        messages=tuple(unpack_message(body, number, fetch) for body, number in messages),
        effects=effects_of(db, turn),
        deeds=changes_of(db, turn),
    )


def effects_of(db: Database, turn: int) -> tuple[Effect, ...]:
    """The acts of a turn that are on record, in order."""
    effects = db.execute(
        "SELECT sequence, kind, payload, outcome, platform_id, target FROM effects"
        " WHERE turn = ? ORDER BY sequence",
        (turn,),
    )
    return tuple(
        Effect(turn, sequence, kind, unpack_text(payload), outcome, platform_id, target)
        for sequence, kind, payload, outcome, platform_id, target in effects
    )


def begin_turn(
    db: Database,
    conversation: str,
    generation: int,
    persona: str,
    message_ids: Iterable[str],
    *,
    model: str,
    revision: int | None = None,
) -> int:
    """Record a turn and take its messages out of the waiting; gives its id."""
    if revision is not None and revision_of(db, conversation) > revision:
        raise StoreOutdated(f"Words were taken out of {conversation!r} meanwhile.")
    (turn,) = db.execute(
        "INSERT INTO turns (conversation, generation, persona, model, began) VALUES (?, ?, ?, ?, ?)"
        " RETURNING id",
        (conversation, generation, persona, model, time.time()),
    ).fetchone()
    for message_id in message_ids:
        taken = db.execute(
            "UPDATE messages SET turn = ? WHERE conversation = ? AND id = ? AND turn IS NULL"
            " RETURNING author IS NULL AND body IS NULL",
            (turn, conversation, message_id),
        ).fetchone()
        if taken is None:
            raise StoreError(f"The message {message_id!r} of {conversation!r} is not waiting for an answer.")
        if taken[0]:  # forgotten just now, while whoever asks still has it in mind
            db.execute("UPDATE turns SET generation = ? WHERE id = ?", (OVERTAKEN, turn))
    return int(turn)


@dataclass(frozen=True, slots=True)
class Intent:
    """An act that is about to be performed."""

    turn: int
    sequence: int
    kind: str
    payload: str
    target: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of an act."""

    turn: int
    sequence: int
    outcome: Outcome
    platform_id: str | None


def record(db: Database, acts: list[Intent | Settlement]) -> None:
    """Record intents and outcomes, in order as far as one and the same act is concerned.

    An act of a turn that was ended is not recorded, and so not done: another process took the turn over.
    """
    begun = sorted({act.turn for act in acts if isinstance(act, Intent)})
    for (turn,) in select_many(db, "SELECT id FROM turns WHERE finish IS NOT NULL AND id IN ({})", begun):
        raise StoreOutdated(f"Turn {turn} was ended by another process.")
    intents = [
        (a.turn, a.sequence, a.kind, pack_text(a.payload), a.target) for a in acts if isinstance(a, Intent)
    ]
    for rows in portions(intents):
        db.execute(
            f"INSERT INTO effects (turn, sequence, kind, payload, target) VALUES {marks(len(rows), 5)}",
            [value for row in rows for value in row],
        )
    outcomes = [(a.turn, a.sequence, a.outcome, a.platform_id) for a in acts if isinstance(a, Settlement)]
    for settled in portions(outcomes):
        done = db.execute(
            "UPDATE effects SET outcome = news.column3, platform_id = news.column4"
            f" FROM (VALUES {marks(len(settled), 4)}) AS news"
            " WHERE turn = news.column1 AND sequence = news.column2",
            [value for row in settled for value in row],
        )
        if done.rowcount != len(settled):
            turn, sequence = settled[0][:2]
            raise StoreError(f"There is no act {sequence} of turn {turn} on record.")


def end_turn(
    db: Database,
    turn: int,
    lines: tuple[Line, ...],
    *,
    finish: Finish,
    steps: int,
    usage: Usage,
    cost: float | None,
    model: str | None = None,
    window: Bounds | None = None,
) -> bool:
    """End a turn and append its lines; False if it was overtaken by a reset or the like, or ended before."""
    found = db.execute("SELECT conversation, generation, finish FROM turns WHERE id = ?", (turn,)).fetchone()
    if found is None:
        raise StoreError(f"There is no turn {turn} on record.")
    conversation, generation, already = found
    if already is not None:
        return False
    tokens = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
    db.execute(
        "UPDATE turns SET ended = ?, finish = ?, steps = ?,"
        " prompt_tokens = ?, cached_tokens = ?, completion_tokens = ?, cost = ?, model = COALESCE(?, model)"
        " WHERE id = ?",
        (time.time(), finish, steps, *tokens, cost, model, turn),
    )
    overtaken = generation != _generation(db, conversation)
    if not lines and not (overtaken and _was_seen(db, turn)):
        db.execute("UPDATE messages SET turn = NULL WHERE turn = ?", (turn,))
        # Nothing tells any more to whom these acts were an answer: so nothing may tell of anybody.
        db.execute("UPDATE effects SET payload = ? WHERE turn = ?", (b"", turn))
    if overtaken:
        db.execute("DELETE FROM effects WHERE turn = ?", (turn,))
        return False
    for line in lines:
        row = pack_line(line)
        db.execute(
            "INSERT INTO lines (conversation, turn, kind, body) VALUES (?, ?, ?, ?)",
            (conversation, turn, kind_of(line), row.body),
        )
        pictures.keep(db, conversation, row)
    if window is not None:
        windows.move(db, conversation, window)
    return True


def _was_seen(db: Database, turn: int) -> bool:
    """Whether people may have seen an act of a turn, so that its messages are as good as answered."""
    found = db.execute(
        "SELECT 1 FROM effects WHERE turn = ? AND (outcome IS NULL OR outcome <> 'refused')", (turn,)
    )
    return found.fetchone() is not None


def reset(db: Database, conversation: str) -> int:
    """Forget what was said in a conversation; gives the new generation."""
    db.execute(
        "INSERT INTO conversations (address, generation) VALUES (?, 1)"
        " ON CONFLICT (address) DO UPDATE SET generation = conversations.generation + 1",
        (conversation,),
    )
    generation = _generation(db, conversation)
    windows.drop(db, conversation)
    db.execute("DELETE FROM lines WHERE conversation = ?", (conversation,))
    db.execute("DELETE FROM pictures WHERE conversation = ?", (conversation,))
    db.execute(
        "DELETE FROM quotes WHERE message IN (SELECT position FROM messages WHERE conversation = ?)",
        (conversation,),
    )
    db.execute(
        "UPDATE messages SET body = NULL, author = NULL WHERE conversation = ?"
        " AND (body IS NOT NULL OR author IS NOT NULL)",
        (conversation,),
    )
    forget_arguments(db, conversation)
    touch(db, [conversation])
    # The acts of the turn that is under way, emptied, stay until it ends: they are still to be settled.
    db.execute(
        "UPDATE effects SET payload = ? WHERE turn IN"
        " (SELECT id FROM turns WHERE conversation = ? AND finish IS NULL)",
        (b"", conversation),
    )
    db.execute(
        "DELETE FROM effects WHERE turn IN (SELECT id FROM turns WHERE conversation = ?"
        " AND (finish IS NOT NULL OR generation BETWEEN 0 AND ?))",
        (conversation, generation - 2),
    )
    return generation


def _generation(db: Database, conversation: str) -> int:
    found = db.execute("SELECT generation FROM conversations WHERE address = ?", (conversation,)).fetchone()
    return int(found[0]) if found else 0
