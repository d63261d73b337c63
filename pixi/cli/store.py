"""`pixi-persona store`: copy a store to another database, whole and checked."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE
from pixi.core.errors import ConfigError

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.copying import Show
    from pixi.store.tables import Schema

HELP = "copy the store to another database, e.g. from a file to a PostgreSQL server"

EPILOG = """\
copy: everything that a store holds goes to another one: talks, memories, use, keys, audit, the tables of
addons, and the files that people sent over HTTP. The other one must be empty; it is made if it is missing.
Stop the bot first, and start it again with the new address in [store] url. The old store stays as it is.

A copy that was cut, by Ctrl-C or a lost connection, goes on where it was when you run it again. Until it is
whole, nothing can use it. At the end both stores are read again and compared, table by table.

A file is enough for one machine. docs/scale.md says when a server is better.

examples:
  pixi-persona store copy sqlite:///pixi.db postgresql://pixi@db.example.org/talks
  pixi-persona store copy postgresql://pixi@db.example.org/talks sqlite:///pixi.db
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="copy")
    copy = actions.add_parser(
        "copy",
        help="copy everything to an empty store",
        description="Copy everything that a store holds to an empty one, and compare the two.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    copy.add_argument("source", metavar="FROM", help="the store to read, as in [store] url")
    copy.add_argument("target", metavar="TO", help="the store to fill, as it will be in [store] url")


def run(arguments: argparse.Namespace) -> int:
    """Copy, and say in a line what came of it."""
    from pixi.cli.console import Printer
    from pixi.cli.running import interruptible
    from pixi.core.spending import how_many
    from pixi.settings import load
    from pixi.store.copying import StoreCopy
    from pixi.store.opening import open_side

    _check_url("FROM", arguments.source)
    _check_url("TO", arguments.target)
    settings = load(arguments.config)
    printer = Printer([settings, arguments.source, arguments.target])
    schemas = _addon_tables(settings)
    try:
        with interruptible():
            with _progress() as show, closing(open_side(arguments.source, is_target=False)) as source:
                copy = StoreCopy(source, schemas, show)
                copy.look()
                with closing(open_side(arguments.target, is_target=True)) as target:
                    copied, name = copy.fill(target), target.name
            files = _copy_files(settings, arguments.source, arguments.target)
    except KeyboardInterrupt:
        printer.complain("stopped; run it again to go on from here.")
        raise
    done = "Nothing to copy" if copied.was_there else "Copied and checked"
    sent = f", and {how_many(files, 'file')} that people sent" if files else ""
    printer.say(
        f"{done}: {how_many(copied.tables, 'table')} with {how_many(copied.rows, 'row')} are the same in "
        f"{name}{sent}. Name it in [store] url, and start."
    )
    return FINE


def _check_url(argument: str, url: str) -> None:
    from pixi.store.opening import is_postgres

    if not is_postgres(url) and not url.startswith("sqlite://"):
        raise ConfigError(
            f"store copy: {argument} names no store; write sqlite:///pixi.db, sqlite:////folder/pixi.db or "
            "postgresql://user@host:5432/database."
        )


def _addon_tables(settings: "Settings") -> "Mapping[str, Schema]":
    """Return the tables of the addons of the settings, by name of the addon."""
    from contextlib import redirect_stdout

    from pixi.app.addons import load_all
    from pixi.cli.console import Printer
    from pixi.toolbox.addon import AddonExtras
    from pixi.toolbox.commands import CommandRegistry
    from pixi.toolbox.tools import Toolbox

    brought = AddonExtras()
    with redirect_stdout(sys.stderr):
        load_all(settings, (), CommandRegistry(), Toolbox(), Printer(settings).complain, brought=brought)
    return {tables.schema.name: tables.schema for tables in brought.tables}


def _copy_files(settings: "Settings", source: str, target: str) -> int:
    """Copy the files that people sent over HTTP, for each store has a folder; return how many."""
    from pixi.channels.http.files import files_folder

    old, new = (files_folder(settings.http.files, url) for url in (source, target))
    if old == new or not old.is_dir():
        return 0
    new.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = [file for file in old.iterdir() if not file.name.startswith("coming-")]
    for file in files:
        if not (new / file.name).exists():
            part = new / f"coming-{file.name}"
            shutil.copy2(file, part)
            part.replace(new / file.name)
    return len(files)


@contextmanager
def _progress() -> "Iterator[Show]":
    """Draw on the terminal how far it is; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda doing, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        shown = ""

        def show(doing: str, done: int, total: int) -> None:
            nonlocal shown
            if doing != shown:
                progress.reset(task, description=doing, total=total or None)
                shown = doing
            progress.update(task, completed=done)

        yield show
