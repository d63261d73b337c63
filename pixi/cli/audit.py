"""`pixi-persona audit`: what tools changed in the world, for whom, and what came of it."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pixi.cli.flags import number_to
from pixi.core.untrusted import clipped, escaped_line, json_line

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.kept import AuditRecord

HELP = "list what tools changed: when, for whom, who agreed, and the result"

_STYLES = {"done": "green", "failed": "red", "denied": "yellow", "unknown": "bold red"}
_LONGEST_ARGUMENTS = 120  # characters in the table; --json has them all


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--limit", metavar="N", type=number_to(1_000_000), default=50, help="the latest N (default: 50)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Print the list, oldest first."""
    from pixi.cli.store_access import existing_store

    async with existing_store(settings) as store:
        records = () if store is None else await store.audit(arguments.limit)
    if arguments.json:
        for record in records:
            print(json_line(_as_json(record)))
    elif records:
        _print_table(records)
    else:
        print("Nothing is on record: no tool has changed anything yet.")
    return 0


def _as_json(record: "AuditRecord") -> dict[str, object]:
    deed = record.deed
    return {
        "id": record.id,
        "time": _time(record).isoformat(timespec="seconds"),
        "seconds": record.seconds,
        "tool": deed.tool,
        "arguments": deed.arguments,
        "outcome": record.outcome or "unknown",
        "persona": deed.persona,
        "person": deed.person or None,
        "approved_by": deed.approved_by or None,
        "conversation": deed.conversation,
        "guild": deed.guild or None,
        "turn": deed.turn,
    }


def _print_table(records: "Sequence[AuditRecord]") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("when", "tool", "arguments", "outcome", "persona", "for", "yes of", "where"):
        table.add_column(heading, overflow="fold")
    for record in records:
        deed, outcome = record.deed, record.outcome or "unknown"
        cells = (
            (f"{_time(record):%Y-%m-%d %H:%M:%S}", "dim"),
            (deed.tool, "bold"),
            (clipped(deed.arguments, _LONGEST_ARGUMENTS), ""),
            (outcome, _STYLES[outcome]),
            (deed.persona, ""),
            (deed.person or "(forgotten)", ""),
            (deed.approved_by or "-", ""),
            (deed.conversation, "dim"),
        )
        # Everything in it may be a stranger's words: no markup, no control character.
        table.add_row(*(Text(escaped_line(cell), style) for cell, style in cells))
    Console(highlight=False).print(table)


def _time(record: "AuditRecord") -> datetime:
    return datetime.fromtimestamp(record.began).astimezone()
