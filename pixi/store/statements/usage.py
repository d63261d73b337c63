"""The books: what was used, added up by day, person, channel, guild and model."""

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

from pixi.core.llm import Usage
from pixi.core.spending import Part, Scope, UsageEntry, date_of
from pixi.store.database import Database, execute_values, select_many
from pixi.store.statements.rows import OVERTAKEN, as_utf8

_FIGURES = (
    "messages",
    "writes",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "searches",
    "unpriced",
    "cost",
)
_KEPT_DAYS = 2  # of notices: a clock that was set back may come to an earlier day again

_ADDED = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in _FIGURES)
_SUMS = ", ".join(f"coalesce(sum({name}), 0)" for name in _FIGURES)


def spend(db: Database, spent: Collection[UsageEntry]) -> None:
    """Enter what was used. What was used in a turn that `forget` overtook counts for no person."""
    asked = f"SELECT id FROM turns WHERE generation = {OVERTAKEN} AND id IN ({{}})"
    overtaken = {turn for (turn,) in select_many(db, asked, {each.turn for each in spent if each.turn})}
    sums: dict[tuple[int, str, str, str, str], UsageEntry] = {}
    for each in spent:
        person, channel = each.person, each.channel
        if each.turn in overtaken:
            person = ""
            if not each.guild:  # a channel of two names the person
                channel = ""
        key = each.day, as_utf8(person), as_utf8(channel), as_utf8(each.guild), as_utf8(each.model)
        sums[key] = sums.get(key, UsageEntry()) + each
    # In the same order everywhere, so that two processes never wait for each other's rows.
    execute_values(
        db,
        f"INSERT INTO usage (day, person, channel, guild, model, {', '.join(_FIGURES)}) VALUES {{}}"
        f" ON CONFLICT (day, person, channel, guild, model) DO UPDATE SET {_ADDED}",
        [
            (
                *key,
                each.messages,
                each.writes,
                each.usage.prompt_tokens,
                each.usage.cached_tokens,
                each.usage.completion_tokens,
                each.usage.searches,
                each.unpriced,
                each.cost,
            )
            for key, each in sorted(sums.items(), key=itemgetter(0))
        ],
    )


def used(db: Database, day: int, scope: Scope, name: str, since: int | None = None) -> UsageEntry:
    """Add up what a person, a channel or a guild used on a day; `since`: and from that day on."""
    found = db.execute(
        f"SELECT {_SUMS} FROM usage WHERE day BETWEEN ? AND ? AND {scope} = ?",
        (day if since is None else since, day, as_utf8(name)),
    )
    return _spent((), found.fetchone())


def usage(db: Database, first: int, last: int, *by: Part) -> tuple[UsageEntry, ...]:
    """Add up what was used from one day to another, both included, by these parts and in their order.

    Without any part it is one sum.
    """
    columns = ", ".join(by)
    grouped = f" GROUP BY {columns} ORDER BY {columns}" if by else ""
    found = db.execute(
        f"SELECT {columns}{', ' if by else ''}{_SUMS} FROM usage WHERE day BETWEEN ? AND ?{grouped}",
        (first, last),
    )
    return tuple(_spent(by, row) for row in found.fetchall())


def notice(db: Database, day: int, scope: Scope, name: str) -> bool:
    """Note that a person, a channel or a guild was told on a day that there is no more for them.

    False: they had been told.
    """
    db.execute("DELETE FROM notices WHERE day < ?", (day - _KEPT_DAYS,))
    done = db.execute(
        "INSERT INTO notices (day, whom) VALUES (?, ?) ON CONFLICT (day, whom) DO NOTHING RETURNING day",
        (day, _whom(scope, name)),
    )
    return done.fetchone() is not None


def forget_in_usage(db: Database, person: str) -> None:
    """Keep that something was used, without the person, and without the talk if it was between two."""
    name = as_utf8(person)
    if not name:
        return  # which is nobody
    db.execute(
        f"INSERT INTO usage (day, person, channel, guild, model, {', '.join(_FIGURES)})"
        " SELECT day, '', CASE WHEN guild = '' THEN '' ELSE channel END AS place, guild, model,"
        f" {', '.join(f'sum({figure})' for figure in _FIGURES)}"
        " FROM usage WHERE person = ?"
        " GROUP BY day, CASE WHEN guild = '' THEN '' ELSE channel END, guild, model"
        f" ON CONFLICT (day, person, channel, guild, model) DO UPDATE SET {_ADDED}",
        (name,),
    )
    db.execute("DELETE FROM usage WHERE person = ?", (name,))
    db.execute("DELETE FROM notices WHERE whom = ?", (_whom("person", name),))


def export_usage(db: Database, person: str) -> list[dict[str, object]]:
    """Return what a person used, by day, as plain data."""
    found = db.execute(
        f"SELECT day, channel, model, {_SUMS} FROM usage WHERE person = ?"
        " GROUP BY day, channel, model ORDER BY day, channel, model",
        (as_utf8(person),),
    )
    return [_exported(_spent(("day", "channel", "model"), row)) for row in found.fetchall()]


def _exported(spent: UsageEntry) -> dict[str, object]:
    return {
        "day": date_of(spent.day).isoformat(),
        "channel": spent.channel,
        "model": spent.model,
        "messages": spent.messages,
        "writes": spent.writes,
        "prompt_tokens": spent.usage.prompt_tokens,
        "cached_tokens": spent.usage.cached_tokens,
        "completion_tokens": spent.usage.completion_tokens,
        "searches": spent.usage.searches,
        "cost": spent.cost,
    }


def _spent(by: Sequence[Part], row: Sequence[Any]) -> UsageEntry:
    """Read a row of these parts and all figures. PostgreSQL gives sums of whole numbers as decimals."""
    place = dict(zip(by, row, strict=False))
    messages, writes, prompt, cached, completion, searches, unpriced, cost = row[len(by) :]
    return UsageEntry(
        **place,
        messages=int(messages),
        writes=int(writes),
        usage=Usage(int(prompt), int(cached), int(completion), int(searches)),
        unpriced=int(unpriced),
        cost=float(cost),
    )


def _whom(scope: Scope, name: str) -> str:
    return f"{scope}:{as_utf8(name)}"
