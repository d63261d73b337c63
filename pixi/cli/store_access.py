"""Access of subcommands to the store: open it, find a person, record what a model used without an engine."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pixi.cli.console import Printer
from pixi.core.errors import PixiError, Reporter
from pixi.core.llm import Prices, Usage
from pixi.core.spending import (
    Count,
    UsageEntry,
    UsageScope,
    day_of,
    first_of_month,
    how_many,
    next_month,
    spent_on,
)
from pixi.core.untrusted import escaped_line

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.kept import Known
    from pixi.store.store import Store


@asynccontextmanager
async def existing_store(settings: "Settings") -> "AsyncIterator[Store | None]":
    """Open the store of the settings; None where there is none yet. It is closed at the end.

    Raises:
        ConfigError: it cannot be opened.
    """
    from pixi.store.opening import open_existing

    store = await open_existing(settings.store.url, Printer(settings).complain)
    try:
        yield store
    finally:
        if store is not None:
            await store.close()


@asynccontextmanager
async def store_with_addons(settings: "Settings") -> "AsyncIterator[Store]":
    """Open the store of the settings, with the tables of their addons; it is closed at the end.

    Raises:
        ConfigError: it cannot be opened.
        PixiError: there is none yet.
    """
    from pixi.app.addons import reach_tables

    async with existing_store(settings) as store:
        if store is None:
            raise PixiError("Nothing is kept of anybody: there is no store yet.")
        await reach_tables(settings, store, Printer(settings).complain)
        yield store


async def find_person(store: "Store", name: str) -> "Known":
    """Return the one who is meant.

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


@asynccontextmanager
async def recorded_usage(settings: "Settings", *, asks: bool = True) -> AsyncGenerator[Count, None]:
    """Record what models use in a block. Gives what is told of it, and records it when the block is left.

    Args:
        settings: where use is recorded, and what a month may cost.
        asks: whether a model will be asked at all.

    Raises:
        PixiError: the month's dollars are spent, or nobody can tell.
    """
    tell = Printer(settings).complain
    if asks:
        await _within_the_month(settings)
    used: list[UsageEntry] = []

    def count(model: str, usage: Usage, prices: Prices | None) -> None:
        if usage != Usage():
            used.append(replace(spent_on(UsageScope(), model, usage, prices), day=day_of(time.time())))

    try:
        yield count
    finally:
        await _enter(settings.store.url, tuple(used), tell)


async def _within_the_month(settings: "Settings") -> None:
    stop, today = settings.limits.month_dollars, day_of(time.time())
    if stop is None:
        return
    async with existing_store(settings) as store:
        if store is None:
            return
        (month,) = await store.usage(first_of_month(today), today)
    if month.cost >= stop:
        raise PixiError(
            f"The ${stop:,.2f} of this month are spent: no model is asked until {next_month(today)}; "
            "raise month_dollars to go on."
        )


async def _enter(url: str, used: tuple[UsageEntry, ...], tell: Reporter) -> None:
    if not used:
        return
    from pixi.store.opening import open_store

    try:
        store = await open_store(url, tell)
        try:
            await store.spend(used)
        finally:
            await store.close()
    except PixiError as error:  # the answer is there all the same
        tell(f"what was used is not on record: {error}")
