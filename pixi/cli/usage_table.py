"""What was used, drawn for a terminal: a sentence, bars by day, and a table."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pixi.core.figures import cost_of, dollars, of_the_month, share, short, summed_up
from pixi.core.spending import Part, UsageEntry, date_of
from pixi.core.untrusted import escaped_line

_HEIGHT = 6  # rows of the chart
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WIDEST_BAR = 4  # columns, with the gap behind it
_WIDE = 72  # columns of a terminal in which all columns of the table have room
_SEARCHED = 24  # more, where the web was searched
_MOST_ROWS = 40  # of people, channels and the like; the rest is told of in one
_LONGEST_NAME = 32


def print_usage(
    days: Sequence[UsageEntry], rows: Sequence[UsageEntry], by: Part, *, month: UsageEntry, stop: float | None
) -> None:
    """Print it on standard output.

    Args:
        days: each day of the time, in order.
        rows: what is in the table.
        by: what they are added up by.
        month: what was used in this month.
        stop: how many dollars may be; None: any number.
    """
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
        note = f"? {short(total.unpriced)} {_unpriced(total)} in pixi.toml."
        console.print(Text(note, "dim"))


def _unpriced(total: UsageEntry) -> str:
    """Of what the price is not known, and where it would be told."""
    if not total.usage.searches:
        return "tokens have no known price: see [prices]"
    return "tokens or web searches have no known price: see [prices], and `price` of [web_search]"


def _style(month: UsageEntry, stop: float | None) -> str:
    if stop is None:
        return "dim"
    part = month.cost / stop
    return "bold red" if part >= 1 else "yellow" if part >= 0.8 else "green"


def chart(days: Sequence[UsageEntry], width: int) -> Iterator[Text]:
    """Bars by day, or by several days where there are too many: of dollars, or of tokens if all were free."""
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
    """The first and the last day, and between them how many a bar stands for."""
    dates = [date_of(day.day) for day in (days[0], days[-1])]
    form = "%d %b" if dates[0].year == dates[1].year else "%d %b %Y"
    first, last = (f"{each:{form}}".lstrip("0") for each in dates)
    gap = max(1, wide - len(first) - len(last))
    note = f"a bar: {together} days" if together > 1 else ""
    return f"{first}{note if len(note) < gap - 1 else '':^{gap}}{last}"


def _cell(part: float, row: int) -> str:
    """What of a bar is seen in a row of the chart, counted from the bottom. The smallest bar is seen, too."""
    eighths = max(part * _HEIGHT * 8, 1 if part > 0 else 0) - (row - 1) * 8
    return _EIGHTHS[max(0, min(8, round(eighths)))]


def _measure(value: float, by_cost: bool) -> str:
    return dollars(value) if by_cost else short(int(value))


def _table(rows: Sequence[UsageEntry], total: UsageEntry, by: Part, *, wide: bool) -> Table:
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
    """Those to be shown, and how many are not: days in order, of others first what costs most."""
    used = [row for row in rows if not row.is_nothing]
    if by == "day":
        return used, 0
    used.sort(key=lambda row: (-row.cost, -row.tokens))
    return used[:_MOST_ROWS], len(used[_MOST_ROWS:])


def _cells(row: UsageEntry, *, wide: bool, searched: bool) -> Iterator[tuple[str, str]]:
    """The columns behind the name, each with its heading; that of searches only where there were some."""
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
