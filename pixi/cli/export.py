"""`pixi-persona export`: everything that is kept of a person, as JSON."""

import argparse
import json
import os
from functools import partial
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
    parser.add_argument(
        "user", metavar="USER", help="the id of the author, or their name, if only one person has it"
    )
    parser.add_argument("--output", metavar="FILE", help="a new file to write (default: standard output)")


async def work(settings: "Settings", arguments: argparse.Namespace) -> int:
    """Print it, or write it to a new file."""
    from pixi.cli.console import Printer
    from pixi.cli.store_access import find_person, store_with_addons

    output = arguments.output
    async with store_with_addons(settings) as store:
        person = await find_person(store, arguments.user)
        kept = await store.export(person.id)
    text = json.dumps(kept, ensure_ascii=output is None, indent=2)
    if output is None:
        print(text)
    else:
        path = _write(output, text)
        Printer().complain(f"written to {path}; only you may read it.")
    return FINE


def _write(name: str, text: str) -> Path:
    """Write a new file that nobody but its owner may read; return its path.

    Raises:
        ConfigError: it is there already, or cannot be written.
    """
    from pixi.core.errors import ConfigError

    path = Path(name).expanduser()
    try:
        with open(path, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
            file.write(f"{text}\n")
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name another file.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be written ({reason}); name another file.") from None
    return path
