"""`pixi-persona companion`: what the companion knows, taken from a file."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE

if TYPE_CHECKING:
    from pixi.companion.tables import CompanionTables
    from pixi.settings import Settings

HELP = "load spots and tricks for the companion"

EPILOG = """\
A file is JSON: {"spots": [...], "tricks": [...]}, each with the keys of the sample that comes along. What has
the _id of something that is there takes its place; nothing is deleted.

examples:
  pixi-persona companion load sample
  pixi-persona companion load spots.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand and its argument."""
    actions = parser.add_subparsers(dest="action", metavar="load", required=True)
    load = actions.add_parser("load", help="load spots and tricks", allow_abbrev=False)
    load.add_argument(
        "file", metavar="FILE", help="a JSON file, or `sample`: some 60 tricks, 40 invented spots"
    )


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Load it."""
    from pixi.cli.console import spinner
    from pixi.companion.addon import read_file, sample
    from pixi.core.spending import how_many
    from pixi.core.untrusted import escaped_line

    with spinner() as progress:
        progress(f"reading {escaped_line(arguments.file)}")
        loaded = sample() if arguments.file == "sample" else read_file(Path(arguments.file))
        found = f"{how_many(len(loaded.spots), 'spot')} and {how_many(len(loaded.tricks), 'trick')}"
        progress(f"keeping {found}")
        async with companion_tables(settings) as tables:
            await tables.load(loaded.spots, loaded.tricks)
    print(f"Loaded {found}.")
    return FINE


@asynccontextmanager
async def companion_tables(settings: "Settings") -> "AsyncIterator[CompanionTables]":
    """Open the companion's tables in the store of the settings; they are made where they are missing.

    Raises:
        PixiError: they cannot be opened, or the companion's data is kept by a host app.
    """
    from pixi.cli.console import Printer
    from pixi.companion.tables import SCHEMA, CompanionTables
    from pixi.core.errors import ConfigError
    from pixi.store.opening import open_store
    from pixi.store.tables import Tables

    given = settings.addon.get("companion", {}).get("data")
    if given is not None and given.value != "store":
        raise ConfigError(
            f"{given.place}: the companion's data is kept by an app: load and decide there, or write store."
        )
    store = await open_store(settings.store.url, Printer(settings.store.url).complain)
    try:
        tables = Tables(SCHEMA)
        await store.open_tables(tables)
        yield CompanionTables(tables)
    finally:
        await store.close()
