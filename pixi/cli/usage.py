"""`pixi-persona usage`: what was used and what it cost, as a table and a chart."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.figures import as_row, every_day
from pixi.core.spending import Part, UsageEntry, day_of, first_of_month
from pixi.core.untrusted import json_line

if TYPE_CHECKING:
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "--days", metavar="N", type=_count, default=30, help="how many, with today (default: 30)"
    )
    parser.add_argument("--by", choices=PARTS, default="day", help="what to add up by (default: day)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 3_660:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 3660")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Print what was used in the last days."""
    from pixi.cli.running import run_async
    from pixi.settings import load

    settings = load(Path(arguments.config) if arguments.config else None)
    return run_async(_show(settings, arguments.days, arguments.by, as_json=arguments.json))


async def _show(settings: "Settings", days: int, by: Part, *, as_json: bool) -> int:
    from pixi.cli.printer import Printer
    from pixi.store.opening import open_existing

    today = day_of(time.time())
    first = today - days + 1
    by_day: Sequence[UsageEntry] = ()
    rows: Sequence[UsageEntry] = ()
    month = UsageEntry()
    store = await open_existing(settings.store.url, Printer(settings).complain)
    if store is not None:
        try:
            by_day = await store.usage(first, today, "day")
            rows = by_day if by == "day" else await store.usage(first, today, by)
            (month,) = await store.usage(first_of_month(today), today)
        finally:
            await store.close()
    if as_json:
        for row in rows:
            print(json_line(as_row(row, by)))
    elif not any(not row.is_nothing for row in by_day):
        since = "today" if days == 1 else f"in the last {days} days"
        print(f"Nothing was used {since}: talk to somebody, and it is counted here.")
    else:
        from pixi.cli.usage_table import print_usage

        every = every_day(by_day, first, today)
        print_usage(every, list(rows), by, month=month, stop=settings.limits.month_dollars)
    return 0
