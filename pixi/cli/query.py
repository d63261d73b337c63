"""`pixi-persona query`: has entries of a database read for a question, and shows what they say of it."""

import argparse
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pixi.core.errors import ConfigError, ToolError
from pixi.core.spending import how_many
from pixi.core.untrusted import json_line, printable_line

if TYPE_CHECKING:
    from pixi.settings import Settings

HELP = "let a model read a database for a question; the answer has its sources"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        "Prints what a model would get from query_DATABASE_database: the helper model reads entries, and "
        "what they say of the question comes back word for word, each with its place."
    )
    parser.add_argument("database", metavar="DATABASE", help="a name from `pixi-persona databases`")
    parser.add_argument("question", metavar="QUESTION", nargs="+", help="a whole question")
    parser.add_argument(
        "--ids",
        metavar="1,2",
        type=_ids,
        default=(),
        help="the entries to read, by ids from a search (default: the best that a search finds)",
    )
    parser.add_argument("--json", action="store_true", help="print exactly what the model gets, on one line")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Ask and print.

    Raises:
        ConfigError: there is no such database, no question, or none of the entries.
    """
    from pixi.addons.knowledge import query_result
    from pixi.app.databases import open_library
    from pixi.cli.console import Printer, spinner
    from pixi.cli.search import embedded
    from pixi.cli.store_access import recorded_usage

    name, question, ids = arguments.database, " ".join(arguments.question), arguments.ids
    with spinner() as progress:
        async with (
            recorded_usage(settings) as count,
            open_library(settings, names=[name], progress=progress, count=count) as library,
        ):
            (database,) = library.databases.values()
            await database.ready()
            unembedded = "" if ids else await embedded(database)
            progress("looking for what it says of that")
            try:
                result = await query_result(
                    database, library.agent, question, ids, count, seconds=math.inf, progress=progress
                )
            except ToolError as error:
                raise ConfigError(str(error)) from None
            progress("")
            trouble = library.agent.trouble
            named = [fact["source"]["id"] for fact in result["relevant"]]
            paths = {entry.id: entry.path for entry in await database.read(named)}
    if arguments.json:
        print(json_line(result))
    else:
        _print(result, paths)
    unread = f"the model that reads did not: {trouble}" if trouble else unembedded
    for line in filter(None, (*_untold(result), unread)):
        Printer(settings).complain(printable_line(line), about=name)
    return 0


def _print(result: Mapping[str, Any], paths: Mapping[int, str]) -> None:
    """Print the passages, each with its place; behind them the reader's notes."""
    from rich.padding import Padding
    from rich.text import Text

    from pixi.cli.console import unfolded
    from pixi.cli.search import place_of
    from pixi.knowledge.entry import Source

    console = unfolded()
    for fact in result["relevant"]:
        told = dict(fact["source"])
        number = told.pop("id")
        source = Source(number, path=paths.get(number, ""), **told)
        console.print(Text(printable_line(fact["fact"])))
        place = " · ".join(filter(None, (source.title, place_of(source))))
        console.print(Padding(Text(f"{place} · id {number}", style="dim"), (0, 0, 0, 2), expand=False))
    if note := result.get("note"):
        console.print(Text(printable_line(note)))
    if dropped := result.get("dropped"):
        named = how_many(dropped, "thing")
        console.print(Text(f"The reader named {named} besides that no document says.", style="dim"))


def _untold(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the ids that gave nothing."""
    for key, why in (("unknown_ids", "there is no entry"), ("not_read", "too many at once, not read:")):
        if ids := result.get(key):
            yield f"{why} {', '.join(map(str, ids))}."


def _ids(word: str) -> tuple[int, ...]:
    try:
        ids = tuple(int(each) for each in word.split(",") if each.strip())
    except ValueError:
        ids = ()
    if not ids:
        raise argparse.ArgumentTypeError(f"{word!r} is no list of ids; write them as 12,34")
    return ids
