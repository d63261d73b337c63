"""`pixi-persona usage`: what was used, as a table or as rows for programs."""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pixi.cli.flags import number_to
from pixi.core.spending import (
    Part,
    UsageEntry,
    as_row,
    cost_of,
    date_of,
    day_of,
    dollars,
    every_day,
    first_of_month,
    of_the_month,
    share,
    short,
    summed_up,
)
from pixi.core.untrusted import escaped_line, json_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from pixi.settings import Settings

HELP = "show what was used and what it cost: messages, tokens, dollars, by day, person, channel or model"

EPILOG = """\
Days are those of UTC. Tokens that a server found in its cache are part of those that were read.

examples:
  pixi-persona usage
  pixi-persona usage --days 7 --by person
  pixi-persona usage --days 365 --by model --json
"""

PARTS: tuple[Part, ...] = ("day", "person", "channel", "guild", "model")

_HEIGHT = 6  # rows of the chart
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WIDEST_BAR = 4  # columns, with the gap behind it
_WIDE = 72  # columns of a terminal in which all columns of the table have room
_SEARCHED = 24  # more, where the web was searched
_MOST_ROWS = 40  # of people, channels and the like; the rest is told of in one
_LONGEST_NAME = 32


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--days", metavar="N", type=number_to(3_660), default=30, help="how many, with today (default: 30)"
    )
    parser.add_argument("--by", choices=PARTS, default="day", help="what to add up by (default: day)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Print what was used in the last days."""
    from pixi.cli.store_access import existing_store

    days, by, today = arguments.days, arguments.by, day_of(time.time())
    first = today - days + 1
    by_day: Sequence[UsageEntry] = ()
    rows: Sequence[UsageEntry] = ()
    month = UsageEntry()
    async with existing_store(settings) as store:
        if store is not None:
            by_day = await store.usage(first, today, "day")
            rows = by_day if by == "day" else await store.usage(first, today, by)
            (month,) = await store.usage(first_of_month(today), today)
    if arguments.json:
        for row in rows:
            print(json_line(as_row(row, by)))
    elif all(row.is_nothing for row in by_day):
        since = "today" if days == 1 else f"in the last {days} days"
        print(f"Nothing was used {since}: talk to somebody, and it is counted here.")
    else:
        _print(every_day(by_day, first, today), rows, by, month, settings.limits.month_dollars)
    return 0


def _print(
    days: Sequence[UsageEntry], rows: Sequence[UsageEntry], by: Part, month: UsageEntry, stop: float | None
) -> None:
    """Print sums, a chart of the days, and the rows as a table. `stop`: the dollars of a month; None: any."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    total = sum(days[1:], days[0])
    when = "Today" if len(days) == 1 else f"The last {len(days)} days"
    console.print(Text(summed_up(when, total)))
    console.print(Text(of_the_month(month, stop), _style(month, stop)))
    if len(days) > 1:
        console.print()
        for line in chart(days, console.width):
            console.print(line)
    # Ways to search have long names, and a column of their own.
    needed = _WIDE + _SEARCHED if total.usage.searches else _WIDE
    console.print(_table(rows, total, by, wide=console.width >= needed))
    if total.unpriced:
        said = "tokens have no known price: see [prices]"
        if total.usage.searches:
            said = "tokens or web searches have no known price: see [prices], and `price` of [web_search]"
        console.print(Text(f"? {short(total.unpriced)} {said} in pixi.toml.", "dim"))


def _style(month: UsageEntry, stop: float | None) -> str:
    if stop is None:
        return "dim"
    part = month.cost / stop
    return "bold red" if part >= 1 else "yellow" if part >= 0.8 else "green"


def chart(days: Sequence[UsageEntry], width: int) -> "Iterator[Text]":
    """Yield the rows of a chart: a bar for a day or several, of dollars, or of tokens if all were free."""
    from rich.text import Text

    by_cost = any(day.cost > 0 for day in days)
    scale = max(8, len(_measure(max(day.cost if by_cost else day.tokens for day in days), by_cost)))
    room = max(10, width - scale - 3)
    together = -(-len(days) // room)
    bars = [days[at : at + together] for at in range(0, len(days), together)]
    values = [sum(day.cost if by_cost else day.tokens for day in bar) for bar in bars]
    columns = min(_WIDEST_BAR, room // len(bars))
    solid = max(1, columns - 1)
    most = max(values)
    for row in range(_HEIGHT, 0, -1):
        label = _measure(most, by_cost) if row == _HEIGHT else ""
        cells = "".join(_cell(value / (most or 1), row) * solid + " " * (columns - solid) for value in values)
        yield Text.assemble((f"{label:>{scale}} ", "dim"), ("│", "dim"), (cells.rstrip(), "cyan"))
    yield Text(f"{'0':>{scale}} └{'─' * (len(bars) * columns)}", "dim")
    wide = len(bars) * columns
    yield Text(f"{' ' * (scale + 2)}{_below(days, wide, together)}", "dim")


def _below(days: Sequence[UsageEntry], wide: int, together: int) -> str:
    """Return the first and the last day, and between them how many a bar stands for."""
    dates = [date_of(day.day) for day in (days[0], days[-1])]
    form = "%d %b" if dates[0].year == dates[1].year else "%d %b %Y"
    first, last = (f"{each:{form}}".lstrip("0") for each in dates)
    gap = max(1, wide - len(first) - len(last))
    note = f"a bar: {together} days" if together > 1 else ""
    return f"{first}{note if len(note) < gap - 1 else '':^{gap}}{last}"


def _cell(part: float, row: int) -> str:
    """Return the part of a bar that a row of the chart shows, counted from the bottom; none is invisible."""
    eighths = max(part * _HEIGHT * 8, 1 if part > 0 else 0) - (row - 1) * 8
    return _EIGHTHS[max(0, min(8, round(eighths)))]


def _measure(value: float, by_cost: bool) -> str:
    return dollars(value) if by_cost else short(int(value))


def _table(rows: Sequence[UsageEntry], total: UsageEntry, by: Part, *, wide: bool) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    shown, left_out = _sorted(rows, by)
    footer = "all" if not left_out else f"all, and {left_out:,} more"
    table.add_column(by, footer=footer, overflow="fold")
    searched = total.usage.searches > 0
    for name, of_total in _cells(total, wide=wide, searched=searched):
        table.add_column(name, footer=of_total, justify="right", no_wrap=True)
    for row in shown:
        # A name may be a stranger's words: no markup, no control character.
        cells = [Text(cell) for _, cell in _cells(row, wide=wide, searched=searched)]
        table.add_row(Text(_name(row, by, wide=wide)), *cells)
    return table


def _sorted(rows: Sequence[UsageEntry], by: Part) -> tuple[list[UsageEntry], int]:
    """Return rows to show, and how many are not: days in order, of others first what costs most."""
    used = [row for row in rows if not row.is_nothing]
    if by == "day":
        return used, 0
    used.sort(key=lambda row: (-row.cost, -row.tokens))
    return used[:_MOST_ROWS], len(used[_MOST_ROWS:])


def _cells(row: UsageEntry, *, wide: bool, searched: bool) -> Iterator[tuple[str, str]]:
    """Yield the columns behind the name, each with its heading; searches only where there were some."""
    yield "messages" if wide else "msgs", f"{row.messages:,}"
    if wide:
        yield "changes", f"{row.writes:,}"
    yield "read", short(row.usage.prompt_tokens)
    yield "cached", share(row)
    yield "written", short(row.usage.completion_tokens)
    if searched:
        yield "searches" if wide else "srch", f"{row.usage.searches:,}"
    yield "cost", cost_of(row)


def _name(row: UsageEntry, by: Part, *, wide: bool) -> str:
    if by == "day":
        return f"{date_of(row.day):%a %Y-%m-%d}" if wide else date_of(row.day).isoformat()
    name = escaped_line(str(getattr(row, by)))
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 1]}…"
    return name or ("(nobody)" if by == "person" else "(none)")
