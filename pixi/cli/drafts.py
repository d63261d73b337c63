"""`pixi-persona drafts`: spots that people submitted to the companion, and what becomes of them."""

import argparse
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE
from pixi.cli.flags import number_to

if TYPE_CHECKING:
    from pixi.companion.data import SpotDraft, Status
    from pixi.companion.tables import CompanionTables
    from pixi.settings import Settings

HELP = "list, approve and reject spots that people submitted"

EPILOG = """\
Without an action the drafts are listed that wait, the oldest 50. Approval makes a spot of a draft, which
everybody finds from then on. Whoever submitted it is told by the persona when they next talk.

examples:
  pixi-persona drafts
  pixi-persona drafts list --limit 200
  pixi-persona drafts approve 66f0c1d2e3a4b5c6d7e8f901
  pixi-persona drafts reject 66f0c1d2e3a4b5c6d7e8f901 --reason "It is private ground."
"""


_LISTED = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="list|approve|reject")
    listing = actions.add_parser("list", help="list drafts (the default)", allow_abbrev=False)
    listing.add_argument("--all", action="store_true", help="all of them, also those that were decided")
    listing.add_argument(
        "--limit",
        metavar="N",
        type=number_to(1_000_000),
        help=f"how many of the oldest (default: {_LISTED}; with --all: all)",
    )
    approve = actions.add_parser("approve", help="turn a draft into a spot", allow_abbrev=False)
    approve.add_argument("draft", metavar="ID")
    reject = actions.add_parser("reject", help="reject a draft", allow_abbrev=False)
    reject.add_argument("draft", metavar="ID")
    reject.add_argument(
        "--reason", metavar="TEXT", default="", help="the reason, for the person who submitted it"
    )
    parser.set_defaults(all=False, limit=None)


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """List drafts, or decide one."""
    from pixi.cli.chat import login
    from pixi.cli.companion import companion_tables

    async with companion_tables(settings) as tables:
        match arguments.action:
            case "approve":
                draft = await tables.approve(arguments.draft, f"terminal:{login()}")
            case "reject":
                draft = await tables.reject(arguments.draft, f"terminal:{login()}", arguments.reason)
            case _:
                return await _list(tables, every=arguments.all, limit=arguments.limit)
    print(_told(draft))
    return FINE


async def _list(tables: "CompanionTables", *, every: bool, limit: int | None) -> int:
    """Print drafts, the oldest first, and how many more there are."""
    from pixi.companion.data import MOST_DRAFTS

    status: Status | None = None if every else "pending_approval"
    count = await tables.count_drafts(status)
    wanted = limit or (count if every else _LISTED)
    printed, last = 0, ""
    while printed < wanted:
        drafts = await tables.drafts(status, min(wanted - printed, MOST_DRAFTS), last)
        for draft in drafts:
            print(_told(draft))
        if not drafts:
            break
        printed, last = printed + len(drafts), drafts[-1].id
    if not printed:
        print("There are no drafts." if every else "No drafts wait.")
    elif count > printed:
        more = "more: drafts list --all" if every else "more that wait: drafts list"
        print(f"… and {count - printed} {more} --limit {count}")
    return FINE


def _told(draft: "SpotDraft") -> str:
    """Return a draft in lines. Strangers wrote it."""
    from pixi.core.untrusted import escaped_line

    where = ", ".join(part for part in (draft.city, draft.state, draft.country) if part)
    if draft.latitude is not None and draft.longitude is not None:
        where += f" ({draft.latitude:.5f}, {draft.longitude:.5f})"
    place = escaped_line(where.strip()) or escaped_line(draft.maps_url)
    lines = [
        f"{draft.id}  {draft.status.replace('_', ' ')}",
        f"  {escaped_line(draft.name)}: {draft.kind}, {place}",
        f"  {escaped_line(draft.description)}" if draft.description else "",
        f"  by {escaped_line(draft.submitted_by) or 'somebody'}",
        f"  decided by {escaped_line(draft.decided_by)} {escaped_line(draft.why)}".rstrip()
        if draft.decided_by
        else "",
    ]
    return "\n".join(filter(None, lines))
