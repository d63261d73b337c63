"""What `doctor` says of limits and prices: what may be used, and how much of the month's dollars is gone."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pixi.core.errors import PixiError
from pixi.core.figures import cost_of
from pixi.core.spending import KINDS, Spent, day_of, first_of_month, next_month

if TYPE_CHECKING:
    from pixi.settings import Settings

_SCOPES = (("each person", "person"), ("each channel", "channel"), ("each guild", "guild"))


async def look_at_limits(settings: "Settings") -> list[tuple[bool, str]]:
    """What is fine and what is not."""
    found = [await _month(settings)]
    days = "; ".join(_days(settings))
    if days:
        found.append((True, f"in a day {days}"))
    unknown = _unpriced(settings)
    if unknown:
        found.append((True, f"no price is known for {', '.join(unknown)}: see [prices]"))
    return found


async def _month(settings: "Settings") -> tuple[bool, str]:
    stop, today = settings.limits.month_dollars, day_of(time.time())
    try:
        month = await _used(settings, today)
    except PixiError:
        return True, "what was used is not known: see the store"
    if stop is None:
        return True, f"{cost_of(month)} this month, and no stop is set (month_dollars)"
    told = f"{cost_of(month)} of ${stop:,.2f} this month ({month.cost / stop:.0%})"
    if month.cost < stop:
        return True, told
    return False, f"{told}: nobody is answered until {next_month(today)}; raise month_dollars to go on"


async def _used(settings: "Settings", today: int) -> Spent:
    from pixi.store.opening import open_existing

    store = await open_existing(settings.store.url, lambda _: None)  # what is wrong with it, `store` tells
    if store is None:
        return Spent()
    try:
        (month,) = await store.usage(first_of_month(today), today)
        return month
    finally:
        await store.close()


def _days(settings: "Settings") -> Iterator[str]:
    for words, scope in _SCOPES:
        numbers = [(getattr(settings.limits, f"{scope}_{kind}"), kind) for kind in KINDS]
        told = ", ".join(f"{number:,} {kind}" for number, kind in numbers if number is not None)
        if told:
            yield f"{words}: {told}"


def _unpriced(settings: "Settings") -> list[str]:
    """Names of models at servers whose price nobody told."""
    from pixi.settings.pricing import runs_here

    models = [settings.model, *settings.models.values(), settings.helper_model]
    every = [each for model in models for each in (model, *model.fallback)]
    unknown = [each for each in every if each.prices is None and not runs_here(each)]
    names = [each.name or "the only model there" for each in unknown]
    if settings.embedding_model is not None and settings.embedding_model.prices is None:
        names.append(settings.embedding_model.name)
    return list(dict.fromkeys(names))
