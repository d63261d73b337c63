"""Enters in the books what a command used that has no engine to do it, as long as the month has money."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pixi.cli.printer import Printer, Tell
from pixi.core.deltas import Prices, Usage
from pixi.core.errors import PixiError
from pixi.core.spending import Count, UsageEntry, UsageScope, day_of, first_of_month, next_month, spent_on

if TYPE_CHECKING:
    from pixi.settings import Settings


@asynccontextmanager
async def on_the_books(settings: "Settings", *, asks: bool = True) -> AsyncGenerator[Count, None]:
    """Use models within this block. What it gives is told what they used, which is entered at the end.

    Args:
        settings: where the books are, and what a month may cost.
        asks: whether a model will be asked at all.

    Raises:
        PixiError: the month's dollars are spent, or nobody can tell.
    """
    tell = Printer(settings).complain
    if asks:
        await _within_the_month(settings, tell)
    used: list[UsageEntry] = []

    def count(model: str, usage: Usage, prices: Prices | None) -> None:
        if usage != Usage():
            used.append(replace(spent_on(UsageScope(), model, usage, prices), day=day_of(time.time())))

    try:
        yield count
    finally:
        await _enter(settings.store.url, tuple(used), tell)


async def _within_the_month(settings: "Settings", tell: Tell) -> None:
    stop = settings.limits.month_dollars
    if stop is None:
        return
    from pixi.store.opening import open_existing

    store = await open_existing(settings.store.url, tell)
    if store is None:
        return
    today = day_of(time.time())
    try:
        (month,) = await store.usage(first_of_month(today), today)
    finally:
        await store.close()
    if month.cost >= stop:
        raise PixiError(
            f"The ${stop:,.2f} of this month are spent: no model is asked until {next_month(today)}; "
            "raise month_dollars to go on."
        )


async def _enter(url: str, used: tuple[UsageEntry, ...], tell: Tell) -> None:
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
        tell(f"what was used is not in the books: {error}")
