"""`pixi-persona models`: which models there are, here and to be fetched; fetches one, or tries one."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FAILED, FINE
from pixi.cli.flags import agreed
from pixi.core.errors import ConfigError
from pixi.core.untrusted import json_line

if TYPE_CHECKING:
    from rich.text import Text

    from pixi.cli.console import Printer
    from pixi.models.hub import CatalogueModel, HubFile
    from pixi.models.machine import FoundServer, Trial

HELP = "list models, on this machine and to download; `get` downloads one, `try` tests one"

EPILOG = """\
examples:
  pixi-persona models
  pixi-persona models get qwen2.5-1.5b
  pixi-persona models try qwen2.5-1.5b
  pixi-persona models try qwen3:8b            (a name at a server of this machine)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and the two things that can be done with a model."""
    parser.description = (
        "Lists what the model servers of this machine offer, the .gguf files that are here, and open models "
        "that can be fetched: how large they are, and how fast they would be here."
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--speed", action="store_true", help="measure again how fast this machine is")
    actions = parser.add_subparsers(dest="action", metavar="", parser_class=type(parser))
    get = actions.add_parser("get", help="fetch a model of the list from the Hugging Face Hub")
    get.add_argument("name", metavar="NAME", help="a name from `pixi-persona models`")
    get.add_argument("--yes", action="store_true", help="fetch it without asking")
    tried = actions.add_parser("try", help="have a model answer five lines, and show how well it does")
    tried.add_argument(
        "name",
        metavar="NAME",
        help="`local`, a .gguf file, a fetched model of the list, or a name at a server",
    )
    tried.add_argument("--base-url", metavar="URL", help="the address of the server")
    tried.add_argument("--persona", metavar="NAME-or-FILE", help="who answers (default: as in a chat)")
    tried.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object a line"
    )


def run(arguments: argparse.Namespace) -> int:
    """List, fetch or try."""
    from pixi.cli.running import run_async

    match arguments.action:
        case "get":
            return _get(arguments.name, sure=arguments.yes)
        case "try":
            from pixi.cli.models_try import attempt

            return run_async(
                attempt(
                    arguments.config,
                    arguments.name,
                    arguments.base_url,
                    arguments.persona,
                    as_json=arguments.json,
                )
            )
        case _:
            return run_async(_list(as_json=arguments.json, again=arguments.speed))


@dataclass(frozen=True, slots=True)
class _Here:
    """The list to show: servers, files, and what this machine can do."""

    servers: "tuple[FoundServer, ...]"
    bundled: Path | None
    files: tuple[Path, ...]
    memory: int | None
    trial: "Trial | None"


async def _list(*, as_json: bool, again: bool) -> int:
    from rich.console import Console

    from pixi.cli.console import spinner
    from pixi.models.hub import cached_files
    from pixi.models.machine import find_servers, memory_bytes, trial
    from pixi.models.weights import cached, installed

    with spinner() as progress:
        servers = await find_servers()
        made = await trial(progress, again=again)
    bundled = installed() or cached()
    here = _Here(
        servers, bundled, tuple(path for path in cached_files() if path != bundled), memory_bytes(), made
    )
    if as_json:
        for each in _as_json(here):
            print(json_line(each))
    else:
        console = Console(soft_wrap=True, highlight=False)
        for line in _lines(here):
            console.print(line)
    return FINE


def _as_json(here: _Here) -> Iterator[dict[str, object]]:
    """Yield an object for this machine, and for each server, file and model to be fetched."""
    from pixi.models.hub import catalogue

    made = here.trial
    yield {
        "kind": "machine",
        "memory_bytes": here.memory,
        "trial": None if made is None else {"bytes": made.bytes, "tokens_per_second": made.tokens_per_second},
    }
    for server in here.servers:
        yield {
            "kind": "server",
            "server": server.kind,
            "base_url": server.base_url,
            "state": server.state,
            "models": list(server.models),
        }
    if here.bundled is not None:
        yield {"kind": "file", "name": "local", **_file_as_json(here.bundled, made)}
    for path in here.files:
        yield {"kind": "file", "name": str(path), **_file_as_json(path, made)}
    for model in catalogue():
        yield {
            "kind": "catalogue",
            **{key: getattr(model, key) for key in model.__struct_fields__},
            "path": str(model.path) if model.fetched else None,
            "fits": None if here.memory is None else model.memory_bytes <= here.memory,
            "tokens_per_second": None if made is None else round(made.expected(model.bytes), 1),
        }


def _file_as_json(path: Path, made: "Trial | None") -> dict[str, object]:
    size = path.stat().st_size
    speed = None if made is None else round(made.expected(size), 1)
    return {"path": str(path), "bytes": size, "tokens_per_second": speed}


def _lines(here: _Here) -> "Iterator[Text]":
    """Yield three parts, each line short enough for a narrow terminal."""
    from rich.text import Text

    from pixi.models.hub import catalogue

    yield Text("Servers on this machine", style="dim")
    for server in here.servers:
        yield Text.assemble((server.kind, "bold"), (f"  {server.base_url}", "dim"))
        if server.state != "lists":
            said = "wants a key" if server.state == "locked" else "took the connection and does not answer"
            yield Text(f"  {said}", style="yellow")
        elif not server.models:
            yield Text("  lists no model", style="yellow")
        yield from (Text(f"  {name}") for name in server.models)
    if not here.servers:
        yield Text("  none: no Ollama, and no other known server")
    yield Text("\nFiles", style="dim")
    bundled = "fetched at the first start"
    if here.bundled is not None:
        speed = f" · {here.trial.tokens_per_second:.0f} tokens/s" if here.trial else ""
        bundled = f"{_size(here.bundled.stat().st_size)}{speed}"
    yield Text.assemble(("local", "bold"), f"  the bundled model · {bundled}")
    for path in here.files:
        size = path.stat().st_size
        yield Text(str(path), style="bold")
        yield Text(f"  {_size(size)}{_speed(size, here)}")
    yield Text("\nTo download: pixi-persona models get NAME", style="dim")
    for model in catalogue():
        yield Text.assemble((model.name, "bold"), ("  fetched", "green") if model.fetched else "")
        yield Text(f"  {model.parameters:g}B parameters · {model.licence} · {_size(model.bytes)}")
        yield Text(f"  {_size(model.memory_bytes)} of memory{_speed(model.bytes, here)}")
        yield Text(f"  {' '.join(model.languages)}", style="dim")
        if misfit := misfit_of(model, here.memory):
            yield Text(f"  {misfit}", style="yellow")
    yield Text(f"\n{_told_speed(here.trial)}", style="dim")


def misfit_of(model: "CatalogueModel", memory: int | None) -> str:
    """Return a line about a model that is too large for this machine's memory; "" where it fits."""
    if memory is None or model.memory_bytes <= memory:
        return ""
    return f"too large: this machine has {_size(memory)}"


def _speed(size: int, here: _Here) -> str:
    if here.trial is None:
        return ""
    speed = here.trial.expected(size)
    return f" · about {speed:.0f} tokens/s here" if speed >= 2 else f" · about {speed:.1f} tokens/s here"


def _told_speed(made: "Trial | None") -> str:
    if made is None:
        return (
            "How fast they would be is not known: that is\nmeasured by the bundled model, which is not here."
        )
    return (
        f"Estimates: the bundled model wrote {made.tokens_per_second:.0f} tokens/s,\n"
        "and the others are scaled by their size.\n"
        "--speed measures again."
    )


def _size(count: int) -> str:
    from rich.filesize import decimal

    return decimal(count)


def _get(name: str, *, sure: bool) -> int:
    import asyncio

    from pixi.cli.console import Printer, spinner
    from pixi.cli.running import interruptible
    from pixi.models.hub import catalogue, find_in_catalogue, look_up
    from pixi.settings.values import nearest

    model = find_in_catalogue(name)
    if model is None:
        known = nearest(name, (each.name for each in catalogue()))
        raise ConfigError(f"There is no {name!r} among the models that can be fetched{known}")
    if model.fetched:
        print("It is here already.")
        _tell_of(model)
        return FINE
    if not sure and not sys.stdin.isatty():
        raise ConfigError(
            f"Nobody can be asked here whether to fetch {_size(model.bytes)} to {model.path}.\n"
            f"Run: pixi-persona models get {model.name} --yes"
        )
    with interruptible(), spinner() as progress:
        progress(f"asking for {model.repository}")
        file = asyncio.run(look_up(model))
    for line in _offer(model, file):
        print(line)
    if not sure and not agreed("Fetch it?"):
        print("Nothing was fetched.")
        return FAILED
    download(model, Printer(), file)
    _tell_of(model)
    return FINE


def download(model: "CatalogueModel", printer: "Printer", file: "HubFile | None" = None) -> Path:
    """Fetch a model, with a spinner, and return its path. `file`: what the hub said of it, if it was asked.

    Raises:
        PixiError: it cannot be had.
        KeyboardInterrupt: the person stops it; what was fetched is kept.
        SystemExit: another signal does.
    """
    import asyncio

    from pixi.cli.console import spinner
    from pixi.cli.running import interruptible
    from pixi.models.hub import fetch

    try:
        with interruptible(), spinner() as progress:
            return asyncio.run(fetch(model, progress=printer.redacted(progress), file=file))
    except (KeyboardInterrupt, SystemExit):
        printer.complain("stopped. What was fetched is kept: do the same again, and it goes on from there.")
        raise


def _offer(model: "CatalogueModel", file: "HubFile") -> Iterator[str]:
    """Yield what somebody wants to know before they say yes."""
    from pixi.models.hub import free_bytes
    from pixi.models.machine import memory_bytes

    yield f"{model.name}: {model.parameters:g}B parameters, licence {model.licence}"
    yield f"  from   {model.repository}"
    yield f"  to     {model.path}"
    yield f"  size   {_size(file.bytes)}, and {_size(free_bytes(model.path.parent))} are free there"
    yield f"  memory {_size(model.memory_bytes)} in a talk"
    if misfit := misfit_of(model, memory_bytes()):
        yield f"  {misfit}"


def _tell_of(model: "CatalogueModel") -> None:
    """Print how a model that was fetched is used."""
    from pixi.settings.sources import lines_of

    (line,) = lines_of({"name": str(model.path)})
    print(f"{model.path}\n\nTo talk to it, write into pixi.toml:\n\n[model]\n{line}\n")
    print(f"or run: pixi-persona chat --model {model.name}")
