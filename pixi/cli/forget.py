"""`pixi-persona forget`: everything that is kept of a person goes, also while a bot runs."""

import argparse
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.cli.flags import agreed

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.kept import Known

HELP = "forget a person: words, memories, summaries, and answers to them alone"

EPILOG = """\
What goes: their messages, quotes and pictures, what personas remember of them, what was answered to them
alone, what tools were given for them, and by whom tokens were used. What others said stays. A bot that runs
on the same store ends a reply to them within a second or two, and shows no model what was forgotten.

examples:
  pixi-persona forget 219384756102938475
  pixi-persona forget Mo --yes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "user", metavar="USER", help="the id of the author, or their name, if only one person has it"
    )
    parser.add_argument("--yes", action="store_true", help="do it without asking")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Forget them, once somebody said yes."""
    from pixi.app.retention import forget_beside
    from pixi.cli.console import Printer
    from pixi.cli.store_access import find_person, store_with_addons
    from pixi.core.spending import how_many

    async with store_with_addons(settings) as store:
        person = await find_person(store, arguments.user)
        print(_told(person))
        if not arguments.yes and not agreed("Forget all of it, for good?"):
            print("Nothing was forgotten.")
            return FAILED
        changed = await store.forget(person.id)
        left = await forget_beside(settings, store, person.id)
    print(f"Forgotten. Changed: {how_many(len(changed), 'conversation')}.")
    for line in left:
        Printer(settings).complain(line)
    return FINE


def _told(person: "Known") -> str:
    """Describe a person and what would be forgotten."""
    from pixi.core.spending import how_many
    from pixi.core.untrusted import escaped_line

    names = ", ".join(map(escaped_line, person.names))
    parts = [
        how_many(person.messages, "message"),
        f"in {how_many(person.conversations, 'conversation')}",
        how_many(person.memories, "memory", "memories"),
        f"{how_many(person.deeds, 'change')} by tools",
    ]
    return f"{escaped_line(person.id)}{f' ({names})' if names else ''}: {', '.join(parts)}"
