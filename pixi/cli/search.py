"""`pixi-persona search`: what a model would get from a search in a database."""

import argparse
from typing import TYPE_CHECKING

from pixi.cli.flags import number_to
from pixi.core.untrusted import json_line, printable_line

if TYPE_CHECKING:
    from pixi.knowledge.database import DirectoryDatabase
    from pixi.knowledge.entry import Found, Source
    from pixi.settings import Settings

HELP = "search a database, as a model would"


EMBEDDING_SECONDS = 20.0
"""Longest wait for vectors of what was read, where an embedding model is set."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        "Prints what a model would get from search_DATABASE_database. Mistyped words are read as what "
        "the documents hold."
    )
    parser.add_argument("database", metavar="DATABASE", help="a name from `pixi-persona databases`")
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a few words, in the documents' language")
    parser.add_argument("--limit", metavar="N", type=number_to(100), help="how many entries (default: 8)")
    parser.add_argument("--json", action="store_true", help="print exactly what the model gets, on one line")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Search and print."""
    from pixi.addons.knowledge import RESULTS, search_result
    from pixi.app.databases import open_library
    from pixi.cli.console import Printer, spinner
    from pixi.cli.store_access import recorded_usage

    name, query = arguments.database, " ".join(arguments.query)
    limit = arguments.limit or RESULTS
    with spinner() as progress:
        async with (
            recorded_usage(settings, asks=settings.embedding_model is not None) as count,
            open_library(settings, names=[name], reads=False, progress=progress, count=count) as library,
        ):
            (database,) = library.databases.values()
            await database.ready()
            untold = await embedded(database)
            progress("")
            if arguments.json:
                result = await search_result(database, query, limit)
                print(json_line(result))
            else:
                _print(database, query, await database.search(query, limit))
    if untold:
        Printer(settings).complain(printable_line(untold), about=printable_line(database.name))
    return 0


async def embedded(database: "DirectoryDatabase") -> str:
    """Wait a while for the vectors of what was read, if there are to be any; why there are not, else ""."""
    import asyncio

    try:
        async with asyncio.timeout(EMBEDDING_SECONDS):
            await database.embedded()
    except TimeoutError:
        return "some passages have no vectors yet; what was made is kept, and the next search goes on"
    return database.embedding_trouble


def _print(database: "DirectoryDatabase", query: str, found: "Found") -> None:
    """Print each hit with its place, and its snippet below with the words of the query set off."""
    from rich.padding import Padding
    from rich.text import Text

    from pixi.cli.console import unfolded
    from pixi.core.untrusted import display_line
    from pixi.text.relevance import spans_of

    console = unfolded()
    read_as = [(display_line(typed), display_line(word)) for typed, word in found.read_as]
    for typed, word in read_as:
        console.print(Text(f"“{typed}” was read as “{word}”.", style="dim"))
    if not found.hits:
        words = "It holds no documents." if not database.entries else "Try other words, or fewer."
        console.print(Text(f"Nothing was found in {display_line(database.name)}. {words}"))
    width = max((len(str(hit.source.entry)) for hit in found.hits), default=0)
    sought = [query, *(word for _, word in read_as)]
    for hit in found.hits:
        head = Text()
        head.append(f"{hit.source.entry:>{width}}  ", style="cyan")
        head.append(display_line(hit.source.title), style="bold")
        head.append(f"  {place_of(hit.source)}", style="dim")
        console.print(head, soft_wrap=True)
        snippet = Text(display_line(hit.snippet, longest=2_000))
        for start, end in spans_of(sought, snippet.plain) if console.is_terminal else ():
            snippet.stylize("bold", start, end)
        console.print(Padding(snippet, (0, 0, 0, width + 2), expand=False))


def place_of(source: "Source") -> str:
    """Return the place as people read it: the section, the file, and the line or the page."""
    from pixi.core.untrusted import display_line

    place = f", page {source.page}" if source.page else f":{source.line}" if source.line else ""
    return display_line(" · ".join(filter(None, (source.section, f"{source.path}{place}"))))
