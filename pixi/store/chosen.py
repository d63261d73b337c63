"""What is kept of channels rather than of conversations: what people chose there, and how far it was read."""

import json
import sqlite3
from collections.abc import Mapping

from pixi.store.inbox import under
from pixi.store.store import Place


def places(db: sqlite3.Connection) -> dict[str, Place]:
    """What people chose, by the channel's address."""
    found = db.execute("SELECT address, personas, model, home FROM places ORDER BY address")
    return {
        address: Place(tuple(json.loads(personas)), model, bool(home))
        for address, personas, model, home in found
    }


def set_place(db: sqlite3.Connection, address: str, place: Place) -> None:
    """Keep what people chose for a channel; the default place is not kept."""
    if place == Place():
        db.execute("DELETE FROM places WHERE address = ?", (address,))
        return
    db.execute(
        "INSERT OR REPLACE INTO places (address, personas, model, home) VALUES (?, ?, ?, ?)",
        (address, json.dumps(place.personas), place.model, place.home),
    )


def watermarks(db: sqlite3.Connection, prefix: str) -> dict[str, int]:
    """The last message that was taken note of in each channel under a prefix."""
    found = db.execute(
        "SELECT address, last FROM watermarks WHERE address >= ? AND address < ?", under(prefix)
    )
    return dict(found)


def mark(db: sqlite3.Connection, news: Mapping[str, int]) -> None:
    """Raise watermarks."""
    db.executemany(
        "INSERT INTO watermarks (address, last) VALUES (?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > last",
        list(news.items()),
    )
