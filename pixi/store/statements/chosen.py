"""What is kept of channels rather than of conversations: what people chose there, and how far it was read."""

import json
from collections.abc import Mapping

from pixi.store.database import Database
from pixi.store.kept import ChannelConfig
from pixi.store.statements.inbox import under


def places(db: Database) -> dict[str, ChannelConfig]:
    """What people chose, by the channel's address."""
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
    """The last message that was taken note of in each channel under a prefix."""
    found = db.execute(
        "SELECT address, last FROM watermarks WHERE address >= ? AND address < ?", under(prefix)
    )
    return dict(found)


def mark(db: Database, news: Mapping[str, int]) -> None:
    """Raise watermarks."""
    db.executemany(
        "INSERT INTO watermarks (address, last) VALUES (?, ?)"
        " ON CONFLICT (address) DO UPDATE SET last = excluded.last WHERE excluded.last > watermarks.last",
        list(news.items()),
    )
