"""Every statement of the store, as functions of a connection that stands in a transaction."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pixi.core.deltas import Usage
from pixi.core.errors import StoreError
from pixi.core.events import Finish
from pixi.core.lines import Line
from pixi.core.message import Message
from pixi.store.rows import (
    Row,
    kind_of,
    pack_line,
    pack_message,
    pack_text,
    unpack_line,
    unpack_message,
    unpack_text,
)
from pixi.store.store import Effect, Outcome, SavedConversation, UnfinishedTurn

_Values = TypeVar("_Values", bound=tuple[object, ...])


def receive(db: sqlite3.Connection, message: Message) -> bool:
    """Put a message into the inbox; False if it was there already."""
    row = pack_message(message)
    done = db.execute(
        "INSERT INTO messages (conversation, id, body) VALUES (?, ?, ?)"
        " ON CONFLICT (conversation, id) DO NOTHING",
        (message.conversation, message.id, row.body),
    )
    if done.rowcount:
        _keep_pictures(db, message.conversation, row)
    return done.rowcount == 1


def load(db: sqlite3.Connection, conversation: str) -> SavedConversation:
    """All that is known of a conversation."""
    generation = _generation(db, conversation)
    fetch = _pictures_of(db, conversation)
    lines = db.execute(
        "SELECT kind, body FROM lines WHERE conversation = ? ORDER BY position", (conversation,)
    )
    waiting = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND turn IS NULL AND body IS NOT NULL"
        " ORDER BY position",
        (conversation,),
    )
    # Those that a reset overtook are no longer of interest: what they write would be dropped.
    turns = db.execute(
        "SELECT id FROM turns WHERE conversation = ? AND finish IS NULL AND generation = ? ORDER BY id",
        (conversation, generation),
    )
    return SavedConversation(
        generation,
        lines=tuple(unpack_line(kind, body, fetch) for kind, body in lines),
        waiting=tuple(unpack_message(body, fetch) for (body,) in waiting),
        unfinished=tuple(_unfinished(db, turn, fetch) for (turn,) in turns),
    )


def _unfinished(db: sqlite3.Connection, turn: int, fetch: Callable[[str], bytes]) -> UnfinishedTurn:
    messages = db.execute("SELECT body FROM messages WHERE turn = ? ORDER BY position", (turn,))
    effects = db.execute(
        "SELECT sequence, kind, payload, outcome, platform_id FROM effects WHERE turn = ? ORDER BY sequence",
        (turn,),
    )
    return UnfinishedTurn(
        turn,
        messages=tuple(unpack_message(body, fetch) for (body,) in messages),
        effects=tuple(
            Effect(turn, sequence, kind, unpack_text(payload), outcome, platform_id)
            for sequence, kind, payload, outcome, platform_id in effects
        ),
    )


def begin_turn(
    db: sqlite3.Connection, conversation: str, generation: int, persona: str, message_ids: Iterable[str]
) -> int:
    """Record a turn and take its messages out of the waiting; gives its id."""
    done = db.execute(
        "INSERT INTO turns (conversation, generation, persona) VALUES (?, ?, ?)",
        (conversation, generation, persona),
    )
    turn = done.lastrowid
    if turn is None:
        raise StoreError("The database gave the new turn no id.")
    for message_id in message_ids:
        taken = db.execute(
            "UPDATE messages SET turn = ? WHERE conversation = ? AND id = ? AND turn IS NULL",
            (turn, conversation, message_id),
        )
        if taken.rowcount != 1:
            raise StoreError(f"The message {message_id!r} of {conversation!r} is not waiting for an answer.")
    return turn


@dataclass(frozen=True, slots=True)
class Intent:
    """An act that is about to be performed."""

    turn: int
    sequence: int
    kind: str
    payload: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of an act."""

    turn: int
    sequence: int
    outcome: Outcome
    platform_id: str | None


def record(db: sqlite3.Connection, acts: list[Intent | Settlement]) -> None:
    """Record intents and outcomes, in order as far as one and the same act is concerned."""
    intents = [(a.turn, a.sequence, a.kind, pack_text(a.payload)) for a in acts if isinstance(a, Intent)]
    for rows in _portions(intents):
        db.execute(
            f"INSERT INTO effects (turn, sequence, kind, payload) VALUES {_marks(len(rows), 4)}",
            [value for row in rows for value in row],
        )
    outcomes = [(a.turn, a.sequence, a.outcome, a.platform_id) for a in acts if isinstance(a, Settlement)]
    for settled in _portions(outcomes):
        done = db.execute(
            "UPDATE effects SET outcome = news.column3, platform_id = news.column4"
            f" FROM (VALUES {_marks(len(settled), 4)}) AS news"
            " WHERE turn = news.column1 AND sequence = news.column2",
            [value for row in settled for value in row],
        )
        if done.rowcount != len(settled):
            turn, sequence = settled[0][:2]
            raise StoreError(f"There is no act {sequence} of turn {turn} on record.")


def _portions(rows: list[_Values]) -> Iterator[list[_Values]]:
    """The rows in portions of a few sizes, so that few different statements are prepared, and kept."""
    at = 0
    while at < len(rows):
        size = next(size for size in (64, 8, 1) if size <= len(rows) - at)
        yield rows[at : at + size]
        at += size


def _marks(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def end_turn(
    db: sqlite3.Connection, turn: int, lines: tuple[Line, ...], *, finish: Finish, steps: int, usage: Usage
) -> bool:
    """End a turn and append its lines; False if a reset overtook it, or it was ended before."""
    found = db.execute("SELECT conversation, generation, finish FROM turns WHERE id = ?", (turn,)).fetchone()
    if found is None:
        raise StoreError(f"There is no turn {turn} on record.")
    conversation, generation, already = found
    if already is not None:
        return False
    db.execute(
        "UPDATE turns SET ended = strftime('%s', 'now'), finish = ?, steps = ?,"
        " prompt_tokens = ?, cached_tokens = ?, completion_tokens = ? WHERE id = ?",
        (finish, steps, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, turn),
    )
    if generation != _generation(db, conversation):
        db.execute("DELETE FROM effects WHERE turn = ?", (turn,))
        return False
    if not lines:
        db.execute("UPDATE messages SET turn = NULL WHERE turn = ?", (turn,))
    for line in lines:
        row = pack_line(line)
        db.execute(
            "INSERT INTO lines (conversation, turn, kind, body) VALUES (?, ?, ?, ?)",
            (conversation, turn, kind_of(line), row.body),
        )
        _keep_pictures(db, conversation, row)
    return True


def reset(db: sqlite3.Connection, conversation: str) -> int:
    """Forget what was said in a conversation; gives the new generation."""
    db.execute(
        "INSERT INTO conversations (address, generation) VALUES (?, 1)"
        " ON CONFLICT (address) DO UPDATE SET generation = generation + 1",
        (conversation,),
    )
    generation = _generation(db, conversation)
    db.execute("DELETE FROM lines WHERE conversation = ?", (conversation,))
    db.execute("DELETE FROM pictures WHERE conversation = ?", (conversation,))
    db.execute("UPDATE messages SET body = NULL WHERE conversation = ? AND body IS NOT NULL", (conversation,))
    # The acts of the turn that is under way stay until it ends: they are still to be settled.
    db.execute(
        "DELETE FROM effects WHERE turn IN ("
        "SELECT id FROM turns WHERE conversation = ? AND (finish IS NOT NULL OR generation < ?))",
        (conversation, generation - 1),
    )
    return generation


def check(db: sqlite3.Connection) -> None:
    """Read through the whole database."""
    found = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise StoreError("The database is damaged; move its file away, or put a copy in its place.")


def _generation(db: sqlite3.Connection, conversation: str) -> int:
    found = db.execute("SELECT generation FROM conversations WHERE address = ?", (conversation,)).fetchone()
    return int(found[0]) if found else 0


def _keep_pictures(db: sqlite3.Connection, conversation: str, row: Row) -> None:
    for digest, data in row.pictures.items():
        db.execute(
            "INSERT INTO pictures (conversation, digest, data) VALUES (?, ?, ?)"
            " ON CONFLICT (conversation, digest) DO NOTHING",
            (conversation, digest, data),
        )


def _pictures_of(db: sqlite3.Connection, conversation: str) -> Callable[[str], bytes]:
    def fetch(digest: str) -> bytes:
        found = db.execute(
            "SELECT data FROM pictures WHERE conversation = ? AND digest = ?", (conversation, digest)
        ).fetchone()
        if found is None:
            raise StoreError(f"A picture of {conversation!r} is missing from the store.")
        return bytes(found[0])

    return fetch
