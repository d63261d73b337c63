"""What is kept of a person, by the id of the author: forgotten, or told to them."""

import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pixi.core.forgetting import tells_of, without
from pixi.core.lines import AssistantLine, Line, ToolCall, ToolLine, UserLine
from pixi.core.message import Message
from pixi.core.written import SILENCE
from pixi.store import memories, pictures
from pixi.store.auditing import forget_in_audit, forget_words_in_audit, told_of_audit
from pixi.store.journal import effects_of
from pixi.store.rows import OVERTAKEN, pack_line, unpack_line, unpack_message, without_quotes

_REMEMBERING = frozenset({"remember", "recall", "forget"})  # tools whose results may tell of anybody
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Part:
    """A person's part in a turn: the names and words by which they stand in it."""

    asked: bool = False  # whether the persona was meant by any of their messages
    names: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)


_Gone = defaultdict[str, list[bytes]]  # bodies of rows that went, by conversation


def forget(db: sqlite3.Connection, person: str) -> tuple[str, ...]:
    """Forget a person; gives the addresses of the conversations that changed."""
    gone: _Gone = defaultdict(list)
    parts: defaultdict[int, _Part] = defaultdict(_Part)
    memories.forget(db, person)
    _forget_quotes(db, person, gone, parts)
    _forget_messages(db, person, gone, parts)
    forget_in_audit(db, person)
    forget_words_in_audit(db, lambda turn, given: turn in parts and _is_told(parts[turn], given))
    for turn, part in parts.items():
        conversation, finish = db.execute(
            "SELECT conversation, finish FROM turns WHERE id = ?", (turn,)
        ).fetchone()
        if finish is None:  # its acts, emptied, stay until it ends: they are still to be settled
            db.execute("UPDATE turns SET generation = ? WHERE id = ?", (OVERTAKEN, turn))
            db.execute("UPDATE effects SET payload = x'' WHERE turn = ?", (turn,))
        else:
            gone[conversation] += _forget_part(db, turn, person, part)
    for conversation, bodies in gone.items():
        pictures.drop_unused(db, conversation, bodies)
    return tuple(sorted(gone))


def _forget_messages(
    db: sqlite3.Connection, person: str, gone: _Gone, parts: defaultdict[int, _Part]
) -> None:
    found = db.execute("SELECT conversation, turn, addressed, body FROM messages WHERE author = ?", (person,))
    for conversation, turn, addressed, body in found:
        gone[conversation] += () if body is None else (body,)
        if turn is not None:
            parts[turn].asked |= bool(addressed)
            if body is not None:
                message = _message(body)
                parts[turn].names.add(message.author.name)
                parts[turn].words.append(message.text)
    db.execute(
        "DELETE FROM quotes WHERE message IN (SELECT position FROM messages WHERE author = ?)", (person,)
    )
    db.execute("UPDATE messages SET body = NULL, author = NULL WHERE author = ?", (person,))


def _forget_quotes(db: sqlite3.Connection, person: str, gone: _Gone, parts: defaultdict[int, _Part]) -> None:
    """In messages of others."""
    found = db.execute(
        "SELECT position, conversation, turn, body FROM quotes JOIN messages ON position = message"
        " WHERE person = ?",
        (person,),
    ).fetchall()
    for position, conversation, turn, body in found:
        gone[conversation] += ()
        if turn is not None:
            _ = parts[turn]  # also where only an answer tells of them
            for quoted in _message(body).quoted:
                if quoted.author is not None and quoted.author.id == person:
                    parts[turn].names.add(quoted.author.name)
                    parts[turn].words.append(quoted.text)
        db.execute(
            "UPDATE messages SET body = ? WHERE position = ?", (without_quotes(body, person), position)
        )
    db.execute("DELETE FROM quotes WHERE person = ?", (person,))


def _forget_part(db: sqlite3.Connection, turn: int, person: str, part: _Part) -> list[bytes]:
    """Forget a person's part in a turn that has ended; gives the bodies of lines that went.

    What answered nobody else goes as a whole. Otherwise the words of others stay; what the persona said
    stays where the person was only overheard or quoted, unless it names them, repeats what they said, or
    rests on what is remembered: then silence stands in its place.
    """
    rows = db.execute(
        "SELECT position, kind, conversation, body FROM lines WHERE turn = ? ORDER BY position", (turn,)
    ).fetchall()
    others = db.execute(
        "SELECT 1 FROM messages WHERE turn = ? AND addressed AND author IS NOT NULL", (turn,)
    ).fetchone()
    heard: list[str] = []
    said = [effect.payload for effect in effects_of(db, turn)]
    gone: list[bytes] = []
    remembered = False
    for position, kind, conversation, body in rows:
        line = unpack_line(kind, body, pictures.fetching(db, conversation))
        if not isinstance(line, UserLine):
            remembered |= isinstance(line, ToolLine) and line.name in _REMEMBERING
            said += [line.text, *(call.arguments for call in _calls(line))]
            continue
        left = without(line, person) if others else None
        if left is None:
            db.execute("DELETE FROM lines WHERE turn = ?", (turn,))
            db.execute("DELETE FROM effects WHERE turn = ?", (turn,))
            return [body for *_, body in rows]
        heard.append(left.text)
        if left != line:
            gone.append(body)
            db.execute("UPDATE lines SET body = ? WHERE position = ?", (pack_line(left).body, position))
    if (
        part.asked
        or remembered
        or tells_of("\n".join(said), part.names, part.words, besides="\n".join(heard))
    ):
        gone += _forget_reply(db, turn)
    return gone


def _is_told(part: _Part, given: str) -> bool:
    """Whether what a tool was given in a turn may tell of a person who had this part in it."""
    return part.asked or tells_of(given, part.names, part.words, besides="")


def _calls(line: Line) -> tuple[ToolCall, ...]:
    return line.calls if isinstance(line, AssistantLine) else ()


def _forget_reply(db: sqlite3.Connection, turn: int) -> list[bytes]:
    """Let silence stand for what the persona said and did in a turn; gives the bodies of lines that went."""
    gone = db.execute("SELECT body FROM lines WHERE turn = ? AND kind = 'tool'", (turn,)).fetchall()
    db.execute("DELETE FROM effects WHERE turn = ?", (turn,))
    (position,) = db.execute(
        "SELECT min(position) FROM lines WHERE turn = ? AND kind <> 'user'", (turn,)
    ).fetchone()
    db.execute("DELETE FROM lines WHERE turn = ? AND kind <> 'user' AND position <> ?", (turn, position))
    db.execute(
        "UPDATE lines SET kind = 'assistant', body = ? WHERE position = ?",
        (pack_line(AssistantLine(SILENCE)).body, position),
    )
    return [body for (body,) in gone]


def _message(body: bytes) -> Message:
    return unpack_message(body, 0, _no_picture)


def _no_picture(digest: str) -> bytes:
    return b""


def export(db: sqlite3.Connection, person: str) -> dict[str, Any]:
    """All that is kept of a person, as plain data. Of pictures only what they are: who sent them has them."""
    talks: defaultdict[str, dict[str, Any]] = defaultdict(
        lambda: {"messages": [], "answers": [], "quoted_by_others": []}
    )
    found = db.execute(
        "SELECT conversation, number, id, sent_at, addressed, body FROM messages WHERE author = ?"
        " ORDER BY position",
        (person,),
    )
    for conversation, number, message_id, sent_at, addressed, body in found:
        told = {"id": message_id, "number": number, "time": _time(sent_at), "addressed": bool(addressed)}
        talks[conversation]["messages"].append(told | _told(db, conversation, body))
    answers = db.execute(
        "SELECT DISTINCT turns.id, turns.conversation, began, persona, model FROM messages"
        " JOIN turns ON turns.id = messages.turn WHERE author = ? AND addressed ORDER BY turns.id",
        (person,),
    )
    for turn, conversation, began, persona, model in answers.fetchall():
        acts = [
            {"kind": effect.kind, "text": _readable(effect.payload)}
            for effect in effects_of(db, turn)
            if effect.outcome == "done"
        ]
        told = {"time": _time(began), "persona": persona, "model": model}
        talks[conversation]["answers"].append(told | {"acts": acts, "history": _written(db, turn)})
    quotes = db.execute(
        "SELECT conversation, body FROM quotes JOIN messages ON position = message WHERE person = ?"
        " ORDER BY position",
        (person,),
    )
    for conversation, body in quotes:
        talks[conversation]["quoted_by_others"] += [
            {"id": quoted.id, "text": _readable(quoted.text)}
            for quoted in _message(body).quoted
            if quoted.author is not None and quoted.author.id == person
        ]
    return {
        "person": person,
        "conversations": [{"address": address, **talk} for address, talk in sorted(talks.items())],
        "done_for_you": told_of_audit(db, person),
        "memories": [told | {"time": _time(told["time"])} for told in memories.export(db, person)],
    }


def _written(db: sqlite3.Connection, turn: int) -> list[str]:
    """What of the persona's part in a turn is history: its commands, notes among them."""
    rows = db.execute(
        "SELECT kind, body FROM lines WHERE turn = ? AND kind = 'assistant' ORDER BY position", (turn,)
    )
    texts = [unpack_line(kind, body, _no_picture).text for kind, body in rows]
    return [_readable(text) for text in texts if text]


def _told(db: sqlite3.Connection, conversation: str, body: bytes | None) -> dict[str, Any]:
    """What a message says; nothing of one that was taken back."""
    if body is None:
        return {}
    message = unpack_message(body, 0, pictures.fetching(db, conversation))
    return {
        "name": _readable(message.author.name),
        "text": _readable(message.text),
        "reply_to": message.reply_to,
        "pictures": [{"type": image.media_type, "bytes": len(image.data)} for image in message.images],
    }


def _time(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _readable(text: str) -> str:
    """Text that every program can write: half a surrogate pair is none."""
    return text.encode("utf-8", "replace").decode()
