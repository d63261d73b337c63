"""`pixi-persona personas`: which personas there are, and what is wrong with any."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from pixi.core.persona import on_bundled
from pixi.core.untrusted import display_line, display_path, json_line
from pixi.personas.files import BrokenPersona, Found, LoadedPersona, list_personas, shipped_folder

if TYPE_CHECKING:
    from pixi.settings import Settings

HELP = "list the personas and their faults"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 where a file is broken or something in it is amiss"
    )


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Print the list. 0, or with `--check` 1 where anything is amiss."""
    from pixi.app.checking import find_missing, persona_form, with_missing
    from pixi.app.personas import folders_of

    found = list_personas(folders_of(settings))
    readable = [(each, each if isinstance(each, LoadedPersona) else each.loaded) for each in found]
    missing = iter(await find_missing(settings, [loaded for _, loaded in readable if loaded is not None]))
    found = [
        each if loaded is None else with_missing(each, next(missing), settings) for each, loaded in readable
    ]
    if arguments.json:
        for each in found:
            print(json_line(to_builtins(persona_form(each))))
    else:
        _print_table(found, bundled=settings.model.name == "local")
    amiss = any(isinstance(each, BrokenPersona) or each.remarks for each in found)
    return 1 if arguments.check and amiss else 0


def _print_table(found: Sequence[Found], *, bundled: bool) -> None:
    """Print aligned lines, coloured on a terminal alone. `bundled`: they speak on the bundled model."""
    from rich.cells import cell_len, set_cell_size
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    names = [
        each.persona.name if isinstance(each, LoadedPersona) else display_path(Path(each.path.stem))
        for each in found
    ]
    files = [_place(each.path) for each in found]
    widest_name, widest_file = (max(map(cell_len, column), default=0) + 2 for column in (names, files))
    for each, name, file in zip(found, names, files, strict=True):
        fine = isinstance(each, LoadedPersona)
        line = Text(set_cell_size(name, widest_name), style="bold" if fine else "bold red")
        line.append(set_cell_size(file, widest_file), style="not bold dim")
        line.append(each.persona.about if isinstance(each, LoadedPersona) else "broken", style="not bold")
        line.rstrip()
        console.print(line)
        for used in _used(each, bundled=bundled):
            console.print(Text("  " + used, style="dim"))
        for problem in _problems(each):
            console.print(Text("  " + problem, style="yellow" if fine else "red"))


def _place(path: Path) -> str:
    """Return the place of the file; files that came with the package are named without their folder."""
    ours = path.parent == shipped_folder() or path.is_relative_to(Path(__file__).parent.parent)
    return f"{path.name} (comes with Pixi)" if ours else display_path(path)


def _used(found: Found, *, bundled: bool) -> Iterator[str]:
    """List what a persona has besides commands, a line for each kind, and what its model cannot use."""
    if not isinstance(found, LoadedPersona):
        return
    if found.persona.databases:
        yield display_line(f"looks things up in {', '.join(found.persona.databases)}", 40)
    if found.persona.tools:
        yield display_line(f"has the tools {', '.join(found.persona.tools)}", 40)
    if bundled and (found.persona.databases or found.persona.tools):
        from pixi.models.weights import SMOLLM2

        yield display_line(on_bundled(found.persona, SMOLLM2.languages), 200)


def _problems(found: Found) -> list[str]:
    if isinstance(found, BrokenPersona):
        return [*found.faults]
    from pixi.app.checking import placed

    return placed(found.path, found.remarks)
