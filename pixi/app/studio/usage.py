"""Use and cost, as `pixi-persona usage --json` tells it, and how far budgets are used."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from pixi.app.service import BotService
from pixi.app.studio.rows import operator_route
from pixi.core.routes import AddonRoute, Caller
from pixi.core.spending import DAY_SECONDS, KINDS, SCOPES, as_row, day_of, every_day, next_month

_MOST_SHARES = 10  # of each limit, whoever used most of it first


class UsageQuery(Struct):
    """A choice of days up to today, and of what they are added up by."""

    days: Annotated[int, Meta(ge=1, le=3_660)] = 30
    by: Literal["day", "person", "channel", "guild", "model", "persona"] = "day"


class UsedShare(Struct):
    """Somebody's use of a daily limit today: `limit` of `kind` for each of a `scope`."""

    scope: str
    name: str
    kind: str
    used: int
    limit: int


class MonthShown(Struct):
    """Use and cost of the month.

    Attributes:
        used: as a row of `usage --json`, without a day.
        dollars: how many there may be; None: any number.
        ends: the first day of the next one.
    """

    used: dict[str, Any]
    dollars: float | None
    ends: str


class UsageShown(Struct):
    """Use over some days.

    Attributes:
        days: each day of the time in order, as rows of `usage --json`, those too on which nothing was used.
        rows: as `usage --json --by …`; by persona what its turns came to.
        names: of the people in `rows` and `shares`, by their ids; "": not known.
        shares: of today, whoever used most of each first.
    """

    by: str
    days: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    names: dict[str, str]
    month: MonthShown
    shares: list[UsedShare]


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the route of the screen."""

    async def usage(caller: Caller, asked: UsageQuery) -> UsageShown:
        store, today = service.store, day_of(time.time())
        first = today - asked.days + 1
        by_day = await store.usage(first, today, "day")
        if asked.by == "persona":
            rows = await _by_persona(service, first, today)
        else:
            found = by_day if asked.by == "day" else await store.usage(first, today, asked.by)
            rows = [as_row(row, asked.by) for row in found]
        shares = await _shares(service, today)
        people = {str(row["person"]) for row in rows if row.get("person")}
        people |= {each.name for each in shares if each.scope == "person"}
        bill = await service.engine.bill()
        of_month = as_row(bill.month, "day")
        del of_month["day"]
        return UsageShown(
            asked.by,
            [as_row(row, "day") for row in every_day(by_day, first, today)],
            rows,
            await store.names_of(people),
            MonthShown(of_month, bill.month_dollars, next_month(today).isoformat()),
            shares,
        )

    return (operator_route("GET", "/api/studio/usage", usage, "See what was used"),)


async def _by_persona(service: BotService, first: int, today: int) -> list[dict[str, object]]:
    found = await service.store.usage_by_persona(first * DAY_SECONDS, (today + 1) * DAY_SECONDS)
    rows = [{"persona": persona, **asdict(sums)} for persona, sums in found.items()]
    for row in rows:
        row["unpriced_turns"], row["cost"] = row.pop("unpriced"), round(row["cost"], 9)
    return rows


async def _shares(service: BotService, today: int) -> list[UsedShare]:
    """Return how much was used today of all that is limited."""
    told: list[UsedShare] = []
    for scope in reversed(SCOPES):
        allowance = service.settings.limits.budgets.of(scope)
        if not allowance.is_bounded:
            continue
        used = await service.store.usage(today, today, scope)
        for kind in KINDS:
            limit = allowance.of(kind)
            if limit is None:
                continue
            most = sorted(used, key=lambda row: -row.amount(kind))[:_MOST_SHARES]
            told += [
                UsedShare(scope, str(getattr(row, scope)), kind, row.amount(kind), limit)
                for row in most
                if getattr(row, scope) and row.amount(kind)
            ]
    return told
