"""What was used, in figures and words that people read at a glance."""

from collections.abc import Sequence
from dataclasses import replace

from pixi.core.spending import Part, UsageEntry, date_of


def as_row(row: UsageEntry, by: Part) -> dict[str, object]:
    """Return a row of the books for programs, under the part that it is added up by."""
    key = date_of(row.day).isoformat() if by == "day" else getattr(row, by) or None
    return {
        by: key,
        "messages": row.messages,
        "writes": row.writes,
        "prompt_tokens": row.usage.prompt_tokens,
        "cached_tokens": row.usage.cached_tokens,
        "completion_tokens": row.usage.completion_tokens,
        "searches": row.usage.searches,
        "unpriced_tokens": row.unpriced,
        "cost": round(row.cost, 9),
    }


def every_day(rows: Sequence[UsageEntry], first: int, last: int) -> list[UsageEntry]:
    """Return the days in order, also those on which nothing was used."""
    known = {row.day: row for row in rows}
    return [known.get(day, replace(UsageEntry(), day=day)) for day in range(first, last + 1)]


def summed_up(when: str, spent: UsageEntry) -> str:
    """One sentence of all that was used."""
    usage = spent.usage
    searches = f"{usage.searches:,} web {_many('search', usage.searches)}, " if usage.searches else ""
    return (
        f"{when}: {spent.messages:,} {_many('message', spent.messages)}, "
        f"{short(usage.prompt_tokens)} tokens read ({share(spent)} cached), "
        f"{short(usage.completion_tokens)} written, "
        f"{spent.writes:,} {_many('change', spent.writes)} by tools, {searches}{cost_of(spent)}."
    )


def of_the_month(month: UsageEntry, stop: float | None) -> str:
    """What the month came to, beside what it may; None: whatever it costs."""
    if stop is None:
        return f"This month: {cost_of(month)}, with no limit (month_dollars)."
    return f"This month: {cost_of(month)} of ${stop:,.2f} ({month.cost / stop:.0%})."


def of_searches(ways: Sequence[UsageEntry]) -> str:
    """What each way of searching the web came to in the month, a line each; "" where there was none."""
    return "\n".join(f"This month: {way.usage.searches:,} × {way.model}, {cost_of(way)}." for way in ways)


def short(count: int) -> str:
    """A number as one reads it at a glance."""
    for unit, size in (("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * size or (unit != "k" and count >= size):
            return f"{count / size:.3g}{unit}" if count < 999.5 * size else f"{count / size:,.0f}{unit}"
    return f"{count:,}"


def share(row: UsageEntry) -> str:
    """How much of what was read came out of a cache."""
    read = row.usage.prompt_tokens
    return f"{min(row.usage.cached_tokens, read) / read:.0%}" if read else "–"


def dollars(cost: float) -> str:
    """A sum; small ones to the first two digits that count."""
    if 0 < cost < 0.0001:
        return "<$0.0001"
    return f"${cost:.2g}" if 0 < cost < 0.095 else f"${cost:,.2f}"


def cost_of(row: UsageEntry) -> str:
    """What it cost; with a question mark where not all of it is known."""
    if row.unpriced and not row.cost:
        return "?"
    return f"{dollars(row.cost)}{'+?' if row.unpriced else ''}"


def how_many(number: int, thing: str, things: str = "") -> str:
    """A number with what is counted: `1 message`, `2 messages`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def some(names: Sequence[str], most: int = 5) -> str:
    """Return names for a line: the first few of them."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}es" if word.endswith("ch") else f"{word}s"
