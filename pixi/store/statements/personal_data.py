"""Exports all that is kept of a person, and finds who is meant by a name."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from pixi.store.database import Database, select_many
from pixi.store.kept import Known
from pixi.store.statements import branches, memories, windows
from pixi.store.statements.audit import export_audit
from pixi.store.statements.http import files_of, requests_of, talks_of
from pixi.store.statements.rows import as_utf8, picture_fetcher, unpack_line, unpack_message, unpack_text
from pixi.store.statements.usage import export_usage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def known(db: Database, name: str) -> tuple[Known, ...]:
    """Return the people who have this id, or wrote under this name, with how much is kept of them."""
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    if not _is_known(db, name):
        wanted = name.strip().casefold()
        for author, body in db.execute("SELECT author, body FROM messages WHERE body IS NOT NULL"):
            called = unpack_message(body).author.name
            if called.strip().casefold() == wanted:
                names[author][called] += 1
        return tuple(_known(db, person, tuple(called)) for person, called in sorted(names.items()))
    bodies = db.execute(
        "SELECT body FROM messages WHERE author = ? AND body IS NOT NULL ORDER BY position DESC LIMIT 50",
        (name,),
    )
    last = dict.fromkeys(unpack_message(body).author.name for (body,) in bodies)
    return (_known(db, name, tuple(last)),)


_TABLES = (("messages", "author"), ("memories", "person"), ("audit", "person"), ("files", "person"))
_ALL_TABLES = (
    *_TABLES,
    ("quotes", "person"),
    ("usage", "person"),
    ("audit", "approved_by"),
    ("talks", "person"),
    ("requests", "person"),
)


def _is_known(db: Database, person: str) -> bool:
    return bool(person) and any(
        db.execute(f"SELECT 1 FROM {table} WHERE {column} = ? LIMIT 1", (person,)).fetchone()
        for table, column in _ALL_TABLES
    )


def _known(db: Database, person: str, names: tuple[str, ...]) -> Known:
    counts = [
        int(db.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (person,)).fetchone()[0])
        for table, column in _TABLES
    ]
    places = db.execute("SELECT DISTINCT conversation FROM messages WHERE author = ?", (person,))
    talks = {branches.trunk(address) for (address,) in places}
    last = db.execute(
        "SELECT sent_at FROM messages WHERE author = ? ORDER BY position DESC LIMIT 1", (person,)
    ).fetchone()
    messages, facts, deeds, sent = counts
    return Known(person, names, messages, len(talks), facts, deeds, sent, float(last[0]) if last else 0.0)


def export(db: Database, person: str) -> dict[str, Any]:
    """Return all that is kept of a person, as plain data. Pictures are only named: who sent them has them."""
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
    for conversation in list(talks):
        if summary := _summary(db, conversation, person):
            talks[conversation]["summary"] = summary
    answers = db.execute(
        "SELECT turns.id, turns.conversation, began, persona, model FROM messages"
        " JOIN turns ON turns.id = messages.turn WHERE author = ? AND addressed = 1"
        " UNION SELECT turns.id, turns.conversation, began, persona, model FROM messages"
        " JOIN turns ON turns.id = messages.again WHERE author = ? ORDER BY 1",
        (person, person),
    )
    answered = answers.fetchall()
    turns = [turn for turn, *_ in answered]
    acts, written = _acts(db, turns), _written(db, turns)
    for turn, conversation, began, persona, model in answered:
        told = {"time": _time(began), "persona": persona, "model": model}
        talks[conversation]["answers"].append(told | {"acts": acts[turn], "history": written[turn]})
    quotes = db.execute(
        "SELECT conversation, body FROM quotes JOIN messages ON position = message WHERE person = ?"
        " ORDER BY position",
        (person,),
    )
    for conversation, body in quotes:
        talks[conversation]["quoted_by_others"] += [
            {"id": quoted.id, "text": as_utf8(quoted.text)}
            for quoted in unpack_message(body).quoted
            if quoted.author is not None and quoted.author.id == person
        ]
    return {
        "person": person,
        "conversations": [{"address": address, **talk} for address, talk in sorted(talks.items())],
        "talks": [
            {
                "address": talk.address,
                "persona": talk.persona,
                "name": as_utf8(talk.name),
                "began": _time(talk.began),
                "last": _time(talk.last),
            }
            for talk in talks_of(db, person)
        ],
        "files": [
            {
                "name": as_utf8(file.name),
                "type": file.media_type,
                "bytes": file.size,
                "time": _time(file.sent_at),
            }
            for file in files_of(db, person)
        ],
        "requests": [
            {"address": address, "message": message, "time": _time(sent_at)}
            for address, message, sent_at in requests_of(db, person)
        ],
        "done_for_you": export_audit(db, person),
        "usage": export_usage(db, person),
        "memories": [told | {"time": _time(told["time"])} for told in memories.export(db, person)],
    }


def _summary(db: Database, conversation: str, person: str) -> str:
    """Return the summary of a talk in which nobody else took part; "" for any other."""
    others = db.execute(
        "SELECT 1 FROM messages WHERE conversation = ? AND author IS NOT NULL AND author <> ? LIMIT 1",
        (conversation, person),
    ).fetchone()
    return "" if others else as_utf8(windows.summary_of(db, conversation))


def _acts(db: Database, turns: list[int]) -> defaultdict[int, list[dict[str, str]]]:
    """Return what the persona did in each turn."""
    acts: defaultdict[int, list[dict[str, str]]] = defaultdict(list)
    asked = (
        "SELECT turn, kind, payload FROM effects WHERE turn IN ({}) AND outcome = 'done' ORDER BY sequence"
    )
    for turn, kind, payload in select_many(db, asked, turns):
        acts[turn].append({"kind": kind, "text": as_utf8(unpack_text(payload))})
    return acts


def _written(db: Database, turns: list[int]) -> defaultdict[int, list[str]]:
    """Return the persona's part of the history in each turn: its commands, notes among them."""
    written: defaultdict[int, list[str]] = defaultdict(list)
    asked = "SELECT turn, kind, body FROM lines WHERE turn IN ({}) AND kind = 'assistant' ORDER BY position"
    for turn, kind, body in select_many(db, asked, turns):
        text = unpack_line(kind, body).text
        if text:
            written[turn].append(as_utf8(text))
    return written


def _told(db: Database, conversation: str, body: bytes | None) -> dict[str, Any]:
    """Return what a message says; nothing of one that was taken back."""
    if body is None:
        return {}
    message = unpack_message(body, 0, picture_fetcher(db, conversation))
    return {
        "name": as_utf8(message.author.name),
        "text": as_utf8(message.text),
        "reply_to": message.reply_to,
        **({"instructions": as_utf8(message.instructions)} if message.instructions else {}),
        "pictures": [{"type": image.media_type, "bytes": len(image.data)} for image in message.images],
    }


def _time(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")
