"""The inbox: what arrived and waits; how far each channel was read, and what people chose for it."""

import json
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from pixi.core.message import Message, Quoted
from pixi.store.database import Connection, Database, apart
from pixi.store.kept import ChannelConfig
from pixi.store.statements.leases import check_lease
from pixi.store.statements.rows import (
    as_overheard,
    drop_unused_pictures,
    keep_pictures,
    pack_message,
    with_text,
)

LAST_TURN = "coalesce(nullif(messages.again, 0), messages.turn)"
"""The turn that answers a message, or did; the later one, where it came due again."""


def receive(db: Connection, messages: list[Message]) -> list[Message | None]:
    """Put messages into the inbox and number them; None for one that was there already."""
    received: list[Message | None] = []
    for some in apart(messages, lambda message: db.as_kept(message.conversation)):
        received += _received(db, some)
    return received


def _received(db: Connection, messages: list[Message]) -> list[Message | None]:
    """Receive messages of different conversations."""
    messages = [_with_numbers(db, message) if message.quoted else message for message in messages]
    rows = [pack_message(message) for message in messages]
    # No other process writes in these conversations meanwhile, or gives the same number away.
    number = "(SELECT coalesce(max(number), 0) + 1 FROM messages WHERE conversation = ?)"
    recorded = db.execute(
        "INSERT INTO messages (conversation, id, body, author, addressed, sent_at, number)"
        f" VALUES {', '.join([f'(?, ?, ?, ?, ?, ?, {number})'] * len(rows))}"
        " ON CONFLICT (conversation, id) DO NOTHING RETURNING conversation, position, number",
        [
            value
            for message, row in zip(messages, rows, strict=True)
            for value in (
                message.conversation,
                message.id,
                row.body,
                message.author.id,
                int(message.addressed),
                message.sent_at,
                message.conversation,
            )
        ],
    )
    places = {conversation: (position, number) for conversation, position, number in recorded.fetchall()}
    received: list[Message | None] = []
    for message, row in zip(messages, rows, strict=True):
        place = places.get(db.as_kept(message.conversation))
        if place is None:
            received.append(None)
            continue
        position, number = place
        for person in {one.author.id for one in message.quoted if one.author} - {message.author.id}:
            db.execute("INSERT INTO quotes (person, message) VALUES (?, ?)", (person, position))
        keep_pictures(db, message.conversation, row)
        received.append(replace(message, number=number))
    return received


def _with_numbers(db: Database, message: Message) -> Message:
    return replace(message, quoted=tuple(_numbered(db, message.conversation, one) for one in message.quoted))


def _numbered(db: Database, conversation: str, quoted: Quoted) -> Quoted:
    """Return a quote with the number of its message, if the conversation knows its words."""
    found = db.execute(
        "SELECT number FROM messages WHERE conversation = ? AND id = ? AND body IS NOT NULL",
        (conversation, quoted.id),
    ).fetchone()
    number = found[0] if found else None
    return replace(quoted, number=number or 0)


def revise(db: Database, conversation: str, message_id: str, text: str) -> bool:
    """Change the text of a message that waits or whose turn is under way; False for any other."""
    found = _not_answered(db, conversation, message_id)
    if found is None:
        return False
    position, body = found
    db.execute("UPDATE messages SET body = ? WHERE position = ?", (with_text(body, text), position))
    return True


def withdraw(db: Database, conversation: str, message_id: str) -> bool:
    """Forget the text and pictures of a message that waits or whose turn is under way; False for any
    other.
    """
    found = _not_answered(db, conversation, message_id)
    if found is None:
        return False
    position, body = found
    db.execute("UPDATE messages SET body = NULL WHERE position = ?", (position,))
    db.execute("DELETE FROM quotes WHERE message = ?", (position,))
    drop_unused_pictures(db, conversation, [body])
    return True


def only_hear(
    db: Connection, conversation: str, message_ids: Collection[str], *, lease: int | None = None
) -> None:
    """Mark messages that wait, or whose turn is under way, as overheard: nobody answers them.

    `StoreOutdated`, and nothing is marked, if the conversation is not owned by that lease any more; None:
    whoever asks need not own it.
    """
    if lease is not None:
        check_lease(db, conversation, lease)
    for message_id in message_ids:
        found = _not_answered(db, conversation, message_id)
        if found is not None:
            position, body = found
            # One that comes due again was heard before: it waits no longer, and stays as it was answered.
            db.execute(
                "UPDATE messages SET addressed = CASE WHEN again IS NULL THEN 0 ELSE addressed END,"
                " body = CASE WHEN again IS NULL THEN ? ELSE body END, again = NULL WHERE position = ?",
                (as_overheard(body), position),
            )


def _not_answered(db: Database, conversation: str, message_id: str) -> tuple[int, bytes] | None:
    """Return place and body of a message that waits, or whose turn is under way."""
    found = db.execute(
        f"SELECT position, body FROM messages LEFT JOIN turns ON turns.id = {LAST_TURN}"
        " WHERE messages.conversation = ? AND messages.id = ? AND body IS NOT NULL"
        " AND (finish IS NULL OR again = 0)",
        (conversation, message_id),
    ).fetchone()
    return None if found is None else tuple(found)


def message_id(db: Database, conversation: str, number: int) -> str | None:
    """Return the id of the message of that number."""
    found = db.execute(
        "SELECT id FROM messages WHERE conversation = ? AND number = ?", (conversation, number)
    ).fetchone()
    return None if found is None else str(found[0])


def unanswered(db: Database, prefix: str, since: float) -> tuple[str, ...]:
    """Return addresses that begin with `prefix` and have a turn that was not ended, or an addressed
    message that waits and was sent at `since` (seconds since the epoch) or later.
    """
    found = db.execute(
        "SELECT conversation FROM turns WHERE finish IS NULL AND conversation >= ? AND conversation < ?"
        " UNION SELECT conversation FROM messages WHERE turn IS NULL AND addressed = 1 AND body IS NOT NULL"
        " AND conversation >= ? AND conversation < ? AND sent_at >= ?"
        " UNION SELECT conversation FROM messages WHERE again = 0 AND body IS NOT NULL"
        " AND conversation >= ? AND conversation < ? AND sent_at >= ? ORDER BY 1",
        (*under(prefix), *under(prefix), since, *under(prefix), since),
    )
    return tuple(address for (address,) in found)


def under(prefix: str) -> tuple[str, str]:
    """Return the first text that begins with a prefix, and one after the last."""
    return prefix, f"{prefix}\U0010ffff"


def places(db: Database) -> dict[str, ChannelConfig]:
    """Return what people chose, by the channel's address."""
    found = db.execute("SELECT address, personas, model, home FROM places ORDER BY address")
    return {
        address: ChannelConfig(tuple(json.loads(personas)), model, bool(home))
        for address, personas, model, home in found
    }


def set_place(db: Database, address: str, place: ChannelConfig) -> None:
    """Keep what people chose for a channel; the default place is not kept."""
    if place == ChannelConfig():
        db.execute("DELETE FROM places WHERE address = ?", (address,))
        return
    db.execute(
        "INSERT INTO places (address, personas, model, home) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (address) DO UPDATE"
        " SET personas = excluded.personas, model = excluded.model, home = excluded.home",
        (address, json.dumps(place.personas), place.model, int(place.home)),
    )


def watermarks(db: Database, prefix: str) -> dict[str, int]:
    """Return the last message that was taken note of in each channel, by addresses that begin with
    `prefix`.
    """
    found = db.execute(
        "SELECT address, last FROM watermarks WHERE address >= ? AND address < ?", under(prefix)
    )
    return dict(found)


def mark(db: Database, news: Mapping[str, int]) -> None:
    """Raise watermarks; a lower one changes nothing."""
    db.executemany(
        "INSERT INTO watermarks (address, last) VALUES (?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > watermarks.last",
        list(news.items()),
    )
