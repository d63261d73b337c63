"""`pixi-persona databases`: which databases there are, how far each was read, and what is wrong with any."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.core.errors import ConfigError
from pixi.core.untrusted import display_line, json_line, name_key

if TYPE_CHECKING:
    from rich.console import Console

    from pixi.app.databases import DatabaseState
    from pixi.settings import Settings

HELP = "list the databases, how far each was read, and their faults"

_HEAD = ("database", "entries", "files", "size", "state", "folder")
_NUMBERS = (1, 2, 3)  # the columns of `_HEAD` that are numbers
_KINDS = 5  # of files that are no documents, which are named
_FAULTS = 20  # lines for what was set aside in one database; `--json` has them all


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.description = (
        "Lists every folder of documents that a persona can look things up in. What is new in one is read "
        "for some seconds; a large folder is read on by the next command, or while personas talk."
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a folder is broken or a file was set aside"
    )


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Print the list. 0, or with `--check` 1 where anything is amiss."""
    from pixi.app.databases import database_refs, folders_of, inspect_all
    from pixi.cli.console import spinner
    from pixi.core.untrusted import display_path

    refs = database_refs(settings)
    with spinner() as progress:
        found = [each async for each in inspect_all(refs, progress)]
    if arguments.json:
        for each in found:
            print(json_line(each.to_json()))
    elif found:
        _print_table(found, _named_by_personas(settings))
    else:
        own = display_path(folders_of(settings)[0])
        print(f"There are none. Make a folder in {own}, with documents in it: it is a database.")
    amiss = any(each.trouble or each.faults for each in found)
    return FAILED if arguments.check and amiss else FINE


def _named_by_personas(settings: "Settings") -> set[str] | None:
    """Return the names that stand in files of personas, as keys; None if the files cannot be found."""
    from pixi.app.personas import folders_of
    from pixi.personas.files import LoadedPersona, list_personas

    try:
        files = list_personas(folders_of(settings))
    except ConfigError:
        return None
    loaded = (each if isinstance(each, LoadedPersona) else each.loaded for each in files)
    return {name_key(name) for each in loaded if each is not None for name in each.persona.databases}


def _print_table(found: "Sequence[DatabaseState]", named: set[str] | None) -> None:
    """Print aligned columns; below each row what it is about, who uses it, and what is wrong with it."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    rows = [_cells(each) for each in found]
    widths = [max(map(cell_len, column)) for column in zip(_HEAD, *rows, strict=True)]

    def aligned(cells: Sequence[str], styles: Sequence[str]) -> Text:
        line = Text()
        for place, (cell, width, style) in enumerate(zip(cells, widths, styles, strict=True)):
            gap = " " * (width - cell_len(cell))
            line.append(f"{gap}{cell}  " if place in _NUMBERS else f"{cell}{gap}  ", style)
        line.rstrip()
        return line

    console.print(aligned(_HEAD, ["dim"] * len(_HEAD)))
    for each, cells in zip(found, rows, strict=True):
        state = "red" if each.trouble else "green" if each.state == "ready" else "yellow"
        name = "bold red" if each.trouble else "bold"
        console.print(aligned(cells, (name, "", "", "", state, "dim")))
        _print_below(console, each)
        if named is not None and not each.ref.shipped and name_key(each.ref.name) not in named:
            mend = f"`databases: [{display_line(each.ref.name)}]` in its file lets a persona search here"
            console.print(Text(f"  no persona names it: {mend}", style="yellow"))


def _cells(each: "DatabaseState") -> tuple[str, ...]:
    from rich.filesize import decimal

    from pixi.core.untrusted import display_path

    place = "comes with Pixi" if each.ref.shipped else display_path(each.ref.folder)
    name = display_line(each.ref.name)
    return (name, f"{each.entries:,}", f"{each.files:,}", decimal(each.bytes), each.state, place)


def _print_below(console: "Console", each: "DatabaseState") -> None:
    from rich.text import Text

    about = Text(f"  {_about(each)}", style="dim")
    if console.is_terminal:
        about.truncate(console.width, overflow="ellipsis")
    console.print(about)
    if each.passed_over:
        console.print(Text(f"  {passed_over(each)}", style="dim"))
    for problem in _problems(each):
        console.print(Text(f"  {problem}", style="red" if each.trouble else "yellow"))


def _about(each: "DatabaseState") -> str:
    if not each.about:
        return "a README.md in the folder would tell the persona what is in it"
    return display_line(f"{each.title}: {each.about}", longest=200)


def passed_over(each: "DatabaseState") -> str:
    """Return the files that are no documents, in a line; "" where there are none."""
    commonest = sorted(each.passed_over.items(), key=lambda kind: -kind[1])
    told = ", ".join(f"{count:,} {suffix or 'without a suffix'}" for suffix, count in commonest[:_KINDS])
    more = ", …" if len(commonest) > _KINDS else ""
    return f"no documents, passed over: {told}{more}" if told else ""


def _problems(each: "DatabaseState") -> Iterator[str]:
    """Yield a line for each fault."""
    if each.trouble:
        yield display_line(each.trouble)
    for fault in each.faults[:_FAULTS]:
        yield display_line(f"{fault.path}: {fault.reason}" if fault.path else fault.reason)
    if len(each.faults) > _FAULTS:
        yield f"and {len(each.faults) - _FAULTS:,} more files that were set aside: --json lists them all"
