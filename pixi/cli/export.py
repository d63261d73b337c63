"""`pixi-persona export`: everything that is kept of a person, as JSON."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.cli.exits import FINE

if TYPE_CHECKING:
    from pixi.settings import Settings

HELP = "print everything that is kept of a person, as JSON"

EPILOG = """\
examples:
  pixi-persona export 219384756102938475 > mo.json
  pixi-persona export Mo --output mo.json      (which nobody else on this machine may read)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "user", metavar="USER", help="the id of the author, or their name, if only one person has it"
    )
    parser.add_argument("--output", metavar="FILE", help="a new file to write (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    from pixi.cli.running import run_async
    from pixi.settings import load

    settings = load(arguments.config)
    output = None if arguments.output is None else Path(arguments.output).expanduser()
    return run_async(_export(settings, arguments.user, output))


async def _export(settings: "Settings", user: str, output: Path | None) -> int:
    from pixi.cli.console import Printer
    from pixi.cli.store_access import find_person, opened

    async with opened(settings) as store:
        person = await find_person(store, user)
        kept = await store.export(person.id)
    text = json.dumps(kept, ensure_ascii=output is None, indent=2)
    if output is None:
        print(text)
    else:
        write_private(output, text)
        Printer().complain(f"written to {output}; only you may read it.")
    return FINE


def write_private(path: Path, text: str) -> None:
    """Write a new file that nobody but its owner may read.

    Raises:
        ConfigError: it is there already, or cannot be written.
    """
    from pixi.core.errors import ConfigError

    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name another file.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be written ({reason}); name another file.") from None
