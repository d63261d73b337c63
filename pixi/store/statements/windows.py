"""Keeps where the windows of conversations stand, and what is remembered of the turns before them."""

from collections.abc import Iterable

from pixi.core.conversation import Bounds, PastTurn
from pixi.core.llm import Line
from pixi.store.database import Database
from pixi.store.kept import Fold
from pixi.store.statements.rows import Fetch, pack_text, unpack_line, unpack_text

MOST_LINES = 600
"""Lines that are folded into a summary at once: the latest ones."""

_IS_OF = "coalesce((SELECT generation FROM conversations WHERE address = ?), 0) = ?"
"""True while a conversation was not reset."""


def bounds_of(db: Database, conversation: str, context_tokens: int) -> Bounds:
    """Return where a window of so many tokens begins: no earlier than that of a larger one."""
    found = db.execute(
        "SELECT context_tokens, first_turn, notes_from, factor FROM windows"
        " WHERE conversation = ? AND context_tokens >= ?",
        (conversation, context_tokens),
    ).fetchall()
    first_turn, notes_from, own_factor = 0, 0, 1.0
    for tokens, first, noted, factor in found:
        first_turn, notes_from = max(first_turn, first), max(notes_from, noted)
        if tokens == context_tokens:
            own_factor = factor
    return Bounds(context_tokens, first_turn=first_turn, notes_from=notes_from, factor=own_factor)


def summary_of(db: Database, conversation: str) -> str:
    """Return the summary of turns that are not shown any more; "" for none."""
    found = db.execute("SELECT summary FROM summaries WHERE conversation = ?", (conversation,)).fetchone()
    return unpack_text(found[0]) if found else ""


def turns_from(db: Database, conversation: str, first: int, fetch: Fetch) -> tuple[PastTurn, ...]:
    """Return what turns left in the history, from this one on."""
    rows = db.execute(
        "SELECT turn, kind, body FROM lines WHERE conversation = ? AND turn >= ? ORDER BY turn, position",
        (conversation, first),
    )
    return _turns((turn, unpack_line(kind, body, fetch)) for turn, kind, body in rows)


def move(db: Database, conversation: str, bounds: Bounds) -> None:
    """Move a window on. It never moves back: where another process has cut more of it, that stands."""
    db.execute(
        "INSERT INTO windows (conversation, context_tokens, first_turn, notes_from, factor)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (conversation, context_tokens) DO UPDATE SET"
        " first_turn = excluded.first_turn,"
        f" notes_from = {_larger('notes_from')}, factor = {_larger('factor')}"
        " WHERE excluded.first_turn >= windows.first_turn",
        (conversation, bounds.context_tokens, bounds.first_turn, bounds.notes_from, bounds.factor),
    )


def _larger(column: str) -> str:
    ours, theirs = f"windows.{column}", f"excluded.{column}"
    return f"CASE WHEN {ours} > {theirs} THEN {ours} ELSE {theirs} END"


def begin_fold(db: Database, conversation: str, generation: int, before: int) -> Fold | None:
    """Return what was said before a turn and is not part of the summary; None if that is nothing.

    Of very much, only the latest.
    """
    if db.execute(f"SELECT 1 WHERE {_IS_OF}", (conversation, generation)).fetchone() is None:
        return None
    db.execute(
        "INSERT INTO summaries (conversation, summarized, version, summary) VALUES (?, 0, 0, ?)"
        " ON CONFLICT (conversation) DO NOTHING",
        (conversation, b""),
    )
    summarized, version, summary = db.execute(
        "SELECT summarized, version, summary FROM summaries WHERE conversation = ?", (conversation,)
    ).fetchone()
    rows = db.execute(
        "SELECT turn, kind, body FROM lines WHERE conversation = ? AND turn > ? AND turn < ?"
        " ORDER BY turn DESC, position DESC LIMIT ?",
        (conversation, summarized, before, MOST_LINES),
    ).fetchall()
    turns = _turns((turn, unpack_line(kind, body)) for turn, kind, body in reversed(rows))
    return Fold(generation, version, unpack_text(summary), turns) if turns else None


def end_fold(db: Database, conversation: str, fold: Fold, bounds: Bounds, summary: str) -> bool:
    """Cut the window, and keep a summary of everything before it, in one transaction.

    False, and nothing changed, if `reset`, `forget` or another summary overtook it.
    """
    done = db.execute(
        "UPDATE summaries SET summary = ?, summarized = ?, version = version + 1"
        f" WHERE conversation = ? AND version = ? AND {_IS_OF}",
        [
            pack_text(summary),
            bounds.first_turn - 1,
            conversation,
            fold.version,
            conversation,
            fold.generation,
        ],
    )
    if done.rowcount != 1:
        return False
    move(db, conversation, bounds)
    return True


def forget(db: Database, conversations: Iterable[str]) -> None:
    """Forget the summaries of conversations, also those that are being written; they are begun anew.

    For whoever takes away words of which a summary may tell, or the record of who took part.
    """
    db.executemany(
        "UPDATE summaries SET summary = ?, summarized = 0, version = version + 1 WHERE conversation = ?",
        [(b"", conversation) for conversation in conversations],
    )


def drop(db: Database, conversation: str) -> None:
    """Drop windows and summary of a conversation that was reset."""
    db.execute("DELETE FROM windows WHERE conversation = ?", (conversation,))
    db.execute("DELETE FROM summaries WHERE conversation = ?", (conversation,))


def _turns(lines: Iterable[tuple[int, Line]]) -> tuple[PastTurn, ...]:
    """Put lines together by the numbers of their turns."""
    turns: dict[int, list[Line]] = {}
    for turn, line in lines:
        turns.setdefault(turn, []).append(line)
    return tuple(PastTurn(turn, tuple(left)) for turn, left in turns.items())


def rewind(db: Database, conversation: str, turn: int) -> None:
    """Drop windows that begin behind a turn that was taken out, and a summary that tells of it."""
    db.execute("DELETE FROM windows WHERE conversation = ? AND first_turn >= ?", (conversation, turn))
    db.execute("DELETE FROM summaries WHERE conversation = ? AND summarized >= ?", (conversation, turn))
