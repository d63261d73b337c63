"""The store that an operator asks about a person, and the person whom they name, by id or by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pixi.cli.printer import Printer
from pixi.core.errors import PixiError
from pixi.core.figures import how_many
from pixi.core.untrusted import escaped_line

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.kept import Known
    from pixi.store.store import Store


@asynccontextmanager
async def opened(settings: "Settings") -> "AsyncIterator[Store]":
    """The store of the settings, with the tables of their addons; it is closed at the end.

    Raises:
        ConfigError: it cannot be opened.
        PixiError: there is none yet.
    """
    from pixi.app.addons import reach_tables
    from pixi.store.opening import open_existing

    tell = Printer(settings.store.url).complain
    store = await open_existing(settings.store.url, tell)
    if store is None:
        raise PixiError("Nothing is kept of anybody: there is no store yet.")
    try:
        await reach_tables(settings, store, tell)
        yield store
    finally:
        await store.close()


async def find_person(store: "Store", name: str) -> "Known":
    """The one who is meant.

    Raises:
        PixiError: nothing is kept of anybody of that id or name, or several go by it.
        StoreError: the store cannot be read.
    """
    found = await store.people(name)
    if not found:
        raise PixiError(
            f"Nothing is kept of {escaped_line(name)!r}: give the id of the author, or the name they write "
            "under."
        )
    if len(found) > 1:
        told = ", ".join(f"{escaped_line(one.id)} ({how_many(one.messages, 'message')})" for one in found)
        raise PixiError(f"Several are called {escaped_line(name)!r}: name one by id: {told}.")
    return found[0]
